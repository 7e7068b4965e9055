"""Stands in for ``cuda.bindings``."""
