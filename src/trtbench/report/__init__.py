"""Documents made from runs (``sections``) and written in any format (``renderers``).

Does not know stores, processes or GPUs: it converts runs to text, pictures and bytes.
"""
