"""Documents made from runs (``sections``) and written in any format (``renderers``).

Does not know stores, processes or GPUs; it is handed runs and gives back text, pictures and bytes.
"""
