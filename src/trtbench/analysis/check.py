"""Differences between outputs of a candidate and a reference, over many batches in bounded memory.

``t`` is the candidate, ``r`` the reference, all sums are in float64. Tolerances are relative to
the reference: an element is close if \\|t - r\\| <= atol + rtol \\|r\\|, as numpy.isclose(t, r).
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.scores import USUAL_SQNR_DB, sqnr_from_rel_l2, wilson
from trtbench.core.conditions import Condition, condition_from_text, holds, unknown_names
from trtbench.core.errors import UsageError
from trtbench.core.metrics import metric
from trtbench.core.results import Failed, ShortView, TensorDiff
from trtbench.core.run import Interval, Scalar, types_of
from trtbench.core.samples import AnyArray, Array, Floats
from trtbench.core.spec import ModelRef, Value
from trtbench.core.units import text_from_shape

RTOL, ATOL = 1e-3, 1e-8
FLOOR_DB = 20 * math.log10(2)  # a candidate may differ twice as far as the reference from itself
LEAST_DB = 20.0  # for precisions that are calibrated: INT8, FP8 and lower
OUTSIDE_DB = 5.0  # less for these on random inputs, which lie outside the calibrated range
TINY = 1e-8  # added to |r| in relative errors, so that zeros do not make them infinite
BLOCK = 2**20  # elements processed at a time: intermediate arrays are many times the size
SCALES = (0.005, 0.01, 0.1, 0.2, 0.5, 1.0)  # fractions of the reference's 90th percentile
MAX_WORST_ITEMS = 5
RANKS = 10
TOP = 5
MIN_PROBABILITY = 1e-300  # replaces zero, so that KL divergence is at most 690 nats

_STEPS = (step * 10.0**power for power in range(-9, 4) for step in (1, 2, 5))
_EDGES = np.array(sorted({*_STEPS, *(10.0 ** (k / 50) for k in range(-12 * 50, 8 * 50 + 1))}))
"""Bin edges of the histograms: fifty per power of ten, and round numbers."""


class RankRow(Value, frozen=True, kw_only=True):
    """How two models differ at one rank of their class scores, over all inputs."""

    rank: int
    mae: float | None
    """Mean \\|a[c] - b[c]\\| where c is the candidate's class at this rank (as in ArtTRT), over
    items whose scores of c are finite on both sides; ``None`` without any."""
    disagree: float


class ClassCheck(Value, frozen=True, kw_only=True):
    """Class scores compared with those of the reference."""

    items: int
    classes: int
    unranked: int  # items with NaN or +Inf: they have no ranking and count as disagreeing
    argmax_match: float
    argmax_interval: Interval
    top5_agreement: float | None  # mean Jaccard index; ``None`` with fewer than six classes
    kl: float | None
    kl_max: float | None
    probabilities: bool  # whether the outputs already are probabilities; else softmax is applied
    mixed: bool
    ranks: tuple[RankRow, ...]


class WorstItem(Value, frozen=True, kw_only=True):
    """One of the inputs with the largest errors."""

    item: int
    name: str = ""
    rel_l2: float | None = None  # ``None``: no element is finite on both sides, or shapes differ
    max_abs: float | None = None
    nonfinite: int = 0
    shapes: str | None = None


class ScalePoint(Value, frozen=True, kw_only=True):
    """The share of close elements if atol is a fraction of the outputs' typical size."""

    part: float
    atol: float
    close: float


class OutputCheck(Value, frozen=True, kw_only=True):
    """One output of a candidate compared with the reference's; unknown values are ``None``."""

    output: str
    items: int
    elements: int
    rtol: float
    atol: float
    close: float | None
    nan: int  # elements that are NaN on either side
    inf: int
    reference_nonfinite: int
    max_abs: float | None
    max_abs_at: tuple[int, ...] | None
    mean_abs: float | None
    max_rel: float | None
    mean_rel: float | None  # |t - r| / (|r| + 1e-8), as in the ST-GCN guide
    rmse: float | None
    rel_l2: float | None
    sqnr_db: float | None
    cosine: float | None
    bias: float | None  # mean of t - r over the root mean square of r
    p90_reference: float | None
    identical: bool
    misshapen: int = 0  # items of different shapes; none of their elements counts as close
    classes: ClassCheck | None = None
    scales: tuple[ScalePoint, ...] = ()
    worst: tuple[WorstItem, ...] = ()
    note: str | None = None

    @property
    def lost(self) -> int:
        """Elements that are not finite, but are in the reference."""
        return self.nan + self.inf - self.reference_nonfinite

    def numbers(self) -> dict[str, float | int | None]:
        own = (name for name in METRICS if hasattr(self, name))
        found: dict[str, float | int | None] = {name: getattr(self, name) for name in own}
        found["nonfinite"] = self.nan + self.inf
        found["equality"] = self.close
        found["shape_mismatch"] = self.misshapen / self.items if self.items else None
        if self.classes is not None:
            for name in ("argmax_match", "top5_agreement", "kl", "kl_max"):
                found[name] = getattr(self.classes, name)
            found["argmax_mismatch"] = 1.0 - self.classes.argmax_match
        return found


class OutputTally:
    """Accumulates batches of one output of both sides; ``result`` returns the check."""

    def __init__(
        self, output: str, *, rtol: float = RTOL, atol: float = ATOL, classes: bool | None = None
    ) -> None:
        self.output, self.rtol, self.atol = output, rtol, atol
        self._classes = classes
        self._tally: ClassTally | None = None
        self._items = self._elements = self._close = self._finite = 0
        self._nan = self._inf = self._reference_nonfinite = self._different = 0
        self._sums = dict.fromkeys(("abs", "rel", "error", "error2", "rr", "tt", "rt"), 0.0)
        self._max: tuple[float, tuple[int, ...]] = (-1.0, (0,))
        self._max_rel = 0.0
        self._errors, self._sizes = (np.zeros(len(_EDGES) + 1, np.int64) for _ in range(2))
        self._worst: list[tuple[float, int, WorstItem]] = []
        self._misshapen: list[str] = []
        self._width: int | None = None
        self._ragged = False

    def add(self, reference: AnyArray, candidate: AnyArray, *, start: int) -> None:
        """Add the outputs of the same items, from the index ``start`` on; shapes may differ."""
        if reference.dtype != object and reference.shape == candidate.shape:
            step = max(1, BLOCK * len(reference) // max(1, reference.size))
            for low in range(0, len(reference), step):
                cut = slice(low, low + step)
                self._add(reference[cut], candidate[cut], start=start + low)
            return
        self._ragged = True
        for place, rows in enumerate(zip(reference, candidate, strict=True)):
            wanted, found = (np.asarray(each) for each in rows)
            if wanted.shape == found.shape:
                self._add(wanted[None], found[None], start=start + place)
                continue
            shapes = " against ".join(text_from_shape(each.shape) for each in (wanted, found))
            self._items += 1
            self._elements += max(wanted.size, found.size)
            self._different += 1
            self._misshapen.append(shapes)
            self._keep_worst(math.inf, WorstItem(item=start + place, shapes=shapes))

    def _add(self, reference: AnyArray, candidate: AnyArray, *, start: int) -> None:
        rows, shape = len(reference), reference.shape[1:]
        wanted, found = (x.reshape(rows, -1).astype(np.float64) for x in (reference, candidate))
        known = np.isfinite(wanted)
        usable = known & np.isfinite(found)
        self._items += rows
        self._elements += wanted.size
        self._reference_nonfinite += int(np.count_nonzero(~known))
        unknown = np.isnan(wanted) | np.isnan(found)
        self._nan += int(np.count_nonzero(unknown))
        self._inf += int(np.count_nonzero(~usable & ~unknown))
        close = np.isclose(found, wanted, rtol=self.rtol, atol=self.atol)
        self._close += int(np.count_nonzero(close))
        same = (wanted == found) | (np.isnan(wanted) & np.isnan(found))
        self._different += int(np.count_nonzero(~same))
        self._finite += int(np.count_nonzero(usable))
        # Sums and maxima over elements that are finite on both sides.
        r, t = np.where(usable, wanted, 0.0), np.where(usable, found, 0.0)
        error = t - r
        absolute, size = np.abs(error), np.abs(r)
        relative = absolute / (size + TINY)
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
        # Histograms of errors and sizes.
        for tally, values in ((self._errors, absolute), (self._sizes, size)):
            places = np.searchsorted(_EDGES, values[usable], side="left")
            tally += np.bincount(places, minlength=len(_EDGES) + 1)
        # The worst items; non-finite ones come first.
        broken = (known & ~np.isfinite(found)).sum(axis=1)
        noise, signal = np.linalg.norm(error, axis=1), np.linalg.norm(r, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            drift = np.where(noise == 0.0, 0.0, noise / signal)
        badness = np.where(broken > 0, np.inf, np.nan_to_num(drift, nan=0.0, posinf=1e300))
        for row in np.argsort(-badness, kind="stable")[:MAX_WORST_ITEMS]:
            some = bool(usable[row].any())
            item = WorstItem(
                item=start + int(row),
                rel_l2=float(drift[row]) if some and math.isfinite(drift[row]) else None,
                max_abs=float(absolute[row].max(initial=0.0)) if some else None,
                nonfinite=int(broken[row]),
            )
            self._keep_worst(float(badness[row]), item)
        # Whether rows are class scores: as requested, else by their shape.
        self._width, before = wanted.shape[1], self._width
        self._ragged |= before not in (None, self._width)
        are_classes = self._classes and reference.size > rows
        if self._classes is None:
            dims = [dim for dim in shape if dim != 1]
            are_classes = reference.dtype.kind == "f" and len(dims) == 1 and len(shape) in (1, 3)
        if not self._ragged and are_classes:
            self._tally = self._tally or ClassTally()
            self._tally.add(wanted, found)

    def _keep_worst(self, badness: float, item: WorstItem) -> None:
        push = heapq.heappush if len(self._worst) < MAX_WORST_ITEMS else heapq.heappushpop
        push(self._worst, (badness, -item.item, item))

    def result(self, names: tuple[str, ...] = ()) -> OutputCheck:
        """Return the check; ``names`` are those of the items."""
        count, sums, elements = self._finite, self._sums, self._elements
        some = count > 0
        rel_l2 = _ratio(math.sqrt(sums["error2"]), math.sqrt(sums["rr"])) if some else None
        rms = math.sqrt(sums["rr"] / count) if some else 0.0
        size_r, size_t = math.sqrt(sums["rr"]), math.sqrt(sums["tt"])
        cosine = 1.0 if size_r == size_t == 0.0 else None
        if size_r and size_t:
            cosine = max(-1.0, min(1.0, sums["rt"] / size_r / size_t))
        # The bin edge below which 90 % of the reference's absolute values lie, within 5 %.
        edge = int(np.searchsorted(np.cumsum(self._sizes), 0.9 * self._sizes.sum()))
        p90 = float(_EDGES[edge]) if some and edge < len(_EDGES) else None
        by_atol = np.cumsum(self._errors)
        scales = [(part, part * p90) for part in SCALES] if p90 else []
        note = None if elements else "nothing to compare"
        if self._misshapen and len(self._misshapen) == self._items:
            kinds = sorted(set(self._misshapen))
            more = f" and {len(kinds) - 1} other pairs" if len(kinds) > 1 else ""
            note = f"shapes differ: {kinds[0]} per item{more}"
        return OutputCheck(
            output=self.output,
            items=self._items,
            elements=elements,
            rtol=self.rtol,
            atol=self.atol,
            close=self._close / elements if elements and self._width else None,
            nan=self._nan,
            inf=self._inf,
            reference_nonfinite=self._reference_nonfinite,
            max_abs=self._max[0] if some else None,
            max_abs_at=self._max[1] if some else None,
            mean_abs=sums["abs"] / count if some else None,
            max_rel=self._max_rel if some else None,
            mean_rel=sums["rel"] / count if some else None,
            rmse=math.sqrt(sums["error2"] / count) if some else None,
            rel_l2=rel_l2,
            sqnr_db=sqnr_from_rel_l2(rel_l2) if rel_l2 else None,
            cosine=cosine if some else None,
            bias=_ratio(sums["error"] / count, rms) if some else None,
            p90_reference=p90,
            identical=bool(elements and not self._different),
            misshapen=len(self._misshapen),
            classes=self._tally.result() if self._tally and not self._ragged else None,
            # Shares are of all elements: non-finite ones fail every tolerance.
            scales=tuple(
                ScalePoint(part=part, atol=atol, close=float(by_atol[place]) / elements)
                for part, atol in scales
                for place in (max(0, int(np.searchsorted(_EDGES, atol, "right")) - 1),)
            ),
            worst=tuple(
                each.having(name=names[each.item] if each.item < len(names)
                            else f"item {each.item}")
                for badness, _, each in sorted(self._worst, key=lambda e: e[:2], reverse=True)
                if badness > 0
            ),
            note=note,
        )  # fmt: skip


def tensor_diffs(
    reference: Mapping[str, Array],
    test: Mapping[str, Array],
    *,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> tuple[TensorDiff, ...]:
    """Compare outputs by name; an output that only one side has gets a note."""
    found = []
    same = ("close", "max_abs", "mean_abs", "rel_l2", "sqnr_db", "cosine", "bias", "note")
    for name in dict.fromkeys((*reference, *test)):
        tally = OutputTally(name, rtol=rtol, atol=atol, classes=False)
        tally.add(*(side.get(name, np.zeros(0))[None] for side in (reference, test)), start=0)
        check = tally.result()
        diff = TensorDiff(
            name=name,
            elements=check.elements,
            nonfinite=check.lost,
            rtol=rtol,
            atol=atol,
            max_at=check.max_abs_at[1:] if check.max_abs_at else None,
            **{field: getattr(check, field) for field in same},
        )
        if name not in reference or name not in test:
            side = "other side" if name in reference else "reference"
            diff = diff.having(close=None, note=f"the {side} does not have it")
        found.append(diff)
    return tuple(found)


def _ratio(part: float, whole: float) -> float | None:
    if whole:
        return part / whole
    return 0.0 if not part else None


class ClassTally:
    """Accumulates rows of class scores of both sides; ``result`` returns the check."""

    def __init__(self) -> None:
        self._same: list[NDArray[np.bool_]] = []
        self._errors: list[NDArray[np.float64]] = []
        self._jaccard = self._kl = self._kl_max = 0.0
        self._classes = self._items = self._ranked = 0
        self._are_probabilities = [True, True]

    def add(self, reference: Floats, candidate: Floats) -> None:
        """Add the scores of the same items: [items, classes]."""
        self._classes = reference.shape[1]
        self._items += len(reference)
        both = np.stack([reference, candidate])
        ordered = ~(np.isnan(both) | np.isposinf(both)).any(axis=(0, 2))
        a, b = reference[ordered], candidate[ordered]
        if not len(a):
            return
        self._ranked += len(a)
        own, other = (ranking(each, RANKS) for each in (a, b))
        self._same.append(own == other)
        with np.errstate(invalid="ignore"):
            there = (np.take_along_axis(each, other, 1) for each in (a, b))
            self._errors.append(np.abs(np.subtract(*there)))
        if a.shape[1] > TOP:
            shared = (own[:, :TOP, None] == other[:, None, :TOP]).any(axis=2).sum(axis=1)
            self._jaccard += float((shared / (2 * TOP - shared)).sum())
        logs = []  # logarithms of probabilities, limited so that KL stays finite
        for side, scores in enumerate((a, b)):
            as_is = are_probabilities(scores)
            self._are_probabilities[side] &= as_is
            if as_is:
                logs.append(np.log(np.maximum(scores, MIN_PROBABILITY)))
                continue
            top = scores.max(axis=1, keepdims=True)
            shifted = scores - np.where(np.isfinite(top), top, 0.0)
            total = np.maximum(np.exp(shifted).sum(axis=1, keepdims=True), MIN_PROBABILITY)
            logs.append(np.maximum(shifted - np.log(total), np.log(MIN_PROBABILITY)))
        p, q = logs
        kl = np.maximum((np.exp(p) * (p - q)).sum(axis=1), 0.0)
        self._kl += float(kl.sum())
        self._kl_max = max(self._kl_max, float(kl.max(initial=0.0)))

    def result(self) -> ClassCheck:
        places, items, ranked = min(RANKS, self._classes), self._items, self._ranked
        same = np.concatenate([np.zeros((0, places), bool), *self._same])
        errors = np.concatenate([np.zeros((0, places)), *self._errors])
        ranks = []
        for place in range(places):
            finite = errors[np.isfinite(errors[:, place]), place]
            mae = float(finite.mean()) if len(finite) else None
            apart = 1.0 - float(same[:, place].sum()) / items
            ranks.append(RankRow(rank=place + 1, mae=mae, disagree=apart))
        hits = int(same[:, 0].sum())
        return ClassCheck(
            items=items,
            classes=self._classes,
            unranked=items - ranked,
            argmax_match=hits / items,
            argmax_interval=wilson(hits, items),
            top5_agreement=self._jaccard / items if self._classes > TOP else None,
            kl=self._kl / ranked if ranked else None,
            kl_max=self._kl_max if ranked else None,
            probabilities=all(self._are_probabilities) and ranked > 0,
            mixed=self._are_probabilities[0] != self._are_probabilities[1],
            ranks=tuple(ranks),
        )


def are_probabilities(scores: AnyArray) -> bool:
    """Return whether rows are probabilities of classes: non-negative, with a sum of one."""
    with np.errstate(invalid="ignore", over="ignore"):
        return bool((scores >= 0).all() and np.allclose(scores.sum(axis=1), 1.0, atol=1e-2))


def ranking(scores: AnyArray, count: int) -> NDArray[np.int64]:
    """Return the best classes in order; of equal scores, the lower class first."""
    return np.asarray(np.argsort(-scores, axis=1, kind="stable")[:, :count], np.int64)


def pair_outputs(
    reference: Mapping[str, object], candidate: Mapping[str, object]
) -> dict[str, str]:
    """Map outputs to the candidate's: by name, else by position if there are as many."""
    shared = {name: name for name in reference if name in candidate}
    if not shared and len(reference) == len(candidate):
        return dict(zip(reference, candidate, strict=True))
    return shared


METRICS = (
    "close", "equality", "argmax_match", "argmax_mismatch", "top5_agreement", "nan", "inf",
    "nonfinite", "shape_mismatch", "max_abs", "mean_abs", "max_rel", "mean_rel", "rmse", "rel_l2",
    "sqnr", "sqnr_db", "cosine", "bias", "kl", "kl_max",
)  # fmt: skip
_OUTPUT = re.compile(r"(?P<output>[^<>=!]+):(?P<rest>.+)")


class CheckRule(Value, frozen=True, kw_only=True):
    """A condition on every output, or on the output named: ``max_abs<=0.1``."""

    text: str
    condition: Condition
    output: str | None = None


def rule_from_text(text: str) -> CheckRule:
    """Read a condition as typed by the user: ``max_abs<=0.1`` or ``OUTPUT: max_abs<=0.1``."""
    match = _OUTPUT.fullmatch(text.strip())
    try:
        condition = condition_from_text(match["rest"] if match else text, names=METRICS)
    except UsageError as problem:
        message = f"--expect {text!r} cannot be read: {problem.message}"
        fix = "write it like 'max_abs<=0.1', 'argmax_match>=99%' or 'logits: kl<0.01'"
        raise UsageError(message, facts=problem.facts, fix=problem.fix or fix) from None
    output = match["output"].strip() if match else None
    return CheckRule(text=text.strip(), condition=condition, output=output)


class Judgement(Value, frozen=True, kw_only=True):
    """One condition on one output, or on all of them, and whether it is met."""

    rule: str
    passed: bool
    message: str


def judge_rules(rules: Iterable[CheckRule], checks: Iterable[OutputCheck]) -> tuple[Judgement, ...]:
    """Judge conditions; those on unknown values or outputs are not met."""
    found = []
    every = list(checks)

    def add(rule: CheckRule, passed: bool, message: str) -> None:
        found.append(Judgement(rule=rule.text, passed=passed, message=f"{rule.text}: {message}"))

    for rule in rules:
        names = list(rule.condition.names)
        rows = [(x, worst_numbers([x])) for x in every if rule.output in (None, x.output)]
        rows = [(check, row) for check, row in rows if check.note or {*names} <= {*row}]
        for check, row in rows:
            unknown = unknown_names(rule.condition, row)
            known = ", ".join(f"{n} {row[n]:.6g}" for n in names if n not in unknown)
            missing = f"no {', '.join(unknown)}" if unknown else ""
            values = f"{check.output} has {' and '.join(filter(None, (known, missing)))}"
            if check.note:
                values = f"{check.output} could not be compared: {check.note}"
            add(rule, not check.note and bool(holds(rule.condition, row)), values)
        if not rows:
            add(rule, False, f"{rule.output or 'no output'} has no {', '.join(names)}")
    return tuple(found)


def judge_outputs(
    checks: Sequence[OutputCheck],
    *,
    precisions: Sequence[str | None],
    random: bool = False,
    floor: Sequence[OutputCheck] = (),
    outputs: Sequence[str] = (),
) -> tuple[Judgement, ...]:
    """Judge each output by the usual SQNR of the lowest precision of the two sides.

    A side whose precision is unknown, such as an engine of trtexec, may compute in FP16.
    ``floor`` holds the reference against itself: nobody comes closer than twice its difference.
    ``outputs`` says how the outputs of the sides differ in their names.
    """
    types = {each for precision in precisions for each in types_of(precision)}
    unknown = {"fp16"} if None in precisions else set()
    usual, name = min((USUAL_SQNR_DB.get(each, LEAST_DB), each) for each in types | unknown)
    guessed = name in unknown - types
    words = "FP16, as the precision of one side is unknown" if guessed else name.upper()
    if random and usual <= LEAST_DB:
        usual, words = usual - OUTSIDE_DB, f"{words} on random inputs"
    own = {check.output: check.sqnr_db for check in floor if not check.identical}
    found = [Judgement(rule="outputs", passed=False, message=each) for each in outputs]
    for check in checks:
        least, why = usual, words
        if (noise := own.get(check.output)) is not None and noise - FLOOR_DB < usual:
            least, why = noise - FLOOR_DB, "twice the difference of the reference from itself"
        sqnr = worst_numbers([check])["sqnr_db"]
        close = check.close == 1.0 or (sqnr is not None and sqnr >= least)
        seen = "unknown" if sqnr is None else f"{sqnr:.1f} dB".replace("-", "−")
        rule = "identical" if check.identical else f"SQNR {seen}, at least {least:.3g} dB for {why}"
        if check.note or check.misshapen:
            differ = f"{check.misshapen} of {check.items} inputs give another shape"
            rule, close = check.note or differ, False
        elif check.nan or check.inf:
            of = f", {check.reference_nonfinite} of them in the reference"
            of = of if check.reference_nonfinite else ""
            rule, close = f"values that are not finite: {check.nan} NaN, {check.inf} Inf{of}", False
        elif close and (sqnr is None or sqnr < least):
            rule = f"every element within rtol {check.rtol:g} and atol {check.atol:g}"
        found.append(Judgement(rule="default", passed=close, message=f"{check.output}: {rule}"))
    return tuple(found)


def worst_numbers(checks: Iterable[OutputCheck]) -> dict[str, float | None]:
    """Return the worst value of each metric; the SQNR of identical outputs is infinite."""
    found: dict[str, float | None] = {}
    for check in checks:
        row = check.numbers()
        row["sqnr_db"] = math.inf if check.sqnr_db is None and check.identical else check.sqnr_db
        row["sqnr"] = row["sqnr_db"]
        for name, value in row.items():
            known = found.get(name)
            if known is None or value is None:
                found[name] = value if known is None else known
            elif name in ("nan", "inf", "nonfinite"):
                found[name] = known + value
            elif name == "bias":
                found[name] = max(known, value, key=abs)
            else:
                found[name] = (min if metric(name).better == "high" else max)(known, value)
    return found


class Side(Value, frozen=True, kw_only=True):
    """One model, and how it was run."""

    model: ModelRef
    runtime: str
    precision: str | None = None
    python: str | None
    versions: dict[str, str]
    seconds: float


class Candidate(Value, frozen=True, kw_only=True):
    """One candidate and the checks of its outputs."""

    side: Side
    checks: tuple[OutputCheck, ...]
    unmatched: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    passed: bool = False

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it did not pass; empty if it did."""
        return tuple(each.message for each in self.judgements if not each.passed)


class Checked(ShortView, Value, frozen=True, kw_only=True):
    """The result of a check; ``passed``: all candidates could be run and agree."""

    passed: bool = False
    reference: Side
    candidates: tuple[Candidate, ...]
    inputs: str
    items: int
    inputs_sha256: str
    preparation: dict[str, Scalar] = {}
    floor: tuple[OutputCheck, ...] | None = None  # the reference against itself, if run twice
    floor_reason: str | None = None
    files: tuple[str, ...] = ()
    failed: tuple[Failed, ...] = ()
