"""One file per way to build an engine."""
