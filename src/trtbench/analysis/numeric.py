"""How far the outputs of one model are from those of another: pure functions on arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from trtbench.core.results import TensorDiff
from trtbench.core.samples import Array
from trtbench.core.units import text_from_shape

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
    "fp32": 80.0, "tf32": 50.0, "fp16": 50.0, "bf16": 35.0, "int8": 20.0, "fp8": 20.0,
}  # fmt: skip
"""Below this, a conversion to the precision went worse than it usually does."""


def tensor_diff(
    reference: Array, test: Array, *, name: str = "output", rtol: float = 1e-4, atol: float = 1e-5
) -> TensorDiff:
    """Compare one tensor with its reference in float64; the reference scales the tolerance.

    Elements that are not finite in the reference must be the same in the test; they count for
    ``close`` but not for the sums.
    """
    diff = _unknown(name, reference, rtol, atol)
    if reference.shape != test.shape:
        shapes = (text_from_shape(each.shape) for each in (reference, test))
        return diff.having(note=f"shapes differ: {' against '.join(shapes)}")
    wanted, found = (np.atleast_1d(each).astype(np.float64) for each in (reference, test))
    if not wanted.size:
        return diff.having(note="the tensor is empty")
    finite = np.isfinite(wanted)
    usable = finite & np.isfinite(found)
    diff = diff.having(
        close=float(np.isclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True).mean()),
        nonfinite=int(np.count_nonzero(finite & ~usable)),
    )
    if not usable.any():
        return diff.having(note="nothing finite to compare")
    errors = np.abs(np.where(usable, found - np.where(usable, wanted, 0.0), 0.0))
    worst = np.unravel_index(int(np.argmax(errors)), errors.shape)
    own, other = wanted[usable], found[usable]
    error = other - own
    signal, size, noise = (float(np.linalg.norm(each)) for each in (own, other, error))
    rel_l2 = noise / signal if signal else (0.0 if not noise else None)
    cosine = 1.0 if signal == size == 0.0 else None
    if signal and size:  # rounding may leave 1 + 1e-16, which is no cosine
        cosine = max(-1.0, min(1.0, float(np.dot(own / signal, other / size))))
    rms = signal / math.sqrt(own.size)
    return diff.having(
        max_abs=float(errors[worst]),
        max_at=tuple(int(index) for index in worst),
        p99_abs=float(np.quantile(errors[usable], 0.99, method="inverted_cdf")),
        mean_abs=float(errors[usable].mean()),
        rel_l2=rel_l2,
        sqnr_db=sqnr_from_rel_l2(rel_l2) if rel_l2 is not None else None,
        cosine=cosine,
        bias=float(error.mean()) / rms if rms else None,
    )


def tensor_diffs(
    reference: Mapping[str, Array],
    test: Mapping[str, Array],
    *,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> tuple[TensorDiff, ...]:
    """Compare outputs by name; an output that only one side has is noted."""
    found = []
    for name in dict.fromkeys((*reference, *test)):
        if name in reference and name in test:
            found.append(tensor_diff(reference[name], test[name], name=name, rtol=rtol, atol=atol))
            continue
        side, other = (reference, "other side") if name in reference else (test, "reference")
        note = f"the {other} does not have it"
        found.append(_unknown(name, side[name], rtol, atol).having(note=note))
    return tuple(found)


def _unknown(name: str, array: Array, rtol: float, atol: float) -> TensorDiff:
    absent: dict[str, None] = dict.fromkeys(
        ("close", "max_abs", "max_at", "p99_abs", "mean_abs", "rel_l2", "sqnr_db", "cosine", "bias")
    )
    return TensorDiff(
        name=name, elements=int(array.size), nonfinite=0, rtol=rtol, atol=atol, **absent
    )


def is_unusual(diff: TensorDiff, *, precision: str) -> bool:
    """Return whether a conversion to this precision went worse than it usually does."""
    if diff.nonfinite or (diff.rel_l2 is None and diff.elements > 0):
        return True
    limit = USUAL_SQNR_DB.get(precision)
    return limit is not None and diff.sqnr_db is not None and diff.sqnr_db < limit


def sqnr_from_rel_l2(rel_l2: float) -> float | None:
    """Return signal to quantization noise in dB; ``None`` when there is no noise or no signal."""
    return -20.0 * math.log10(rel_l2) if 0.0 < rel_l2 < math.inf else None
