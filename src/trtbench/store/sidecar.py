"""Records that lie beside models, engines and runs: often missing, sometimes somebody else's."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from trtbench.domain.codec import value_from_json
from trtbench.errors import InputError

T = TypeVar("T")


def kept_value(path: Path, kind: type[T]) -> T | None:
    """Read a record nobody asked for by name; ``None`` where there is none of this kind."""
    try:
        return value_from_json(path.read_bytes(), kind, where=str(path))
    except (OSError, InputError):
        return None
