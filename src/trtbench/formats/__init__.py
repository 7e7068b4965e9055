"""Files of other tools, written from runs under their names, with right contents.

Knows their layouts and definitions; does not know where runs come from or go to.
"""
