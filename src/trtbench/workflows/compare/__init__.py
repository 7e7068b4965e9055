"""Two sides and a verdict: in turn, stored, gated.

Does not know builds, checks and sweeps.
"""
