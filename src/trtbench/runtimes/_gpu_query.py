"""Queries on a GPU, one at a time or several in flight as in trtexec.

Every call is bound before the loop. Spans are measured between two events of one iteration, never
from a common origin: CUDA returns single precision, which is exact over a query but not over a run.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trtbench.core.samples import Column
from trtbench.host.cuda import Call, Cuda, CudaError

_NS = 1e-9
CLOSE = 1e-2
"""Largest allowed difference between a graph and a plain run, relative to the largest value.

Engines may sum in another order from run to run; a graph that does not work differs by far more.
"""

Enqueue = Callable[[], object]
"""Enqueues the work of one query on its stream; returns ``False`` on failure."""
CopyMaker = Callable[[object], tuple[Call, ...]]


@dataclass(kw_only=True)
class Lane:
    """One execution context: its stream, its work, and its copies in and out."""

    enqueue: Enqueue
    stream: object
    copies_in: CopyMaker
    copies_out: CopyMaker
    ahead: tuple[Call, ...] = ()  # calls that are enqueued before each query, and not timed


def enqueue_error() -> CudaError:
    return CudaError("the work of a query could not be enqueued")


def is_close(expected: NDArray[np.generic], found: NDArray[np.generic]) -> bool:
    """Return whether outputs of two runs of a model on the same inputs agree."""
    if expected.shape != found.shape:
        return False
    if expected.dtype.kind != "f":
        return expected.tobytes() == found.tobytes()
    a, b = expected.astype(np.float64), found.astype(np.float64)
    largest = float(np.abs(a[np.isfinite(a)]).max(initial=1e-30))
    return np.allclose(b, a, rtol=0, atol=CLOSE * largest, equal_nan=True)


class SerialQuery:
    """Runs one query at a time, on one stream, with an event at each boundary."""

    overlapping = False  # whether a call of `step` is not one query

    def __init__(self, cuda: Cuda, lane: Lane, *, transfers: bool) -> None:
        names = ("h2d", "gpu", "d2h") if transfers else ("gpu",)
        events = [cuda.event() for _ in range(len(names) + 1)]
        begin, *inner, end = (cuda.record(event, lane.stream) for event in events)
        ahead: tuple[Call, ...] = (begin,)
        behind: tuple[Call, ...] = (end,)
        if transfers:
            copied_in, computed = inner
            ahead = (begin, *lane.copies_in(lane.stream), copied_in)
            behind = (computed, *lane.copies_out(lane.stream), end)
        wait = cuda.wait(events[-1])
        ends = zip(names, events, events[1:], strict=False)
        self._spans = {name: cuda.span(begin, end) for name, begin, end in ends}
        self._columns = {name: array("d") for name in ("enqueue", *names)}
        enqueue, push, clock = lane.enqueue, self._columns["enqueue"].append, time.perf_counter_ns

        def step() -> None:
            for call in ahead:
                call()
            before = clock()
            done = enqueue()
            after = clock()
            for call in behind:
                call()
            wait()
            if done is False:
                raise enqueue_error()
            push((after - before) * _NS)

        self.step: Call = step

    def take(self) -> None:
        """Store the spans of the query that has just completed; not timed."""
        for name, read in self._spans.items():
            self._columns[name].append(read())

    def drain(self) -> None:
        """Do nothing, since nothing is in flight between two calls."""

    def clear(self) -> None:
        """Delete all queries so far, in place, because the bound calls keep using the columns."""
        for column in self._columns.values():
            del column[:]

    def columns(self) -> dict[str, Column]:
        """Return the stored spans in seconds, one row per query."""
        return {name: np.array(column, np.float64) for name, column in self._columns.items()}


def burst_of_queries(
    cuda: Cuda, lane: Lane, *, size: int, lead: int
) -> Callable[[], tuple[float, float]]:
    """Return a call that runs queries back to back, with one pair of events around them.

    ``lead`` queries run before the first event: they fill the caches and keep the stream busy, so
    that the GPU does not wait for the host, unless enqueueing is slower than the GPU.
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
            raise enqueue_error()
        return read() / size, quickest * _NS

    return burst


class Pipeline:
    """Keeps several queries in flight: the next is enqueued before the previous one has ended.

    As in trtexec up to TensorRT 10, each context has a stream each for copies in, work and copies
    out, and two slots for queries. A call of ``step`` enqueues one query and waits for the oldest.
    """

    overlapping = True

    def __init__(
        self, cuda: Cuda, lanes: Sequence[Lane], *, transfers: bool, depth: int = 2
    ) -> None:
        self._rows = array("d")
        streams = [(cuda.stream(), cuda.stream()) if transfers else (None, None) for _ in lanes]
        # Contexts take turns, so that each has work while the host serves the others.
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
        """Do nothing, since spans are stored when queries complete."""

    def drain(self) -> None:
        """Wait for all queries in flight, oldest first."""
        for offset in range(len(self._slots)):
            slot = self._slots[(self._turn + offset) % len(self._slots)]
            if slot.active:
                slot.complete()

    def clear(self) -> None:
        self.drain()
        del self._rows[:]

    def columns(self) -> dict[str, Column]:
        """Return the spans of all queries; latency is their sum, as trtexec defines it."""
        table = np.array(self._rows, np.float64).reshape(-1, len(self._names))
        columns = {name: table[:, index].copy() for index, name in enumerate(self._names)}
        columns["start"] -= columns["start"][0] if len(table) else 0.0
        spans = [columns[name] for name in ("h2d", "gpu", "d2h") if name in columns]
        columns["latency"] = np.sum(spans, axis=0)
        return columns


class _Slot:
    """The events of one query in flight, and its calls, bound to their streams."""

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
        if inward is not None:  # copies before and after the work, on separate streams
            in_0, in_1, out_0, last = (cuda.event() for _ in range(4))
            self._before = (
                cuda.record(in_0, inward),
                *lane.copies_in(inward),
                cuda.record(in_1, inward),
                cuda.stream_wait(lane.stream, in_1),
                *self._before,
            )
            self._after = (
                *self._after,
                cuda.stream_wait(outward, end),
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
            raise enqueue_error()
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
