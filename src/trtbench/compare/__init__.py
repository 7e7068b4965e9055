"""Compare two sides, measured in turn or stored, and gates. Does not know builds and sweeps."""
