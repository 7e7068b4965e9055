"""Jetson boards seen by jetson-stats, whose service may read what a user may not.

Written for the structures of jetson-stats 4 and 3; what one of them does not have is absent.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from trtbench.domain.result import Scalar
from trtbench.domain.samples import TelemetrySample
from trtbench.host.telemetry_values import Counters, known_temperature

if TYPE_CHECKING:
    from jtop import jtop

T = TypeVar("T")
INTERVAL_S = 0.1
_KIB = 1024
_KHZ = 1e3


class JtopSource:
    """The service's latest answers."""

    def __init__(self, board: jtop) -> None:
        self._board = board

    @classmethod
    @contextmanager
    def opened(cls, *, library: ModuleType | None = None) -> Iterator[JtopSource | None]:
        """Connect to the service; ``None`` where the package or its service is not there."""
        with ExitStack() as stack:
            board = _connected(stack, library)
            yield None if board is None else cls(board)

    def sample(self, at_s: float) -> TelemetrySample:
        board = self._board
        return TelemetrySample(
            at_s=at_s,
            gpu_util=_first(
                lambda: _gpu(board)["status"]["load"] / 100, lambda: board.gpu["val"] / 100
            ),
            memory_util=_first(
                lambda: board.memory["EMC"]["val"] / 100, lambda: board.emc["val"] / 100
            ),
            memory_used_bytes=_whole(
                _first(lambda: board.memory["RAM"]["used"] * _KIB, lambda: board.ram["use"] * _KIB)
            ),
            sm_clock_hz=_first(
                lambda: _gpu(board)["freq"]["cur"] * _KHZ, lambda: board.gpu["frq"] * _KHZ
            ),
            memory_clock_hz=_first(
                lambda: board.memory["EMC"]["cur"] * _KHZ, lambda: board.emc["frq"] * _KHZ
            ),
            power_w=_first(
                lambda: board.power["tot"]["power"] * 1e-3, lambda: board.power[0]["cur"] * 1e-3
            ),
            temperature_c=known_temperature(_first(lambda: _temperature(board.temperature))),
        )

    def counters(self, *, energy: bool = False) -> Counters:
        """Tell the clock that the service told last; a Jetson has no counters of limits."""
        return Counters(at_s=time.monotonic(), sm_clock_hz=self.sample(0.0).sm_clock_hz)

    def settings(self) -> dict[str, Scalar]:
        """Ask for the power mode and whether jetson_clocks runs, as only root may ask programs."""
        board = self._board
        mode, number = _tried(lambda: board.nvpmodel.name), _tried(lambda: board.nvpmodel.id)
        clocks = _tried(lambda: board.jetson_clocks)
        found: dict[str, Scalar] = {
            "nvpmodel": mode if mode is None or number is None else f"{mode} ({number})",
            "jetson_clocks": None if clocks is None else bool(clocks),
        }
        return {name: value for name, value in found.items() if value is not None}


def _connected(stack: ExitStack, library: ModuleType | None) -> jtop | None:
    try:
        found = library or importlib.import_module("jtop")
        board = stack.enter_context(found.jtop(interval=INTERVAL_S))
        board.ok()  # waits for the first answer
    except Exception:  # no package, no service, another version of it, no permission
        return None
    return board


def _gpu(board: jtop) -> Mapping[str, Any]:
    """Find the first GPU; version 4 keeps them by name."""
    return next(iter(dict(board.gpu).values()))


def _temperature(sensors: Mapping[str, Any]) -> float | None:
    """Read the GPU's; a sensor that is off tells nothing."""
    for name, value in sensors.items():
        if name.lower() in ("gpu", "gpu-thermal"):
            if not isinstance(value, Mapping):
                return float(value)
            return float(value["temp"]) if value.get("online", True) else None
    return None


def _first(*reads: Callable[[], object]) -> float | None:
    """Ask for one quantity by itself, in the form of each version: what lacks it has others."""
    for read in reads:
        value = _tried(read)
        if isinstance(value, (int, float)):
            return float(value)
    return None


def _tried(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except Exception:  # the library's values are of its own kinds, and so are their errors
        return None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
