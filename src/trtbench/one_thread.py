"""Import numpy without threads for its linear algebra, before anything else does.

Its BLAS would start one for each core, and nothing here multiplies large matrices. Whoever set a
number keeps it, and libraries that are loaded later find the environment as it was.
"""

from __future__ import annotations

import os

_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")

if not any(name in os.environ for name in _VARIABLES):
    os.environ[_VARIABLES[0]] = "1"
    import numpy  # noqa: F401

    del os.environ[_VARIABLES[0]]
