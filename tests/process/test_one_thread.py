"""Processes start without threads that they have no use for."""

import os
import sys

import pytest

from waiting import printed

TOLD = "import os; print(len(os.listdir('/proc/self/task')), 'OPENBLAS_NUM_THREADS' in os.environ)"


@pytest.mark.parametrize("module", ["trtbench.worker", "trtbench.one_thread"])
def test_numpy_brings_no_threads_and_leaves_no_trace(module: str) -> None:
    kept = {name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name}
    code = f"import {module}, numpy; {TOLD}"
    assert printed([sys.executable, "-c", code], env=kept).split() == ["1", "False"]
