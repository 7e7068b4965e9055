"""The keys of times files, and the phases they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable

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

_NOT_LETTERS = re.compile(r"[^a-z0-9]")


def duration_names(keys: Iterable[str]) -> dict[str, str]:
    """Find the key of each duration column among the keys of a file."""
    given = list(keys)
    found: dict[str, str] = {}
    for name, printed in _DURATIONS.items():
        key = next((key for key in printed if key in given), None)
        key = key or next((key for key in given if _plain(key) in _OTHER_WORDS[name]), None)
        if key is not None:
            found[name] = key
    return found


def _plain(key: str) -> str:
    """Write ``GPU compute (ms)`` and ``gpuComputeMs`` as ``gpucompute``."""
    return _NOT_LETTERS.sub("", key.lower()).removesuffix("ms")
