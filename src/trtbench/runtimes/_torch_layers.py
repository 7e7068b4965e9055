"""Times of single modules by PyTorch's own profiler, in a pass of its own.

Modules without children are rows of their own; what happens between them is told by operator. On a
GPU the times are those of the kernels that were started meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from trtbench.domain.samples import LayerProfile
from trtbench.runtimes._layer_times import LEAST, WARMUP, Row, profile_from_rows

if TYPE_CHECKING:
    from torch.nn import Module


class _Span(Protocol):
    start: float


class _Event(Protocol):
    """What PyTorch's profiler heard: an operator or a mark, and what happened within."""

    name: str
    time_range: _Span
    cpu_time_total: float
    device_time_total: float
    cpu_children: Sequence[_Event]


MARK = "trtbench:"
WHOLE = f"{MARK}query"


def profile_modules(
    torch: ModuleType, module: Module, run: Callable[[], object], *, on_gpu: bool
) -> tuple[LayerProfile, float | None]:
    """Run with the profiler on; gives the times of modules and, on a GPU, of whole queries."""
    kinds = torch.profiler.ProfilerActivity
    activities = [kinds.CPU, *([kinds.CUDA] if on_gpu else [])]
    record = torch.profiler.record_function

    def query() -> None:
        with record(WHOLE):
            run()
        if on_gpu:
            torch.cuda.synchronize()

    for _ in range(WARMUP):
        run()
    with _marked(module, record), torch.profiler.profile(activities=activities) as profiler:
        for _ in range(LEAST):  # a trace of more fills memory and tells the same
            query()
    rows, wholes = rows_of_queries(profiler.events(), on_gpu=on_gpu)
    return profile_from_rows(rows), float(np.median(wholes)) if on_gpu and wholes else None


@contextmanager
def _marked(
    module: Module, record: Callable[[str], AbstractContextManager[object]]
) -> Iterator[None]:
    """Mark the calls of modules without children; kinds that take no hooks are left alone."""
    open_marks: list[AbstractContextManager[object]] = []
    hooks = []

    def begin(name: str) -> Callable[..., None]:
        def hook(*_: object) -> None:
            mark = record(f"{MARK}{name}")
            mark.__enter__()
            open_marks.append(mark)

        return hook

    def end(*_: object) -> None:
        open_marks.pop().__exit__(None, None, None)

    try:
        for name, each in module.named_modules():
            if name and not list(each.children()):
                label = f"{name} ({type(each).__name__})"
                hooks += [
                    each.register_forward_pre_hook(begin(label)),
                    each.register_forward_hook(end),
                ]
    except (AttributeError, RuntimeError):
        pass  # an exported program, a compiled one: operators alone are told
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def rows_of_queries(
    events: Iterable[_Event], *, on_gpu: bool
) -> tuple[list[list[Row]], list[float]]:
    """Sort what was heard into queries: marked modules, and operators outside of any."""
    wholes = [each for each in events if each.name == WHOLE]
    rows: list[list[Row]] = []
    spans: list[float] = []
    for whole in sorted(wholes, key=_start):
        spans.append(_seconds(whole, on_gpu))
        rows.append([(_label(each), _seconds(each, on_gpu)) for each in _parts(whole)])
    return rows, spans


def _parts(whole: _Event) -> Iterator[_Event]:
    """List marked modules and operators; what is neither (TorchScript's ``forward``) is entered."""
    for each in sorted(whole.cpu_children, key=_start):
        known = each.name.startswith(MARK) or "::" in each.name
        if known or not each.cpu_children:
            yield each
        else:
            yield from _parts(each)


def _label(event: _Event) -> str:
    return str(event.name).removeprefix(MARK)


def _start(event: _Event) -> float:
    return float(event.time_range.start)


def _seconds(event: _Event, on_gpu: bool) -> float:
    told = event.device_time_total if on_gpu else event.cpu_time_total
    return float(told) * 1e-6
