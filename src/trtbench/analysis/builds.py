"""One network built several times: what differs from build to build, and what a claim then needs.

A builder times kernels while it chooses them, so every build is a draw. Times are compared as
logarithms; a build is the unit, its launches say how well it is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from trtbench.analysis.distributions import incomplete_beta, normal_quantile, t_quantile
from trtbench.analysis.robust import LEVEL, difference, trimmed_count
from trtbench.analysis.verdict import GATE, MARGIN, incomparable, judge, verdict_from_effects
from trtbench.domain.comparison import Verdict
from trtbench.domain.samples import EngineGraph
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import Value

CLAIMS = (0.01, 0.02, 0.05, 0.1)
"""Differences for which the builds that they need are counted."""
POWER = 0.8
TRIMMED = 1.14
"""Variance of a mean with 20 % trimmed at either end over that of a mean, of normal values."""
MOST_BUILDS = 1000
MEANING = "99 % for the ratio over builds on this machine"

AspectName = Literal["bytes", "graph", "tactics", "outputs", "latency"]


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
    """The median time of each launch."""

    @property
    def typical_s(self) -> float | None:
        """The middle of its launches, as logarithms have it."""
        if not self.launches_s:
            return None
        return math.exp(math.fsum(map(math.log, self.launches_s)) / len(self.launches_s))


class Aspect(Value, frozen=True, kw_only=True):
    """Whether the builds are the same in one respect; ``None``: nobody can tell."""

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
    between: float
    """Standard deviation from build to build, as a part of the time, launches' share taken out."""
    within: float
    """Standard deviation from launch to launch of one build."""
    p: float | None
    """Of builds this far apart if they were all alike; ``None`` with one launch each."""
    needed: dict[str, int]
    """Builds a side with which a difference of so much is found in 80 % of cases, at 99 %."""

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
    launches = min(len(row) for row in rows)
    table = np.array([row[:launches] for row in rows])
    means = table.mean(axis=1)
    among = launches * float(means.var(ddof=1))
    inside = float(table.var(axis=1, ddof=1).mean()) if launches > 1 else 0.0
    between = math.sqrt(max(0.0, (among - inside) / launches))
    within = math.sqrt(inside)
    return Spread(
        builds=len(rows),
        launches=launches,
        typical_s=math.exp(float(means.mean())),
        lowest_s=math.exp(float(means.min())),
        highest_s=math.exp(float(means.max())),
        between=between,
        within=within,
        p=_f_upper(among, inside, len(rows), launches),
        needed={
            f"{100 * claim:g} %": builds_needed(claim, math.hypot(between, within / launches**0.5))
            for claim in CLAIMS
        },
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


def _f_upper(among: float, inside: float, builds: int, launches: int) -> float | None:
    """Compute the probability of a ratio of variances at least this large (Fisher's F)."""
    if launches < 2:
        return None
    if inside == 0:
        return 0.0 if among > 0 else 1.0
    first, second = builds - 1, builds * (launches - 1)
    return incomplete_beta(second / (second + first * among / inside), second / 2, first / 2)


def bytes_aspect(draws: Sequence[Draw]) -> Aspect:
    """Tell whether the builds are one file."""
    kinds = len({draw.sha256 for draw in draws})
    words = "all the same file" if kinds == 1 else f"{kinds} different files of {len(draws)}"
    return Aspect(name="bytes", same=kinds == 1, text=words)


def graph_aspects(graphs: Sequence[EngineGraph | None]) -> tuple[Aspect, Aspect]:
    """Tell whether all engines have the same layers, and chose the same kernels for them."""
    known = [graph for graph in graphs if graph is not None]
    if len(known) < len(graphs) or len(known) < 2:
        unknown = "the builder left no layer information"
        return (
            Aspect(name="graph", same=None, text=unknown),
            Aspect(name="tactics", same=None, text=unknown),
        )
    shapes = [[(layer.name, layer.type) for layer in graph.layers] for graph in known]
    same = all(each == shapes[0] for each in shapes)
    counts = sorted({len(graph.layers) for graph in known})
    words = f"the same {counts[0]} layers" if same else _other_layers(shapes, counts)
    return Aspect(name="graph", same=same, text=words), _tactics(known)


def _other_layers(shapes: Sequence[list[tuple[str, str | None]]], counts: Sequence[int]) -> str:
    names = [{name for name, _ in shape} for shape in shapes]
    common = set.intersection(*names)
    own = max(len(each - common) for each in names)
    sizes = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{sizes} layers, {len(common)} in every build, up to {own} in only some"


def _tactics(graphs: Sequence[EngineGraph]) -> Aspect:
    """Compare the kernels of layers that every build has."""
    chosen = [
        {layer.name: layer.tactic for layer in graph.layers if layer.tactic} for graph in graphs
    ]
    common = sorted(set.intersection(*(set(each) for each in chosen)))
    if not common:
        words = "the engines do not tell their kernels"
        return Aspect(name="tactics", same=None, text=words)
    apart = [name for name in common if len({each[name] for each in chosen}) > 1]
    if not apart:
        return Aspect(name="tactics", same=True, text=f"the same for {len(common)} layers")
    first = apart[0].splitlines()[0]
    words = f"other kernels in {len(apart)} of {len(common)} layers, such as {first}"
    return Aspect(name="tactics", same=False, text=words)


def latency_aspect(spread: Spread) -> Aspect:
    """Tell whether builds are equally fast: apart by 1 % or more, and more than launches are."""
    if spread.range < GATE:
        return Aspect(name="latency", same=True, text=f"within {100 * GATE:g} % of each other")
    far = f"the slowest takes {100 * spread.range:.1f} % longer than the fastest"
    if spread.p is not None and spread.p < 1 - LEVEL:
        return Aspect(name="latency", same=False, text=far)
    words = f"{far}, which launches of one build may explain"
    return Aspect(name="latency", same=None, text=words)


def verdict_over_pairs(
    baseline: Sequence[Draw], candidate: Sequence[Draw], *, metric: str, margin: float = MARGIN
) -> Verdict:
    """Judge two networks whose builds pair: each pair chose its kernels from one set of timings."""
    effects = [
        math.log(b.typical_s / a.typical_s)
        for a, b in zip(baseline, candidate, strict=True)
        if a.typical_s and b.typical_s
    ]
    if len(effects) < 2:
        return incomparable(metric, reason="fewer than two builds of each side were measured")
    return verdict_from_effects(effects, metric=metric, design="builds", margin=margin)


def verdict_over_builds(
    baseline: Sequence[Draw], candidate: Sequence[Draw], *, metric: str, margin: float = MARGIN
) -> Verdict:
    """Judge two sides whose builds have nothing in common; the build is the unit."""
    sides = [
        [math.log(draw.typical_s) for draw in draws if draw.typical_s]
        for draws in (baseline, candidate)
    ]
    estimate = difference(*sides)
    if estimate is None:
        return incomparable(metric, reason="fewer than two builds of each side were measured")
    return judge(estimate, metric=metric, design="builds", margin=margin, meaning=MEANING)
