"""File formats of other tools: one value per file, for writing and importing.

Knows their layouts and definitions; does not know where runs are stored.
"""
