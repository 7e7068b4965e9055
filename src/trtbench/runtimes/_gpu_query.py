"""Queries on a GPU, one at a time or several in flight as in trtexec.

Every call is bound before the loop. Spans come from pairs of events of one iteration, never from a
common time line: CUDA gives single precision, which is exact over a query and not over a run.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trtbench.core.samples import Column
from trtbench.host.cuda import Call, Cuda, CudaError

_NS = 1e-9

Enqueue = Callable[[], object]
"""Puts the work of one query on its stream; ``False`` says that it was refused."""
CopyMaker = Callable[[object], tuple[Call, ...]]


@dataclass(kw_only=True)
class Lane:
    """One context with its buffers: what to copy in, what to run, what to copy out."""

    enqueue: Enqueue
    stream: object
    copies_in: CopyMaker
    copies_out: CopyMaker
    ahead: tuple[Call, ...] = ()
    """What goes on the stream before each query, outside of its times."""


def refused() -> CudaError:
    return CudaError("the work of a query could not be enqueued")


class SerialQuery:
    """One query, wait, next: all on one stream, with an event at each boundary."""

    overlapping = False

    def __init__(self, cuda: Cuda, lane: Lane, *, transfers: bool) -> None:
        names = ("h2d", "gpu", "d2h") if transfers else ("gpu",)
        events = [cuda.event() for _ in range(len(names) + 1)]
        records = [cuda.record(event, lane.stream) for event in events]
        wait = cuda.wait(events[-1])
        self._spans = {
            name: cuda.span(begin, end)
            for name, begin, end in zip(names, events, events[1:], strict=False)
        }
        self._columns = {name: array("d") for name in ("enqueue", *names)}
        enqueue, push, clock = lane.enqueue, self._columns["enqueue"].append, time.perf_counter_ns
        begin, *_, end = records

        def bare() -> None:
            begin()
            before = clock()
            done = enqueue()
            after = clock()
            end()
            wait()
            if done is False:
                raise refused()
            push((after - before) * _NS)

        self.step: Call = bare
        if not transfers:
            return
        _, copied_in, computed, _ = records
        copies_in, copies_out = lane.copies_in(lane.stream), lane.copies_out(lane.stream)

        def with_copies() -> None:
            begin()
            for copy in copies_in:
                copy()
            copied_in()
            before = clock()
            done = enqueue()
            after = clock()
            computed()
            for copy in copies_out:
                copy()
            end()
            wait()
            if done is False:
                raise refused()
            push((after - before) * _NS)

        self.step = with_copies

    def take(self) -> None:
        for name, read in self._spans.items():
            self._columns[name].append(read())

    def drain(self) -> None:
        """Wait for nothing: nothing is in flight between two calls."""

    def clear(self) -> None:
        """Forget all queries so far, in place: the bound calls go on using the same columns."""
        for column in self._columns.values():
            del column[:]

    def columns(self) -> dict[str, Column]:
        return {name: np.array(column, np.float64) for name, column in self._columns.items()}


def burst_of_queries(
    cuda: Cuda, lane: Lane, *, size: int, lead: int
) -> Callable[[], tuple[float, float]]:
    """Bind queries back to back, with one pair of events around them.

    The lead goes before the first event: the caches are this side's again by then, and the stream
    has work in store, so that the GPU never waits for the host unless enqueueing is what is slow.
    """
    first, last = cuda.event(), cuda.event()
    begin, end = cuda.record(first, lane.stream), cuda.record(last, lane.stream)
    wait, read, enqueue = cuda.wait(last), cuda.span(first, last), lane.enqueue
    clock = time.perf_counter_ns

    def burst() -> tuple[float, float]:
        quickest, done = 0, True
        for _ in range(lead):
            before = clock()
            done = enqueue() is not False and done
            took = clock() - before
            quickest = min(quickest, took) if quickest else took
        begin()
        for _ in range(size):
            done = enqueue() is not False and done
        end()
        wait()
        if not done:
            raise refused()
        return read() / size, quickest * _NS

    return burst


class Pipeline:
    """Several queries in flight: the next is enqueued before the one before is waited for.

    As trtexec does up to TensorRT 10: per context a stream each for copies in, work and copies out,
    and two places for queries. A call of ``step`` enqueues one query and waits for the oldest.
    """

    overlapping = True

    def __init__(
        self, cuda: Cuda, lanes: Sequence[Lane], *, transfers: bool, depth: int = 2
    ) -> None:
        self._rows = array("d")
        streams = [(cuda.stream(), cuda.stream()) if transfers else (None, None) for _ in lanes]
        # Contexts take turns, so that each has work while the host is busy with the others.
        self._slots = [
            _Slot(cuda, lane, inward=inward, outward=outward, rows=self._rows)
            for _ in range(depth)
            for lane, (inward, outward) in zip(lanes, streams, strict=True)
        ]
        self._names = self._slots[0].names
        self._turn = 0

    def step(self) -> None:
        slots, turn = self._slots, self._turn
        slots[turn].enqueue()
        turn = self._turn = (turn + 1) % len(slots)
        oldest = slots[turn]
        if oldest.active:
            oldest.complete()

    def take(self) -> None:
        """Keep spans as queries complete."""

    def drain(self) -> None:
        """Wait for all that is in flight, oldest first."""
        for offset in range(len(self._slots)):
            slot = self._slots[(self._turn + offset) % len(self._slots)]
            if slot.active:
                slot.complete()

    def clear(self) -> None:
        self.drain()
        del self._rows[:]

    def columns(self) -> dict[str, Column]:
        """Return what was kept; latency is the sum of the spans, as trtexec defines it."""
        table = np.array(self._rows, np.float64).reshape(-1, len(self._names))
        columns = {name: table[:, index].copy() for index, name in enumerate(self._names)}
        columns["start"] -= columns["start"][0] if len(table) else 0.0
        spans = [columns[name] for name in ("h2d", "gpu", "d2h") if name in columns]
        columns["latency"] = np.sum(spans, axis=0)
        return columns


class _Slot:
    """One place in flight: its events, and the calls of a query bound to its streams."""

    def __init__(
        self, cuda: Cuda, lane: Lane, *, inward: object, outward: object, rows: array[float]
    ) -> None:
        self.active = False
        begin, end = cuda.event(), cuda.event()
        self._before: tuple[Call, ...] = (*lane.ahead, cuda.record(begin, lane.stream))
        self._after: tuple[Call, ...] = (cuda.record(end, lane.stream),)
        self._work = lane.enqueue
        spans = {"gpu": cuda.span(begin, end)}
        last = end
        if inward is not None:  # copies around the work, on streams of their own
            in_0, in_1, out_0, last = (cuda.event() for _ in range(4))
            self._before = (
                cuda.record(in_0, inward),
                *lane.copies_in(inward),
                cuda.record(in_1, inward),
                cuda.hold_back(lane.stream, in_1),
                *self._before,
            )
            self._after = (
                *self._after,
                cuda.hold_back(outward, end),
                cuda.record(out_0, outward),
                *lane.copies_out(outward),
                cuda.record(last, outward),
            )
            spans["h2d"] = cuda.span(in_0, in_1)
            spans["d2h"] = cuda.span(out_0, last)
            spans["end_to_end"] = cuda.span(in_0, last)
        self.names = ("start", "enqueue", *spans)
        self._wait = cuda.wait(last)
        self._reads = tuple(spans.values())
        self._push = rows.append
        self._stamps = (0, 0, 0)

    def enqueue(self) -> None:
        clock = time.perf_counter_ns
        start = clock()
        for call in self._before:
            call()
        before = clock()
        done = self._work()
        after = clock()
        for call in self._after:
            call()
        if done is False:
            raise refused()
        self._stamps = (start, before, after)
        self.active = True

    def complete(self) -> None:
        self._wait()
        self.active = False
        start, before, after = self._stamps
        push = self._push
        push(start * _NS)
        push((after - before) * _NS)
        for read in self._reads:
            push(read())
