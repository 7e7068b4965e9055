"""From PyTorch to ONNX, to other precisions, to engines; ``builders`` holds the plug-ins.

Does not know comparisons, sweeps and the command line.
"""
