"""How far the outputs of one model are from those of another: pure functions on arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trtbench.domain.arrays import Array, Floats
from trtbench.domain.conversion import TensorDiff
from trtbench.units import text_from_shape

TOLERANCES: Mapping[str, tuple[float, float]] = {
    "fp32": (1e-4, 1e-5),
    "tf32": (1e-3, 1e-4),
    "fp16": (1e-2, 1e-3),
    "bf16": (5e-2, 5e-3),
    "int8": (1e-1, 1e-2),
    "fp8": (1e-1, 1e-2),
    "best": (1e-1, 1e-2),
}
"""rtol and atol by precision: a few units in the last place of the type, summed over a network."""

USUAL_SQNR_DB: Mapping[str, float] = {
    "fp32": 80.0,
    "tf32": 50.0,
    "fp16": 50.0,
    "bf16": 35.0,
    "int8": 20.0,
    "fp8": 20.0,
}
"""Below this, a conversion to the precision went worse than it usually does."""


def tensor_diff(
    reference: Array, test: Array, *, name: str = "output", rtol: float = 1e-4, atol: float = 1e-5
) -> TensorDiff:
    """Compare one tensor with its reference in float64; the reference scales the tolerance.

    Elements that are not finite in the reference must be the same in the test; they count for
    ``close`` but not for the sums.
    """
    if reference.shape != test.shape:
        shapes = (text_from_shape(each.shape) for each in (reference, test))
        note = f"shapes differ: {' against '.join(shapes)}"
        return _nothing(name, rtol, atol, elements=int(reference.size), note=note)
    wanted, found = _floats(reference), _floats(test)
    finite = np.isfinite(wanted)
    nonfinite = int(np.count_nonzero(finite & ~np.isfinite(found)))
    if not wanted.size:
        return _nothing(name, rtol, atol, elements=0, note="the tensor is empty")
    close = float(np.isclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True).mean())
    usable = finite & np.isfinite(found)
    if not usable.any():
        diff = _nothing(name, rtol, atol, elements=wanted.size, note="nothing finite to compare")
        return diff.having(close=close, nonfinite=nonfinite)
    errors = np.abs(np.where(usable, found - np.where(usable, wanted, 0.0), 0.0))
    worst = np.unravel_index(int(np.argmax(errors)), errors.shape)
    return TensorDiff(
        name=name,
        elements=int(wanted.size),
        nonfinite=nonfinite,
        close=close,
        rtol=rtol,
        atol=atol,
        max_abs=float(errors[worst]),
        max_at=tuple(int(index) for index in worst),
        p99_abs=float(np.quantile(errors[usable], 0.99, method="inverted_cdf")),
        mean_abs=float(errors[usable].mean()),
        **_norms(wanted[usable], found[usable]),
    )


def tensor_diffs(
    reference: Mapping[str, Array],
    test: Mapping[str, Array],
    *,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> tuple[TensorDiff, ...]:
    """Compare outputs by name; an output that only one side has is said, not skipped."""
    found = []
    for name, wanted in reference.items():
        if name in test:
            found.append(tensor_diff(wanted, test[name], name=name, rtol=rtol, atol=atol))
        else:
            note = "the other side does not have it"
            found.append(_nothing(name, rtol, atol, elements=int(wanted.size), note=note))
    for name in test:
        if name not in reference:
            note = "the reference does not have it"
            found.append(_nothing(name, rtol, atol, elements=int(test[name].size), note=note))
    return tuple(found)


def is_unusual(diff: TensorDiff, *, precision: str) -> bool:
    """Say whether a conversion to this precision went worse than it usually does."""
    if diff.nonfinite or (diff.rel_l2 is None and diff.elements > 0):
        return True
    limit = USUAL_SQNR_DB.get(precision)
    return limit is not None and diff.sqnr_db is not None and diff.sqnr_db < limit


def sqnr_from_rel_l2(rel_l2: float) -> float | None:
    """Signal to quantization noise in dB; ``None`` when there is no noise or no signal."""
    return -20.0 * math.log10(rel_l2) if 0.0 < rel_l2 < math.inf else None


def _norms(wanted: Floats, found: Floats) -> dict[str, Any]:
    error = found - wanted
    signal, other, noise = (float(np.linalg.norm(each)) for each in (wanted, found, error))
    rel_l2 = noise / signal if signal else (0.0 if not noise else None)
    same = signal == other == 0.0
    # Rounding may leave 1 + 1e-16, which is no cosine.
    dot = float(np.dot(wanted / signal, found / other)) if signal and other else None
    rms = signal / math.sqrt(wanted.size)
    return {
        "rel_l2": rel_l2,
        "sqnr_db": sqnr_from_rel_l2(rel_l2) if rel_l2 is not None else None,
        "cosine": 1.0 if same else (None if dot is None else max(-1.0, min(1.0, dot))),
        "bias": float(error.mean()) / rms if rms else None,
    }


def _floats(array: Array) -> Floats:
    return np.atleast_1d(array).astype(np.float64)


def _nothing(name: str, rtol: float, atol: float, *, elements: int, note: str) -> TensorDiff:
    absent: dict[str, None] = dict.fromkeys(
        ("close", "max_abs", "max_at", "p99_abs", "mean_abs", "rel_l2", "sqnr_db", "cosine", "bias")
    )
    return TensorDiff(
        name=name, elements=elements, nonfinite=0, rtol=rtol, atol=atol, note=note, **absent
    )
