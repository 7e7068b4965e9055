"""trtbench builds, benchmarks, profiles, checks and compares TensorRT engines.

Importing this package loads nothing heavy; each public name is imported when it is first used.
"""

from __future__ import annotations

__version__ = "0.1.0"
