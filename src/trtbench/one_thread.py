"""Import numpy without threads for its linear algebra, before anything else does.

Its BLAS would start a thread for each core, and nothing here multiplies large matrices. A number
of threads that the user has set is kept, and the environment is restored for other libraries.
"""

import os

from trtbench.host.early_context import THREADS

if not any(name in os.environ for name in THREADS):
    os.environ[THREADS[0]] = "1"
    import numpy  # noqa: F401

    del os.environ[THREADS[0]]
