"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(found: Callable[[], T]) -> T:
    """Wait until something is so; what never comes ends with the time of the test, by name."""
    while not (value := found()):
        time.sleep(0.02)
    return value
