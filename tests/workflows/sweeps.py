"""Matrices that take no time to measure."""

from pathlib import Path
from typing import Any

from trtbench.sweep.matrix import Matrix, matrix_from_table

SHORT = {"duration": "20ms", "warmup": "5ms", "until_steady": False, "threads": 1}


def matrix(*models: Path | str, **changes: Any) -> Matrix:
    options = {**SHORT, **changes.pop("options", {})}
    table = {"models": [str(each) for each in models], "options": options, **changes}
    return matrix_from_table(table, where="test")
