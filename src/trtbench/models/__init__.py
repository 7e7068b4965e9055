"""Models as files and by name: identity, format, PyTorch sources.

Knows files and PyTorch on use; does not know how models are run or built.
"""
