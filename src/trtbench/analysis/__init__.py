"""Pure functions on domain values: statistics, verdicts, findings, layer tables.

Does not know where values came from, and reaches no file, process, GPU or database.
"""
