"""Stands in for ``cuda.bindings.runtime`` in a child process."""

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

from gpu_standin import CUDA


def __getattr__(name: str) -> Any:
    return getattr(CUDA, name)
