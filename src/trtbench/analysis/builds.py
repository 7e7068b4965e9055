"""How much repeated builds of one network differ: builders choose kernels by timing them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trtbench.analysis import distributions
from trtbench.analysis.verdict import MARGIN, THRESHOLD, incomparable, judge, verdict_from_effects
from trtbench.core.results import Comparison, ShortView, Verdict
from trtbench.core.samples import EngineGraph
from trtbench.core.spec import Value

CLAIMED_DIFFERENCES = (0.01, 0.02, 0.05, 0.1)  # for which the number of builds needed is shown
POWER = 0.8
TRIMMED_VARIANCE = 1.14  # variance of a trimmed mean over that of a mean, for normal values
MAX_BUILDS = 1000

AspectName = Literal["bytes", "graph", "tactics", "latency"]


class Draw(Value, frozen=True, kw_only=True):
    """One of several builds, and the times of its engine."""

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
        """The geometric mean of its launches; ``None`` without any."""
        if not self.launches_s:
            return None
        return math.exp(math.fsum(map(math.log, self.launches_s)) / len(self.launches_s))


class Aspect(Value, frozen=True, kw_only=True):
    """Whether the builds agree in one aspect; ``None``: unknown."""

    name: AspectName
    same: bool | None
    text: str


class Spread(Value, frozen=True, kw_only=True):
    """How much builds differ, and how much launches of one build do."""

    builds: int
    launches: int
    typical_s: float
    lowest_s: float
    highest_s: float
    between: float  # standard deviation between builds, without that of launches
    within: float  # standard deviation between launches of one build
    p: float | None  # probability of such a spread by chance; ``None`` with one launch each
    needed: dict[str, int]  # by difference: builds per side to find it with 80 % power at 99 %

    @property
    def range(self) -> float:
        """How much longer the slowest build takes than the fastest, as a fraction."""
        return self.highest_s / self.lowest_s - 1


class Lottery(ShortView, Value, frozen=True, kw_only=True):
    """Several builds of one command, and the aspects in which they differ."""

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


Draws = Sequence[Draw]


def spread_from_draws(draws: Draws) -> Spread | None:
    """Split the variance of times into that between builds and within builds (one-way ANOVA)."""
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
            p = distributions.incomplete_beta(x, second / 2, first / 2)
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
        needed={f"{100 * claim:g} %": builds_needed(claim, known) for claim in CLAIMED_DIFFERENCES},
    )


def builds_needed(claim: float, spread: float) -> int:
    """Return the builds per side needed to find a difference, given the spread of builds."""
    goal, level = math.log1p(claim), (1 + distributions.LEVEL) / 2
    # Start from the normal distribution: Student's t is slow to compute and needs a few more.
    factor = distributions.normal_quantile(level) + distributions.normal_quantile(POWER)
    builds = max(2, math.ceil(2 * (factor * spread / goal) ** 2))
    while builds < MAX_BUILDS:
        cut = distributions.trimmed_count(builds)
        df = 2 * (builds - 2 * cut) - 2
        factor = distributions.t_quantile(level, df=df) + distributions.t_quantile(POWER, df=df)
        if factor * spread * math.sqrt((TRIMMED_VARIANCE if cut else 1.0) * 2 / builds) <= goal:
            return builds
        builds += max(1, builds // 50)
    return MAX_BUILDS


def bytes_aspect(draws: Draws) -> Aspect:
    kinds = len({draw.sha256 for draw in draws})
    words = "all the same file" if kinds == 1 else f"{kinds} different files of {len(draws)}"
    return Aspect(name="bytes", same=kinds == 1, text=words)


def graph_aspects(graphs: Sequence[EngineGraph | None]) -> tuple[Aspect, Aspect]:
    """Return whether all engines have the same layers, and the same kernels for them."""
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
            words[1] = f"different kernels in {len(apart)} of {len(timed)} layers, such as {first}"
    return (
        Aspect(name="graph", same=same[0], text=words[0]),
        Aspect(name="tactics", same=same[1], text=words[1]),
    )


def latency_aspect(spread: Spread | None, reason: str | None = None) -> Aspect:
    """Return whether builds are equally fast: a difference below 1 %, or one by chance."""
    if spread is None:
        words = f"not measured: {reason or 'one build has no spread'}"
        return Aspect(name="latency", same=None, text=words)
    if spread.range < THRESHOLD:
        words = f"within {100 * THRESHOLD:g} % of each other"
        return Aspect(name="latency", same=True, text=words)
    far = f"the slowest takes {100 * spread.range:.1f} % longer than the fastest"
    if spread.p is not None and spread.p < 1 - distributions.LEVEL:
        return Aspect(name="latency", same=False, text=far)
    words = f"{far}, which launches of one build may explain"
    return Aspect(name="latency", same=None, text=words)


def verdict_over_builds(
    baseline: Draws, candidate: Draws, *, metric: str, margin: float = MARGIN, paired: bool = False
) -> Verdict:
    """Judge two sides by their builds; ``paired`` builds share the timings of their kernels."""
    before, after = ([draw.typical_s for draw in draws] for draws in (baseline, candidate))
    if paired:
        both = zip(before, after, strict=True)
        effects = [math.log(new / old) for old, new in both if old and new]
        if len(effects) > 1:
            return verdict_from_effects(effects, metric=metric, design="builds", margin=margin)
    logs = ([math.log(each) for each in side if each] for side in (before, after))
    estimate = distributions.difference(*logs)
    if estimate is None or paired:
        return incomparable(metric, reason="fewer than two builds of each side were measured")
    meaning = "99 % for the ratio over builds on this machine"
    return judge(estimate, metric=metric, design="builds", margin=margin, meaning=meaning)


@dataclass(frozen=True, repr=False)
class NetworksCompared(ShortView):
    """Two networks or builders, the builds of each, and a verdict over builds."""

    baseline: Lottery
    candidate: Lottery
    comparison: Comparison
    mode: str
