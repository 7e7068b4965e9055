"""Files of other tools: one value for each, which the writer and the importer share.

Knows their layouts and definitions; does not know where runs come from or go to.
"""
