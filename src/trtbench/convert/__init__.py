"""Converts PyTorch to ONNX, ONNX to other precisions and to engines (``builders``: plug-ins).

Does not know comparisons, sweeps and the command line.
"""
