"""One network built several times: builders time kernels to choose them, so each is a draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trtbench.analysis.distributions import (
    LEVEL,
    difference,
    incomplete_beta,
    normal_quantile,
    t_quantile,
    trimmed_count,
)
from trtbench.analysis.verdict import GATE, MARGIN, incomparable, judge, verdict_from_effects
from trtbench.core.results import Comparison, ShortView, Verdict
from trtbench.core.samples import EngineGraph
from trtbench.core.spec import Value

CLAIMS = (0.01, 0.02, 0.05, 0.1)  # differences for which the builds that they need are counted
POWER = 0.8
TRIMMED = 1.14  # variance of a trimmed mean over that of a mean, of normal values
MOST_BUILDS = 1000

AspectName = Literal["bytes", "graph", "tactics", "latency"]


class Draw(Value, frozen=True, kw_only=True):
    """One build of several, and how fast its engine was."""

    label: str
    engine: str
    sha256: str
    size_bytes: int
    build_s: float | None
    layers: int | None = None
    run: str | None = None
    launches_s: tuple[float, ...] = ()

    @property
    def typical_s(self) -> float | None:
        """The middle of its launches, as logarithms have it."""
        if not self.launches_s:
            return None
        return math.exp(math.fsum(map(math.log, self.launches_s)) / len(self.launches_s))


class Aspect(Value, frozen=True, kw_only=True):
    """Whether the builds are the same in one respect; ``None``: not known."""

    name: AspectName
    same: bool | None
    text: str


class Spread(Value, frozen=True, kw_only=True):
    """How far builds lie apart, and how far launches of one build do."""

    builds: int
    launches: int
    typical_s: float
    lowest_s: float
    highest_s: float
    between: float  # standard deviation from build to build, without that of launches
    within: float
    p: float | None  # of builds this far apart by chance; ``None`` with one launch each
    needed: dict[str, int]  # builds a side that find this difference in 80 % of cases, at 99 %

    @property
    def range(self) -> float:
        """How much slower the slowest build is than the fastest."""
        return self.highest_s / self.lowest_s - 1


class Lottery(ShortView, Value, frozen=True, kw_only=True):
    """One command, built several times: every build, and in what they differ."""

    model: str
    builder: str
    command: str | None = None
    metric: str | None = None
    draws: tuple[Draw, ...]
    aspects: tuple[Aspect, ...]
    spread: Spread | None = None
    notes: tuple[str, ...] = ()

    def aspect(self, name: AspectName) -> Aspect:
        return next(each for each in self.aspects if each.name == name)


def spread_of(draws: Sequence[Draw]) -> Spread | None:
    """Take the variance of times apart: between builds, and within one (one-way, balanced)."""
    rows = [[math.log(each) for each in draw.launches_s] for draw in draws]
    if len(rows) < 2 or not all(rows):
        return None
    builds, launches = len(rows), min(len(row) for row in rows)
    table = np.array([row[:launches] for row in rows])
    means = table.mean(axis=1)
    among = launches * float(means.var(ddof=1))
    inside = float(table.var(axis=1, ddof=1).mean()) if launches > 1 else 0.0
    between, within = math.sqrt(max(0.0, (among - inside) / launches)), math.sqrt(inside)
    p = None
    if launches > 1:  # of a ratio of variances at least this large (Fisher's F)
        first, second = builds - 1, builds * (launches - 1)
        p = 0.0 if among > 0 else 1.0
        if inside:
            x = second / (second + first * among / inside)
            p = incomplete_beta(x, second / 2, first / 2)
    known = math.hypot(between, within / launches**0.5)
    return Spread(
        builds=builds,
        launches=launches,
        typical_s=math.exp(float(means.mean())),
        lowest_s=math.exp(float(means.min())),
        highest_s=math.exp(float(means.max())),
        between=between,
        within=within,
        p=p,
        needed={f"{100 * claim:g} %": builds_needed(claim, known) for claim in CLAIMS},
    )


def builds_needed(claim: float, spread: float) -> int:
    """Count the builds a side that find a difference, when builds spread by so much."""
    goal, level = math.log1p(claim), (1 + LEVEL) / 2
    # The normal distribution says where to begin: Student's t, dear to ask, needs a few more.
    factor = normal_quantile(level) + normal_quantile(POWER)
    builds = max(2, math.ceil(2 * (factor * spread / goal) ** 2))
    while builds < MOST_BUILDS:
        cut = trimmed_count(builds)
        df = 2 * (builds - 2 * cut) - 2
        factor = t_quantile(level, df=df) + t_quantile(POWER, df=df)
        if factor * spread * math.sqrt((TRIMMED if cut else 1.0) * 2 / builds) <= goal:
            return builds
        builds += max(1, builds // 50)
    return MOST_BUILDS


def bytes_aspect(draws: Sequence[Draw]) -> Aspect:
    """Whether the builds are one file."""
    kinds = len({draw.sha256 for draw in draws})
    words = "all the same file" if kinds == 1 else f"{kinds} different files of {len(draws)}"
    return Aspect(name="bytes", same=kinds == 1, text=words)


def graph_aspects(graphs: Sequence[EngineGraph | None]) -> tuple[Aspect, Aspect]:
    """Whether all engines have the same layers, and chose the same kernels for them."""
    known = [graph for graph in graphs if graph is not None]
    same: list[bool | None] = [None, None]
    words = ["the builder left no layer information"] * 2
    if len(known) == len(graphs) and len(known) > 1:
        shapes = [[(layer.name, layer.type) for layer in graph.layers] for graph in known]
        names = [{layer.name for layer in graph.layers} for graph in known]
        common = set.intersection(*names)
        counts = sorted({len(graph.layers) for graph in known})
        same[0] = all(each == shapes[0] for each in shapes)
        words[0] = f"the same {counts[0]} layers"
        if not same[0]:
            own = max(len(each - common) for each in names)
            sizes = "to".join(f" {x} " for x in dict.fromkeys((counts[0], counts[-1]))).strip()
            words[0] = f"{sizes} layers, {len(common)} in every build, up to {own} in only some"
        chosen = [{each.name: each.tactic for each in x.layers if each.tactic} for x in known]
        timed = sorted(set.intersection(*(set(each) for each in chosen)))
        apart = [name for name in timed if len({each[name] for each in chosen}) > 1]
        same[1], words[1] = None, "the engines do not name their kernels"
        if timed:
            same[1], words[1] = not apart, f"the same for {len(timed)} layers"
        if apart:
            first = apart[0].splitlines()[0]
            words[1] = f"other kernels in {len(apart)} of {len(timed)} layers, such as {first}"
    return (
        Aspect(name="graph", same=same[0], text=words[0]),
        Aspect(name="tactics", same=same[1], text=words[1]),
    )


def latency_aspect(spread: Spread) -> Aspect:
    """Whether builds are equally fast: apart by 1 % or more, and more than launches are."""
    if spread.range < GATE:
        return Aspect(name="latency", same=True, text=f"within {100 * GATE:g} % of each other")
    far = f"the slowest takes {100 * spread.range:.1f} % longer than the fastest"
    if spread.p is not None and spread.p < 1 - LEVEL:
        return Aspect(name="latency", same=False, text=far)
    words = f"{far}, which launches of one build may explain"
    return Aspect(name="latency", same=None, text=words)


def verdict_over_builds(
    baseline: Sequence[Draw],
    candidate: Sequence[Draw],
    *,
    metric: str,
    margin: float = MARGIN,
    paired: bool = False,
) -> Verdict:
    """Judge two sides by their builds; a pair may have chosen kernels from one set of timings."""
    before, after = ([draw.typical_s for draw in draws] for draws in (baseline, candidate))
    if paired:
        both = zip(before, after, strict=True)
        effects = [math.log(new / old) for old, new in both if old and new]
        if len(effects) > 1:
            return verdict_from_effects(effects, metric=metric, design="builds", margin=margin)
    estimate = difference(*([math.log(each) for each in side if each] for side in (before, after)))
    if estimate is None or paired:
        return incomparable(metric, reason="fewer than two builds of each side were measured")
    meaning = "99 % for the ratio over builds on this machine"
    return judge(estimate, metric=metric, design="builds", margin=margin, meaning=meaning)


@dataclass(frozen=True, kw_only=True, repr=False)
class NetworksCompared(ShortView):
    """Two networks or builders, the engines of each, and a verdict over builds."""

    baseline: Lottery
    candidate: Lottery
    comparison: Comparison
    mode: str
    interference: tuple[float, float] | None = None
