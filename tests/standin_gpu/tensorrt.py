"""Stands in for the module ``tensorrt`` in a child process: put this folder on PYTHONPATH."""

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from gpu_standin import TRT

__version__ = TRT.__version__


def __getattr__(name: str) -> Any:
    return getattr(TRT, name)
