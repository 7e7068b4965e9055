"""Two sides and a verdict: measured in turn, or stored; gates. Does not know builds and sweeps."""
