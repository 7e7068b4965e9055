"""Import numpy without threads for its linear algebra, before anything else does.

Its BLAS would start one for each core, and nothing here multiplies large matrices. Whoever set a
number keeps it, and libraries that are loaded later find the environment as it was.
"""

from __future__ import annotations

import os

from trtbench.host.early_context import THREADS

if not any(name in os.environ for name in THREADS):
    os.environ[THREADS[0]] = "1"
    import numpy  # noqa: F401

    del os.environ[THREADS[0]]
