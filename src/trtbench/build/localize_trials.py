"""Tries models with some groups restored: ranks the groups, and keeps the fewest that will do."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from trtbench.analysis.check_rules import METRICS
from trtbench.analysis.condition_text import condition_from_text, understood
from trtbench.analysis.conditions import Condition, QuantityKind, holds, names_of
from trtbench.analysis.localize import Loss, Restored, bisect, fewest, one_by_one
from trtbench.analysis.numeric import USUAL_SQNR_DB
from trtbench.analysis.onnx_stamp import PREFIX
from trtbench.analysis.scores import is_share, less_is_better
from trtbench.build.localize_graph import Part, TwoGraphs
from trtbench.build.localize_looks import Looks
from trtbench.build.localize_rewrite import restored
from trtbench.build.onnx_file import save_onnx
from trtbench.domain.localize import Localized, LocalizeSpec, Numbers

SEARCHING = 0.6
"""Part of the time that may go into ranking when a repair is to follow."""
FEW = 4
"""Groups that drift most are tried by themselves before bisection."""
OUTPUT_METRIC = "sqnr_db"


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """What groups are ranked by, and what a repair has to meet."""

    metric: str
    where: str | None = None
    condition: Condition | None = None


@dataclass
class Trials:
    """Tries models with some groups restored, each set once, until time is up."""

    pair: TwoGraphs
    looks: Looks
    groups: list[list[Part]]
    aim: Aim
    ends: float
    tell: Callable[[str], None]
    known: dict[Restored, dict[str, float]] = field(default_factory=dict)

    def numbers(self, chosen: Restored) -> dict[str, float]:
        if chosen not in self.known:
            parts = sorted((p for g in chosen for p in self.groups[g]), key=lambda p: p.position)
            self.known[chosen] = self.looks.numbers(restored(self.pair, parts))
            self.tell(f"{len(self.known)} models tried")
        return self.known[chosen]

    def loss(self, chosen: Restored) -> Loss | None:
        """Tell how bad a model is; ``None`` when time is up."""
        if chosen not in self.known and time.monotonic() > self.ends:
            return None
        return self.loss_of(self.numbers(chosen))

    def loss_of(self, numbers: dict[str, float]) -> Loss:
        by_outputs = (numbers.get("nonfinite", 0.0), numbers.get("rel_l2", math.inf))
        if self.aim.metric == OUTPUT_METRIC:
            return by_outputs
        value = numbers.get(self.aim.metric, math.nan)
        loss = value if less_is_better(self.aim.metric) else -value
        return (loss if math.isfinite(loss) else math.inf, *by_outputs)

    def ranked(
        self, suspects: Sequence[int], *, trial_s: float
    ) -> tuple[list[int], set[int], bool]:
        """Rank all groups; which were tried by themselves, and whether that was the plan for all.

        Where there is no time for each of them, bisection follows those suspected most.
        """
        single = len(self.groups) * trial_s <= self.ends - time.monotonic()
        losses = one_by_one(suspects if single else suspects[:FEW], self.loss)
        if not single:
            losses |= bisect(len(self.groups), self.loss)
        order = sorted(range(len(self.groups)), key=lambda g: _rank(g, losses, suspects))
        return order, set(losses), single


def aim_of(spec: LocalizeSpec, pair: TwoGraphs, scores: dict[str, float]) -> Aim:
    """Rank by the first metric of the task, or the one a condition asks for; else by SQNR."""
    metric = next(iter(scores), OUTPUT_METRIC)
    if spec.repair is None:
        return Aim(metric=metric)
    names = (*scores, *METRICS)
    shares: dict[str, QuantityKind] = {name: "share" for name in scores if is_share(name)}
    kinds: dict[str, QuantityKind] = {**shares, "sqnr": "level"}
    where = understood(spec.where or _usual(metric, pair), names=names, kinds=kinds)
    condition = condition_from_text(where, names=names, kinds=kinds)
    asked = [name for name in names_of(condition) if name in scores]
    return Aim(metric=asked[0] if asked else metric, where=where, condition=condition)


def _usual(metric: str, pair: TwoGraphs) -> str:
    """Tell what a conversion usually reaches: half a per cent, or the SQNR of the type."""
    if metric != OUTPUT_METRIC:
        sign, way = ("<=", "*1.01") if less_is_better(metric) else (">=", "*0.99")
        return f"{metric}{sign}baseline{'-0.5%' if is_share(metric) else way}"
    kinds = {(part.type or "").lower() for part in pair.parts}
    usual = min((USUAL_SQNR_DB[kind] for kind in kinds if kind in USUAL_SQNR_DB), default=20.0)
    return f"nonfinite<=0 and sqnr>={usual:g}dB"


def _rank(group: int, losses: dict[int, Loss], suspects: Sequence[int]) -> tuple[object, ...]:
    """Tell what leaves the least loss when restored, then what is suspected first."""
    loss = losses.get(group)
    rounded = tuple(float(f"{each:.4g}") for each in loss) if loss is not None else ()
    return (loss is None, rounded, suspects.index(group))


def repair(
    spec: LocalizeSpec, trials: Trials, found: Localized, ranked: Sequence[int]
) -> Localized:
    """Keep the fewest groups that meet the condition, and write the model."""
    condition = trials.aim.condition
    assert condition is not None

    def meets(chosen: Restored) -> bool | None:
        if chosen not in trials.known and time.monotonic() > trials.ends:
            return None
        return bool(holds(condition, trials.numbers(chosen), baseline=trials.looks.scores))

    if meets(frozenset()):
        chosen: Restored | None = frozenset()
        minimal = True
    else:
        chosen, minimal = fewest(ranked, meets)
    if chosen is None:
        late = time.monotonic() > trials.ends
        return found.having(met=False, in_time=found.in_time and not late)
    kept = [g for g in ranked if g in chosen]
    if kept and spec.repair is not None:
        parts = sorted((p for g in kept for p in trials.groups[g]), key=lambda p: p.position)
        made = restored(trials.pair, parts)
        entry = made.metadata_props.add()
        entry.key, entry.value = f"{PREFIX}kept", " ".join(n for p in parts for n in p.nodes)
        save_onnx(made, Path(spec.repair))
    return found.having(
        met=True,
        minimal=minimal,
        repaired=told(trials.numbers(chosen)),
        kept=tuple(trials.groups[g][0].node for g in kept),
    )


def told(numbers: dict[str, float]) -> Numbers:
    """Read numbers as a file can hold them: it has no infinity."""
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}
