"""Outputs compared, models evaluated on data, layers that lose accuracy. Does not know verdicts."""
