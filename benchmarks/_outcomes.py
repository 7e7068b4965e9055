"""Outcomes of comparisons, a line each: what a benchmark that can be stopped and resumed keeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def read(path: Path | None, kind: type[T]) -> list[T]:
    """Read what was kept before; nothing where there is no file yet."""
    if path is None or not path.exists():
        return []
    return [kind(**json.loads(line)) for line in path.read_text().splitlines()]


def keep(path: Path | None, outcome: Any) -> None:
    """Add one to the file, where there is one."""
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")


def conclude(table: str, problems: Sequence[str]) -> int:
    """Print the table and the goals that do not hold; gives the exit status."""
    print(table)
    print("\nThe goals hold." if not problems else "\nBroken: " + "; ".join(problems) + ".")
    return 1 if problems else 0
