"""How long two sides are measured: until the answer is clear, or nobody would wait any longer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from trtbench.analysis.bursts import burst_verdict
from trtbench.analysis.shared_metrics import GPU
from trtbench.analysis.turns import held_to_alone
from trtbench.analysis.verdict import (
    MARGIN,
    gate_of,
    incomparable,
    pair_effect,
    verdict_from_effects,
)
from trtbench.domain.comparison import Verdict
from trtbench.domain.words import Mode
from trtbench.store.store import Store
from trtbench.workflows.compare.duet import Duet
from trtbench.workflows.compare.sides import (
    BURSTS_LIMIT_S,
    BURSTS_WARMUP,
    FEWEST_LAUNCHES,
    LIMIT_S,
    WARMUP,
    Sides,
    settled_mode,
)
from trtbench.workflows.request.comparing import LAUNCHES, PairFields, TurnFields
from trtbench.workflows.request.conduct import Conduct


def make_duet(sides: Sides, *, store: Store, request: PairFields, conduct: Conduct) -> Duet:
    """Prepare the launches of two sides, as asked."""
    mode, sides = settle(sides, request)
    free = request.launches is None and request.max_launches is None
    limit_s = BURSTS_LIMIT_S if settled_mode(mode, sides) == "bursts" else LIMIT_S
    return Duet(
        sides,
        store=store,
        conduct=conduct,
        mode=mode,
        pairs=request.pairs,
        seed=request.seed,
        limit_s=limit_s if free else None,
    )


def settle(sides: Sides, request: PairFields) -> tuple[Mode, Sides]:
    """Settle how sides take turns on a GPU: in bursts, unless a launch has a length."""
    if settled_mode(request.mode, sides) != "bursts":
        return request.mode, sides
    if request.mode == "auto" and (request.duration, request.iterations) != (None, None):
        return "launches", sides
    return "bursts", _as_bursts(sides, asked=request.cuda_graph is not None)


def _as_bursts(sides: Sides, *, asked: bool) -> Sides:
    """Wait by spinning, and launch graphs where they can be captured, unless a word was said.

    How the host sleeps and enqueues is the machine's, not the engine's, and it wanders.
    """
    first, second = (
        spec.having(
            spin_wait=True,
            cuda_graph=spec.cuda_graph if asked else "auto",
            warmup=BURSTS_WARMUP if spec.warmup == WARMUP else spec.warmup,
        )
        for spec in sides.both
    )
    return replace(sides, baseline=first, candidate=second)


def play_until_clear(duet: Duet, request: TurnFields) -> None:
    """Measure, and add launches while an answer is unclear and more are allowed.

    GPU time that is known is told at once, and measured no longer.
    """
    duet.on_results = partial(_tell_gpu, duet, margin=request.margin_part)
    duet.play(request.launches)
    while not _is_clear(duet, request) and duet.launches < request.most_launches:
        if duet.out_of_time:
            break
        duet.play(min(duet.more, request.most_launches - duet.launches))


def _is_clear(duet: Duet, request: TurnFields) -> bool:
    """Look at what there is, once GPU time is known where it is measured by itself."""
    margin = request.margin_part
    return not duet.bursts and is_settled(headline_verdict(duet, margin=margin))


def _tell_gpu(duet: Duet, *, margin: float) -> None:
    if duet.bursts and (told := gpu_verdict(duet, margin=margin)) and is_settled(told):
        duet.tell_gpu(told)


def is_settled(verdict: Verdict) -> bool:
    """Say whether more launches would not help; a doubtful difference is not the same at first."""
    if verdict.kind == "unclear":
        return verdict.launches_needed is None
    if verdict.design != "bursts":
        return True
    if verdict.metric != GPU and verdict.launches < FEWEST_LAUNCHES:
        return False
    if verdict.kind != "same" or verdict.launches >= LAUNCHES:
        return True
    return abs((verdict.ratio or 1.0) - 1) < gate_of(verdict)


def gpu_verdict(duet: Duet, *, margin: float = MARGIN) -> Verdict | None:
    """Judge the bursts so far, held to the single queries of the same launches."""
    pairs = [(a, b) for a, b in duet.columns(GPU) if a is not None and b is not None]
    singly = [pair_effect(a, b, design=duet.design) for a, b in pairs]
    return burst_verdict(*duet.facts, singly=singly, margin=margin)


def headline_verdict(duet: Duet, *, margin: float = MARGIN) -> Verdict:
    """Judge what has been measured so far."""
    pairs = duet.columns(duet.headline)
    if any(a is None or b is None for a, b in pairs):
        reason = f"{duet.headline} was not measured on both sides"
        return incomparable(duet.headline, reason=reason, design=duet.design)
    effects = [pair_effect(a, b, design=duet.design) for a, b in pairs]
    verdict = verdict_from_effects(effects, metric=duet.headline, design=duet.design, margin=margin)
    return held_to_alone(verdict, duet.alone_effects(), margin=margin)[0]
