"""How far a candidate's outputs are from a reference's, over many batches in bounded memory.

``t`` is the candidate, ``r`` the reference, all sums are in float64. The reference scales every
tolerance: an element is close when \\|t - r\\| <= atol + rtol \\|r\\|: numpy.isclose(t, r).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.check_classes import ClassCheck, ClassTally
from trtbench.analysis.check_worst import Worst, WorstItem
from trtbench.analysis.numeric import sqnr_from_rel_l2
from trtbench.domain.arrays import AnyArray, Floats
from trtbench.domain.spec import Value
from trtbench.units import text_from_shape

RTOL, ATOL = 1e-3, 1e-8
TINY = 1e-8
"""Added to \\|r\\| in relative errors, so that zeros do not make them infinite."""
BLOCK = 2**20
"""Elements to look at in one go: float64 and what is derived from it is many times the size."""
SCALES = (0.005, 0.01, 0.1, 0.2, 0.5, 1.0)
"""Tolerances in parts of the 90th percentile of the reference's absolute values."""

_LADDER = tuple(step * 10.0**power for power in range(-9, 4) for step in (1, 2, 5))
_FINE = tuple(10.0 ** (k / 50) for k in range(-12 * 50, 8 * 50 + 1))
_EDGES = np.array(sorted({*_LADDER, *_FINE}))


class SweepPoint(Value, frozen=True, kw_only=True):
    """What share of elements a tolerance lets pass."""

    tolerance: float
    by_atol: float
    """With this as atol, and rtol 0."""
    by_rtol: float
    """With this as rtol, and atol 0."""


class ScalePoint(Value, frozen=True, kw_only=True):
    """What share passes with a part of the usual size of the outputs as atol."""

    part: float
    atol: float
    close: float


class OutputCheck(Value, frozen=True, kw_only=True):
    """One output of a candidate against the reference's; what cannot be told is ``None``."""

    output: str
    items: int
    elements: int
    rtol: float
    atol: float
    close: float | None
    nan: int
    """NaN in the candidate where the reference is finite."""
    inf: int
    reference_nonfinite: int
    max_abs: float | None
    max_abs_at: tuple[int, ...] | None
    """Item, then the place in its output."""
    mean_abs: float | None
    max_rel: float | None
    mean_rel: float | None
    """\\|t - r\\| / (\\|r\\| + 1e-8), as the ST-GCN guide has it."""
    rmse: float | None
    rel_l2: float | None
    sqnr_db: float | None
    cosine: float | None
    bias: float | None
    """Mean of t - r over the root mean square of r."""
    p90_reference: float | None
    identical: bool
    """Every element is the same, what is not finite included."""
    misshapen: int = 0
    """Items for which the sides gave different shapes; their elements are close to nothing."""
    classes: ClassCheck | None = None
    sweep: tuple[SweepPoint, ...] = ()
    scales: tuple[ScalePoint, ...] = ()
    worst: tuple[WorstItem, ...] = ()
    note: str | None = None

    def numbers(self) -> dict[str, float | int | None]:
        """List everything a rule can be about, by name."""
        named = (
            "close", "nan", "inf", "max_abs", "mean_abs", "max_rel", "mean_rel", "rmse", "rel_l2",
            "sqnr_db", "cosine", "bias",
        )  # fmt: skip
        found: dict[str, float | int | None] = {name: getattr(self, name) for name in named}
        found["nonfinite"] = self.nan + self.inf
        found["equality"] = self.close
        found["shape_mismatch"] = self.misshapen / self.items if self.items else None
        if self.classes is not None:
            found |= self.classes.numbers()
        return found


class OutputTally:
    """Takes batches of one output of both sides, and gives the check at the end."""

    def __init__(
        self, output: str, *, rtol: float = RTOL, atol: float = ATOL, classes: bool | None = None
    ) -> None:
        self.output, self.rtol, self.atol = output, rtol, atol
        self._classes = classes
        self._tally: ClassTally | None = None
        self._items = self._elements = self._close = self._finite = 0
        self._nan = self._inf = self._odd = 0
        self._sums = dict.fromkeys(("abs", "rel", "error", "error2", "rr", "tt", "rt"), 0.0)
        self._max: tuple[float, tuple[int, ...]] = (-1.0, (0,))
        self._max_rel = 0.0
        self._by_atol, self._by_rtol, self._sizes = (
            np.zeros(len(_EDGES) + 1, np.int64) for _ in range(3)
        )
        self._worst = Worst()
        self._unlike = 0
        self._misshapen: list[str] = []
        self._width: int | None = None
        self._ragged = False

    def add(self, reference: AnyArray, candidate: AnyArray, *, start: int) -> None:
        """Take rows of the same items, the first of which has the number ``start``.

        Arrays of arrays hold items that each have a shape of their own.
        """
        if reference.dtype == object or reference.shape != candidate.shape:
            for place, (wanted, found) in enumerate(zip(reference, candidate, strict=True)):
                self._add_item(np.asarray(wanted), np.asarray(found), item=start + place)
            return
        step = max(1, BLOCK * len(reference) // max(1, reference.size))
        for low in range(0, len(reference), step):
            cut = slice(low, low + step)
            self._add(reference[cut], candidate[cut], start=start + low)

    def _add_item(self, wanted: AnyArray, found: AnyArray, *, item: int) -> None:
        """Take one item whose shape may be its own: another one on each side matches nothing."""
        self._ragged = True
        if wanted.shape == found.shape:
            self._add(wanted[None], found[None], start=item)
            return
        shapes = " against ".join(text_from_shape(each.shape) for each in (wanted, found))
        self._items += 1
        self._elements += max(wanted.size, found.size)
        self._unlike += 1
        self._misshapen.append(shapes)
        self._worst.add_misshapen(item, shapes)

    def _add(self, reference: AnyArray, candidate: AnyArray, *, start: int) -> None:
        rows = len(reference)
        wanted, found = (
            each.reshape(rows, -1).astype(np.float64) for each in (reference, candidate)
        )
        known = np.isfinite(wanted)
        usable = known & np.isfinite(found)
        self._items += rows
        self._elements += wanted.size
        self._odd += int(np.count_nonzero(~known))
        self._nan += int(np.count_nonzero(known & np.isnan(found)))
        self._inf += int(np.count_nonzero(known & np.isinf(found)))
        close = np.isclose(found, wanted, rtol=self.rtol, atol=self.atol, equal_nan=True)
        self._close += int(np.count_nonzero(close))
        same = (wanted == found) | (np.isnan(wanted) & np.isnan(found))
        self._unlike += int(np.count_nonzero(~same))
        r, t = np.where(usable, wanted, 0.0), np.where(usable, found, 0.0)
        self._add_sums(r, t, usable, reference.shape[1:], start)
        broken = (known & ~np.isfinite(found)).sum(axis=1)
        self._worst.add(r, t, usable, broken, start=start)
        self._width, before = wanted.shape[1], self._width
        self._ragged |= before not in (None, self._width)
        if not self._ragged and self._are_classes(reference):
            self._tally = self._tally or ClassTally()
            self._tally.add(wanted, found)

    def result(self, names: tuple[str, ...] = ()) -> OutputCheck:
        """Conclude; names are those of the items."""
        count = self._finite
        rel_l2 = _ratio(math.sqrt(self._sums["error2"]), math.sqrt(self._sums["rr"]))
        some = count > 0
        rms = math.sqrt(self._sums["rr"] / count) if some else 0.0
        p90 = self._quantile(0.9) if some else None
        return OutputCheck(
            output=self.output,
            items=self._items,
            elements=self._elements,
            rtol=self.rtol,
            atol=self.atol,
            close=self._close / self._elements if self._elements and self._width else None,
            nan=self._nan,
            inf=self._inf,
            reference_nonfinite=self._odd,
            max_abs=self._max[0] if some else None,
            max_abs_at=self._max[1] if some else None,
            mean_abs=self._sums["abs"] / count if some else None,
            max_rel=self._max_rel if some else None,
            mean_rel=self._sums["rel"] / count if some else None,
            rmse=math.sqrt(self._sums["error2"] / count) if some else None,
            rel_l2=rel_l2 if some else None,
            sqnr_db=sqnr_from_rel_l2(rel_l2) if some and rel_l2 else None,
            cosine=self._cosine() if some else None,
            bias=_ratio(self._sums["error"] / count, rms) if some else None,
            p90_reference=p90,
            identical=bool(self._elements and not self._unlike),
            misshapen=len(self._misshapen),
            classes=self._tally.result() if self._tally and not self._ragged else None,
            sweep=self._sweep(),
            scales=self._scales(p90),
            worst=self._worst.named(names),
            note=self._note(),
        )

    def _add_sums(
        self, r: Floats, t: Floats, usable: NDArray[np.bool_], shape: tuple[int, ...], start: int
    ) -> None:
        error = t - r
        absolute, size = np.abs(error), np.abs(r)
        relative = absolute / (size + TINY)
        self._finite += int(np.count_nonzero(usable))
        parts = (absolute.sum(), relative.sum(), error.sum(), (error**2).sum())
        products = ((r * r).sum(), (t * t).sum(), (r * t).sum())
        for name, value in zip(self._sums, (*parts, *products), strict=True):
            self._sums[name] += float(value)
        if absolute.size and absolute.max() > self._max[0]:
            row, place = np.unravel_index(int(absolute.argmax()), absolute.shape)
            inside = np.unravel_index(int(place), shape) if shape else ()
            at = (start + int(row), *(int(index) for index in inside))
            self._max = (float(absolute[row, place]), at)
        self._max_rel = max(self._max_rel, float(relative.max(initial=0.0)))
        chosen, sizes = absolute[usable], size[usable]
        with np.errstate(divide="ignore", invalid="ignore"):
            pure = np.where(chosen == 0.0, 0.0, chosen / sizes)
        for tally, values in zip(
            (self._by_atol, self._by_rtol, self._sizes), (chosen, pure, sizes), strict=True
        ):
            places = np.searchsorted(_EDGES, values, side="left")
            tally += np.bincount(places, minlength=len(_EDGES) + 1)

    def _note(self) -> str | None:
        """Say why nothing could be compared, where that is so."""
        if self._misshapen and len(self._misshapen) == self._items:
            kinds = sorted(set(self._misshapen))
            more = f" and {len(kinds) - 1} other pairs" if len(kinds) > 1 else ""
            return f"shapes differ: {kinds[0]} per item{more}"
        return None if self._elements else "nothing to compare"

    def _are_classes(self, reference: AnyArray) -> bool:
        """Say whether rows are scores of classes: asked for, or by their shape."""
        if self._classes is not None:
            return self._classes and reference.size > len(reference)
        dims = [dim for dim in reference.shape[1:] if dim != 1]
        return reference.dtype.kind == "f" and len(dims) == 1 and reference.ndim in (2, 4)

    def _cosine(self) -> float | None:
        r, t = math.sqrt(self._sums["rr"]), math.sqrt(self._sums["tt"])
        if not r or not t:
            return 1.0 if r == t else None
        return max(-1.0, min(1.0, self._sums["rt"] / r / t))

    def _sweep(self) -> tuple[SweepPoint, ...]:
        """Compute shares of all elements, those that are not finite failing every tolerance."""
        if not self._elements:
            return ()
        atol, rtol = np.cumsum(self._by_atol), np.cumsum(self._by_rtol)
        return tuple(
            SweepPoint(
                tolerance=float(f"{step:g}"),
                by_atol=float(atol[place]) / self._elements,
                by_rtol=float(rtol[place]) / self._elements,
            )
            for step in _LADDER
            for place in (int(np.searchsorted(_EDGES, step)),)
        )

    def _scales(self, p90: float | None) -> tuple[ScalePoint, ...]:
        if not p90:
            return ()
        passed = np.cumsum(self._by_atol)
        return tuple(
            ScalePoint(
                part=part,
                atol=part * p90,
                close=float(passed[max(0, int(np.searchsorted(_EDGES, part * p90, "right")) - 1)])
                / self._elements,
            )
            for part in SCALES
        )

    def _quantile(self, q: float) -> float | None:
        """Find the edge below which this part of the reference's absolute values lies, to 5 %."""
        place = int(np.searchsorted(np.cumsum(self._sizes), q * self._sizes.sum()))
        return float(_EDGES[place]) if place < len(_EDGES) else None


def pair_outputs(
    reference: Mapping[str, object], candidate: Mapping[str, object]
) -> dict[str, str]:
    """Map outputs to the candidate's: by name, else by place when there are as many."""
    if set(reference) & set(candidate):
        return {name: name for name in reference if name in candidate}
    if len(reference) == len(candidate):
        return dict(zip(reference, candidate, strict=True))
    return {}


def _ratio(part: float, whole: float) -> float | None:
    if whole:
        return part / whole
    return 0.0 if not part else None
