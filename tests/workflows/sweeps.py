"""Matrices that take no time to measure."""

import json
from pathlib import Path
from typing import Any

from trtbench.sweep.matrix import Matrix, matrix_from_table
from trtbench.sweep.records import JOURNAL

SHORT = {"duration": "20ms", "warmup": "5ms", "until_steady": False, "threads": 1}


def matrix(*models: Path | str, **changes: Any) -> Matrix:
    options = {**SHORT, **changes.pop("options", {})}
    table = {"models": [str(each) for each in models], "options": options, **changes}
    return matrix_from_table(table, where="test")


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())["rows"]
    return rows


def runs_of(folder: Path) -> list[str]:
    """The finished runs of a sweep, in order."""
    lines = [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]
    return [line["run"] for line in lines if line["what"] == "done"]
