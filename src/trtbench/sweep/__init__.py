"""Sweeps: many measurements from one matrix, planned, run in rounds, and resumable."""
