"""What TensorRT says: a log, the errors among it, how far a build has come, shapes of outputs.

TensorRT calls objects of classes derived from its own, so the classes are made for the module at
hand. They keep plain values only and never raise: an exception would pass through native code.
There is no error recorder: all errors reach the logger too, and a recorder written in Python
crashes TensorRT-RTX 1.7 when a network is freed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tensorrt import ILogger, IProgressMonitor

Progress = Callable[[float, str], None]

LETTERS = {"INTERNAL_ERROR": "F", "ERROR": "E", "WARNING": "W", "INFO": "I", "VERBOSE": "V"}
NOISE = ("cudaError 35", "catchCudaError", "CUDA initialization failure with error: 35")
"""Follows other errors on machines without a driver, and is hardly ever the cause."""

_TIMED = re.compile(r"Timing Runner: (.{1,1000}?) \(")
"""What TensorRT 8 says, verbosely, before it times the kernels of a layer."""

MOST_KEPT = 200
"""Errors and warnings kept in memory; the log has them all."""


@dataclass
class Heard:
    """What was said so far, worst first where it matters."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def cause(self) -> str | None:
        """Find the first error that is not mere noise of a machine without a driver."""
        telling = [text for text in self.errors if not any(word in text for word in NOISE)]
        return next(iter(telling or self.errors), None)


def make_logger(
    trt: ModuleType,
    *,
    path: Path,
    heard: Heard,
    verbose: bool,
    watch: Callable[[str], None] | None = None,
) -> ILogger:
    """Make a logger that writes a file in the manner of trtexec's log.

    ``watch`` is given every line, those too that are not written because nobody asked for them.
    """
    file = open(path, "a", encoding="utf-8", errors="replace", buffering=1)  # noqa: SIM115

    class Logger(trt.ILogger):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: object, text: str) -> None:
            letter = LETTERS.get(getattr(severity, "name", ""), "I")
            if watch is not None:
                watch(text)
            if letter == "V" and not verbose:
                return
            if letter in "FE" and len(heard.errors) < MOST_KEPT:
                heard.errors.append(text)
            if letter == "W" and len(heard.warnings) < MOST_KEPT:
                heard.warnings.append(text)
            try:
                stamp = time.strftime("%m/%d/%Y-%H:%M:%S")
                file.write(f"[{stamp}] [{letter}] [TRT] {text}\n")
            except (OSError, ValueError):  # a full disk, or the very end of the process
                return

    return Logger()


def make_monitor(
    trt: ModuleType, *, tell: Progress, cancelled: Callable[[], bool]
) -> IProgressMonitor:
    """Make a progress monitor, which can also end the build; for versions that have one."""
    tree = PhaseTree()

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            tree.start(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:
            tree.step(phase_name, step)
            _quietly(tell, tree.done(), phase_name)
            return not cancelled()

        def phase_finish(self, phase_name: str) -> None:
            tree.finish(phase_name)
            _quietly(tell, tree.done(), phase_name)

    return Monitor()


def make_output_room(trt: ModuleType, *, address: int, size_bytes: int) -> OutputRoom:
    """Make the place of an output whose shape depends on the data; TensorRT tells it the shape."""

    class Room(trt.IOutputAllocator):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)
            self.shape: tuple[int, ...] | None = None

        def reallocate_output(self, name: str, memory: object, size: int, alignment: int) -> int:
            return address if size <= size_bytes else 0

        def reallocate_output_async(
            self, name: str, memory: object, size: int, alignment: int, stream: object
        ) -> int:  # from TensorRT 10 on
            return self.reallocate_output(name, memory, size, alignment)

        def notify_shape(self, name: str, shape: Iterable[int]) -> None:
            self.shape = tuple(int(dim) for dim in shape)

    room: OutputRoom = Room()
    return room


def _quietly(tell: Progress, done: float, text: str) -> None:
    try:
        tell(done, text)
    except Exception:
        return


class OutputRoom(Protocol):
    """Memory of an output, with the shape that the last query gave it."""

    shape: tuple[int, ...] | None


class LogProgress:
    """Tells how far a build has come by the log, for versions that have no progress monitor.

    Kernels are timed layer by layer, which takes nearly all the time; how many layers are left
    after fusing is not known, so the part is that of the network's own layers.
    """

    def __init__(self, tell: Progress) -> None:
        self._tell = tell
        self._timed: set[str] = set()
        self.layers = 0
        """Of the network, once it is parsed."""

    def __call__(self, text: str) -> None:
        match = _TIMED.search(text[:2000]) if self.layers else None
        if match is None or match[1] in self._timed:
            return
        self._timed.add(match[1])
        part = min(len(self._timed) / self.layers, 0.99)
        _quietly(self._tell, part, f"timing {match[1][:80]}")


class PhaseTree:
    """Turns nested phases with numbers of steps into one part of the whole that never shrinks."""

    def __init__(self) -> None:
        self._phases: dict[str, list[float]] = {}
        self._parents: dict[str, str | None] = {}
        self._reached = 0.0

    def start(self, name: str, parent: str | None, steps: int) -> None:
        self._phases[name] = [0.0, float(max(steps, 1))]
        self._parents[name] = parent if parent in self._phases else None

    def step(self, name: str, step: int) -> None:
        if name in self._phases:
            self._phases[name][0] = min(step + 1.0, self._phases[name][1])

    def finish(self, name: str) -> None:
        if self._phases.pop(name, None) is None:
            return
        if self._parents.pop(name, None) is None and not self._phases:
            self._reached = 1.0

    def done(self) -> float:
        """Find the outermost phase's part, refined by the part of the phases within it."""
        top = next((each for each in self._phases if self._parents[each] is None), None)
        if top is not None:
            self._reached = max(self._reached, min(self._part(top), 1.0))
        return self._reached

    def _part(self, name: str) -> float:
        finished, steps = self._phases[name]
        inner = [each for each in self._phases if self._parents[each] == name]
        within = max((self._part(each) for each in inner), default=0.0)
        return (finished + within * (finished < steps)) / steps
