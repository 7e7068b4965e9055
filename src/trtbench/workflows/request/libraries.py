"""Libraries that only some wishes need, imported when they are wished for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from trtbench.errors import UnavailableError


def optional_library(name: str, extra: str) -> Any:
    """Import a library of an extra; without it, say which extra brings it."""
    loading: Callable[[str], Any] = importlib.import_module
    try:
        return loading(name)
    except ImportError as problem:
        raise UnavailableError(
            f"{extra} needs a library that is not installed",
            facts={"reason": problem},
            fix=f"pip install 'trtbench[{extra}]'",
        ) from None
