"""Which version's schema a times file has, and which of its rows are warm-up."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from trtbench.domain.samples import Column

Variant = Literal["7.0", "7.1", "8.0", "8.4", "8.5", "other"]

DEFAULT_WARMUP_MS = 200.0
"""trtexec's own default for --warmUp, in every version."""


def variant_of(columns: dict[str, Column], *, warmup_ms: float | None) -> Variant:
    """Name the schema by its keys, and 8.4 apart from 8.5 by whether warm-up rows are there."""
    if "startInMs" in columns:
        return "7.1" if "startEnqMs" in columns else "7.0"
    if "startComputeMs" not in columns:
        return "other"
    if "endToEndMs" in columns:
        return "8.0"
    begins_ms = min(columns["startComputeMs"][:1], default=math.inf)
    limit_ms = DEFAULT_WARMUP_MS if warmup_ms is None else warmup_ms
    return "8.4" if begins_ms < limit_ms / 2 else "8.5"


def warmup_of(
    columns: dict[str, Column], *, variant: Variant, warmup_ms: float | None
) -> float | None:
    """Take the length of warm-up to look for in files that have it: as stated, else the default."""
    if "startComputeMs" not in columns or variant in ("8.5", "other"):
        return None
    return DEFAULT_WARMUP_MS if warmup_ms is None else warmup_ms


def count_warmup_rows(columns: dict[str, Column], *, warmup_ms: float | None) -> int:
    """Count the rows before the first that is no warm-up, which is where trtexec begins."""
    if warmup_ms is None:
        return 0
    measured = columns["startComputeMs"] >= warmup_ms
    return int(np.argmax(measured)) if measured.any() else len(measured)
