"""Models made from models: export, quantize, build.

Does not know how they are measured or judged.
"""
