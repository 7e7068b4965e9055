"""Compare outputs, evaluate models on data, find layers that lose accuracy. No verdicts on time."""
