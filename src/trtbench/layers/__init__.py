"""Where the time of an engine goes: layers joined, grouped, aligned with another's, and explained.

Knows profiles, layer information and ONNX nodes as values; not files, machines or screens.
"""
