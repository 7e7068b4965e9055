"""Frozen values: what is asked for, what was measured, what was concluded, and their JSON form.

Knows no files, no processes and no GPUs; a value never opens, probes, prints or sets anything.
"""
