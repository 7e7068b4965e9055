"""The keys of times files, and the phases they stand for."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from trtbench.domain.samples import Column

_STAMPS = ("Enq", "H2d", "Compute", "D2h", "In", "Out")
_DURATIONS = {
    "latency": ("latencyMs",),
    "enqueue": (),
    "h2d": ("h2dMs", "inMs"),
    "gpu": ("computeMs",),
    "d2h": ("d2hMs", "outMs"),
    "end_to_end": ("endToEndMs",),
}
"""What any trtexec wrote, by the name of the column it becomes."""

_OTHER_WORDS = {
    "latency": ("latency", "hostlatency", "totallatency", "latencytime"),
    "enqueue": ("enqueue", "enqueuetime"),
    "h2d": ("h2d", "h2dlatency", "in"),
    "gpu": ("compute", "gpu", "gpucompute", "gpucomputetime", "computetime"),
    "d2h": ("d2h", "d2hlatency", "out"),
    "end_to_end": ("endtoend", "e2e", "endtoendlatency"),
}
"""What other tools call them, in small letters without signs and unit."""

KNOWN_KEYS = frozenset(
    [f"{end}{phase}Ms" for phase in _STAMPS for end in ("start", "end")]
    + [key for keys in _DURATIONS.values() for key in keys]
)

_CANONICAL = {
    "latency": "latencyMs",
    "enqueue": "enqueueMs",
    "h2d": "h2dMs",
    "gpu": "computeMs",
    "d2h": "d2hMs",
    "end_to_end": "endToEndMs",
}
_UNITS = {
    "milliseconds": 1.0,
    "microseconds": 1e-3,
    "nanoseconds": 1e-6,
    "seconds": 1e3,
    "millis": 1.0,
    "micros": 1e-3,
    "msec": 1.0,
    "usec": 1e-3,
    "nsec": 1e-6,
    "secs": 1e3,
    "sec": 1e3,
    "ms": 1.0,
    "us": 1e-3,
    "ns": 1e-6,
    "s": 1e3,
}
"""Milliseconds in what a key ends with, the longest ending first."""
_NOT_LETTERS = re.compile(r"[^a-z0-9]")
_SECONDS_ALONE = re.compile(r"(?:[^a-zA-Z0-9]s\W?|[a-z0-9]S)\Z")
"""A single s is a unit only where it stands apart: ``gpu_s``, not the plural ``gpus``."""


def duration_names(keys: Iterable[str]) -> dict[str, str]:
    """Find the key of each duration column among the keys of a file."""
    given = list(keys)
    found: dict[str, str] = {}
    for name, printed in _DURATIONS.items():
        key = next((key for key in printed if key in given), None)
        key = key or next((key for key in given if column_of(key) == name), None)
        if key is not None:
            found[name] = key
    return found


def column_of(key: str) -> str | None:
    """Name the column a key stands for, whatever its spelling and unit."""
    return _meaning(key)[0]


def milliseconds_of(key: str) -> float | None:
    """Compute the milliseconds in a key's unit, ``None`` where it names none."""
    return _meaning(key)[1]


def in_milliseconds(columns: dict[str, Column]) -> dict[str, Column]:
    """Turn durations in other units (``latencyUs``, ``latency_s``) into trtexec's."""
    changed = dict(columns)
    for name, key in duration_names(columns).items():
        factor = milliseconds_of(key)
        if factor not in (None, 1.0):
            changed[_CANONICAL[name]] = changed.pop(key) * factor
    return changed


@functools.cache
def _meaning(key: str) -> tuple[str | None, float | None]:
    """Read ``GPU compute (ms)``, ``gpuComputeMs`` and ``gpu_compute_us`` by word and unit."""
    plain = _NOT_LETTERS.sub("", key.lower().replace("µ", "u"))
    for ending, factor in (*_UNITS.items(), ("", None)):
        if ending == "s" and not _SECONDS_ALONE.search(key):
            continue
        if plain.endswith(ending):
            word = plain[: len(plain) - len(ending)]
            for name, words in _OTHER_WORDS.items():
                if word in words:
                    return name, factor
    return None, None
