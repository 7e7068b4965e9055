"""Two sides measured in turn: both in one process, or in two that hand each other the turn.

The order within each pair is random and known to both sides beforehand, so that a turn is handed
over by one byte and the parent sleeps. The side that waits is blocked, not spinning.
"""

from __future__ import annotations

import gc
import os
import socket
import time
from array import array
from collections.abc import Callable, Sequence
from itertools import groupby

import msgspec
import numpy as np
from numpy.typing import NDArray

from trtbench.domain.job import BenchOutcome, DuetJob, Stage
from trtbench.domain.result import Fact, LaunchFacts
from trtbench.domain.samples import IterationTimes
from trtbench.domain.spec import Length, RunSpec
from trtbench.errors import TrtbenchError
from trtbench.runtimes._bench import Prepared, prepare, timed_loop, timer_floor_s, warm_up
from trtbench.runtimes._session import Session

SOLO = 30
"""Iterations alone, against which interference is measured."""
SETTLE = 10
"""Pairs run before those that count: each side finds the caches as the other leaves them."""

_NS = 1e-9
_HELLO, _TURN = b"h", b"t"

Opener = Callable[[RunSpec], Session]
Result = tuple[BenchOutcome, IterationTimes]


class PartnerLost(TrtbenchError):
    """The other side's process ended before its time."""


def play(
    job: DuetJob, openers: Sequence[Opener], stage: Stage, *, channel: int | None
) -> dict[int, Result]:
    """Run this process's part of a duet; gives the result of each side that ran here."""
    if job.mine is None:
        return _play_both(job, openers, stage)
    if channel is None:
        raise ValueError("a side that runs alone needs a channel to the other")
    with Partner(channel) as partner:
        return {job.mine: _play_side(job, openers[job.mine], stage, partner)}


def order_of_turns(pairs: int, *, seed: int, launch: int) -> NDArray[np.int64]:
    """The side of each turn: every pair holds both, in random order."""
    generator = np.random.default_rng([seed, launch])
    first = generator.integers(0, 2, size=SETTLE + pairs)
    return np.stack([first, 1 - first], axis=1).reshape(-1)


def _play_both(job: DuetJob, openers: Sequence[Opener], stage: Stage) -> dict[int, Result]:
    stage("load")
    # Which side is made first is random too: memory may lie better for one of them.
    creation = np.random.default_rng([job.seed, job.launch, 1]).permutation(2)
    prepared = {int(side): prepare(openers[side], job.sides[side]) for side in creation}
    stage("warm-up")
    solo = {}
    for side in sorted(prepared):
        warm_up(prepared[side].step, job.sides[side].warmup)
        solo[side] = _solo(prepared[side].step)
    stage("measure")
    turns = order_of_turns(job.pairs, seed=job.seed, launch=job.launch)
    spans = _alternate([prepared[0].step, prepared[1].step], turns)
    return {
        side: _result(prepared[side], spans[turns == side], turns, side, solo[side], "one process")
        for side in (0, 1)
    }


def _play_side(job: DuetJob, opener: Opener, stage: Stage, partner: Partner) -> Result:
    mine = int(job.mine or 0)
    stage("load")
    prepared = prepare(opener, job.sides[mine])
    partner.meet()
    stage("warm-up")
    if mine == 1:
        partner.wait()
    warm_up(prepared.step, job.sides[mine].warmup)
    solo = _solo(prepared.step)
    partner.hand_over()
    if mine == 0:
        partner.wait()
    stage("measure")
    turns = order_of_turns(job.pairs, seed=job.seed, launch=job.launch)
    spans = _take_turns(prepared.step, turns, mine, partner)
    return _result(prepared, spans, turns, mine, solo, "two processes in lock-step")


def _alternate(
    steps: Sequence[Callable[[], object]], turns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Run every turn here; gives start and end of each in nanoseconds."""
    clock = time.perf_counter_ns
    stamps = array("q")
    push = stamps.append
    gc.collect()
    gc.disable()
    try:
        for step in [steps[side] for side in turns]:
            before = clock()
            step()
            push(before)
            push(clock())
    finally:
        gc.enable()
    return np.frombuffer(stamps, np.int64).reshape(-1, 2)


def _take_turns(
    step: Callable[[], object], turns: NDArray[np.int64], mine: int, partner: Partner
) -> NDArray[np.int64]:
    """Run my turns, waiting while the other has its own."""
    stretches = [(int(side), len(list(group))) for side, group in groupby(turns.tolist())]
    clock = time.perf_counter_ns
    stamps = array("q")
    push = stamps.append
    gc.collect()
    gc.disable()
    try:
        for number, (side, length) in enumerate(stretches):
            if side != mine:
                continue
            if number > 0:
                partner.wait()
            for _ in range(length):
                before = clock()
                step()
                push(before)
                push(clock())
            if number + 1 < len(stretches):
                partner.hand_over()
    finally:
        gc.enable()
    return np.frombuffer(stamps, np.int64).reshape(-1, 2)


def _solo(step: Callable[[], object]) -> float:
    starts, ends = timed_loop(step, Length(iterations=SOLO))
    return float(np.median(ends - starts)) * _NS


def _result(
    prepared: Prepared,
    spans: NDArray[np.int64],
    turns: NDArray[np.int64],
    side: int,
    solo_s: float,
    how: str,
) -> Result:
    """Drop the settling pairs and describe the rest as one launch of a run."""
    second = (turns.reshape(-1, 2)[:, 1] == side)[SETTLE:]
    kept = spans[SETTLE:]
    starts, ends = kept[:, 0], kept[:, 1]
    times = IterationTimes(
        host=np.asarray((ends - starts) * _NS, np.float64),
        start=np.asarray((starts - spans[0, 0]) * _NS, np.float64),
        stamps={"second": second.astype(np.float64)},
    )
    facts = LaunchFacts(
        load_s=prepared.load_s,
        first_s=prepared.first_s,
        solo_median_s=solo_s,
        timer_floor_s=timer_floor_s(),
    )
    outcome = msgspec.structs.replace(prepared.outcome, facts=facts)
    conditions = {**outcome.conditions, "interleaved": Fact(value=how)}
    return msgspec.structs.replace(outcome, conditions=conditions), times


class Partner:
    """The other side's process, at the far end of a socket."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)

    def __enter__(self) -> Partner:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def meet(self) -> None:
        """Wait until both sides are here."""
        self._send(_HELLO)
        self._receive(_HELLO)

    def hand_over(self) -> None:
        self._send(_TURN)

    def wait(self) -> None:
        self._receive(_TURN)

    def _send(self, word: bytes) -> None:
        try:
            self._socket.sendall(word)
        except OSError:
            raise PartnerLost("the other side ended before its time") from None

    def _receive(self, word: bytes) -> None:
        try:
            heard = self._socket.recv(1)
        except OSError:
            heard = b""
        if heard != word:
            raise PartnerLost("the other side ended before its time")
