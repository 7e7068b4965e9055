"""Looks at the GPU from outside the process that is measured: samples over time, and counters.

Every quantity is probed by itself; what a device does not tell is absent. A look takes from
microseconds to milliseconds (energy), so nobody looks during a pass whose latency counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import ModuleType
from typing import Protocol, TypeVar

from trtbench.domain.samples import TelemetrySample
from trtbench.domain.spec import Value
from trtbench.host.gpu_names import slice_in_use
from trtbench.host.jtop import JtopSource
from trtbench.host.nvml import MHZ, Device, opened
from trtbench.host.tegrastats import TegraSource, is_jetson
from trtbench.host.telemetry_values import Counters

POLICIES = {
    "power": ("NVML_PERF_POLICY_POWER", 0),
    "thermal": ("NVML_PERF_POLICY_THERMAL", 1),
    "sync_boost": ("NVML_PERF_POLICY_SYNC_BOOST", 2),
    "board": ("NVML_PERF_POLICY_BOARD_LIMIT", 3),
    "low_utilization": ("NVML_PERF_POLICY_LOW_UTILIZATION", 4),
    "reliability": ("NVML_PERF_POLICY_RELIABILITY", 5),
}
"""Violation counters: how long clocks were held down, in nanoseconds."""

FIELDS = {
    "sw_power_cap": 74,
    "sync_boost_field": 76,
    "sw_thermal": 269,
    "hw_thermal": 270,
    "power_brake": 271,
}
"""Further counters of the same kind, by the numbers of NVML's fields."""

ENERGY_PROBE_S = 0.6
_RUNNING = ("MPSCompute", "Compute")
_PCIE = {"sent": ("NVML_PCIE_UTIL_TX_BYTES", 0), "received": ("NVML_PCIE_UTIL_RX_BYTES", 1)}


class Growth(Value, frozen=True, kw_only=True):
    """What happened between two readings."""

    seconds: float
    limits_s: dict[str, float]
    energy_j: float | None


class TelemetrySource(Protocol):
    """A device that can be looked at."""

    def sample(self, at_s: float) -> TelemetrySample: ...

    def counters(self, *, energy: bool = False) -> Counters: ...


class NvmlSource:
    """A GPU seen through NVML."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._others = frozenset(pid for kind in _RUNNING for pid, _ in self._listed(kind))
        """Processes that were there before: theirs is not the memory of what is measured."""

    def sample(self, at_s: float) -> TelemetrySample:
        ask = self._device.ask
        rates = ask("nvmlDeviceGetUtilizationRates")
        memory = self._device.ask_part("nvmlDeviceGetMemoryInfo")
        return TelemetrySample(
            at_s=at_s,
            gpu_util=None if rates is None else rates.gpu / 100,
            memory_util=None if rates is None else rates.memory / 100,
            memory_used_bytes=None if memory is None else int(getattr(memory, "used", 0)) or None,
            sm_clock_hz=self._device.sm_clock_hz(),
            memory_clock_hz=_times(ask("nvmlDeviceGetClockInfo", self._clock("MEM", 2)), MHZ),
            power_w=_times(ask("nvmlDeviceGetPowerUsage"), 1e-3),
            temperature_c=_times(ask("nvmlDeviceGetTemperature", 0), 1.0),
            event_reasons=self._reasons(),
            process_memory_bytes=self.process_memory(),
            pcie_sent_bytes_s=self._pcie("sent"),
            pcie_received_bytes_s=self._pcie("received"),
            energy_j=self._energy(),
        )

    def counters(self, *, energy: bool = False) -> Counters:
        """Read the limits and the clock; the energy counter takes milliseconds and is optional."""
        return Counters(
            at_s=time.monotonic(),
            limits_s={**self._violations(), **self._fields()},
            energy_j=self._energy() if energy else None,
            sm_clock_hz=self._device.sm_clock_hz(),
            event_reasons=self._reasons(),
        )

    def energy_period_s(self, *, most_s: float = ENERGY_PROBE_S) -> float | None:
        """Find how often the energy counter moves: the least time between two of its changes."""
        began = time.monotonic()
        changes: list[float] = []
        value = self._energy()
        while value is not None and len(changes) < 3 and time.monotonic() - began < most_s:
            now = self._energy()
            if now != value:
                changes.append(time.monotonic())
                value = now
        gaps = [b - a for a, b in pairwise(changes)]
        return min(gaps) if gaps else None

    def _clock(self, kind: str, default: int) -> int:
        return self._device.number(f"NVML_CLOCK_{kind}", default)

    def _reasons(self) -> int | None:
        names = (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
        )
        answers = (self._device.ask(name) for name in names)
        found = next((answer for answer in answers if answer is not None), None)
        return None if found is None else int(found)

    def _energy(self) -> float | None:
        return _times(self._device.ask("nvmlDeviceGetTotalEnergyConsumption"), 1e-3)

    def _pcie(self, way: str) -> float | None:
        kilobytes = self._device.ask(
            "nvmlDeviceGetPcieThroughput", self._device.number(*_PCIE[way])
        )
        return _times(kilobytes, 1e3)

    def process_memory(self) -> int | None:
        """Sum memory of processes that came after the first look: the one that is measured.

        Clients of MPS have a list of their own, and their server is none of them.
        """
        for kind in _RUNNING:
            mine = [size for pid, size in self._listed(kind) if pid not in self._others]
            known = [int(size) for size in mine if size is not None]
            if known:
                return sum(known)
        return None

    def _listed(self, kind: str) -> list[tuple[int, int | None]]:
        listed = self._device.ask_part(f"nvmlDeviceGet{kind}RunningProcesses") or ()
        return [(item.pid, item.usedGpuMemory) for item in listed]

    def _violations(self) -> dict[str, float]:
        found = {}
        for name, (constant, default) in POLICIES.items():
            policy = self._device.number(constant, default)
            answer = self._device.ask("nvmlDeviceGetViolationStatus", policy)
            if answer is not None:
                found[name] = int(answer.violationTime) * 1e-9
        return found

    def _fields(self) -> dict[str, float]:
        answers = self._device.ask("nvmlDeviceGetFieldValues", list(FIELDS.values())) or ()
        return {
            name: int(answer.value.ullVal) * 1e-9
            for name, answer in zip(FIELDS, answers, strict=False)
            if answer.nvmlReturn == 0
        }


class Sources:
    """Several ways to look at one device: what one does not tell, the next may."""

    def __init__(self, sources: Sequence[TelemetrySource]) -> None:
        self._sources = sources

    def sample(self, at_s: float) -> TelemetrySample:
        return _completed([source.sample(at_s) for source in self._sources])

    def counters(self, *, energy: bool = False) -> Counters:
        return _completed([source.counters(energy=energy) for source in self._sources])


V = TypeVar("V", bound=Value)


def _completed(answers: Sequence[V]) -> V:
    """Find the first answer, with what it lacks from the others in turn."""
    first, *others = answers
    for other in others:
        gaps = {
            name: getattr(other, name)
            for name in first.__struct_fields__
            if getattr(first, name) is None
        }
        first = first.having(**gaps)
    return first


class Sampler:
    """Looks at a device in a thread of its own, as often as asked, until it is stopped."""

    def __init__(
        self,
        source: TelemetrySource,
        *,
        interval_s: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._interval_s, self._clock = source, interval_s, clock
        self._samples: list[TelemetrySample] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="telemetry", daemon=True)
        self._began = 0.0

    def start(self) -> None:
        self._began = self._clock()
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Let it look for a while."""
        self._over.wait(seconds)

    def stop(self) -> tuple[TelemetrySample, ...]:
        """End, and give what was seen in order of time."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        return tuple(self._samples)

    def _look(self) -> None:
        while not self._over.is_set():
            at = self._clock() - self._began
            self._samples.append(self._source.sample(at))
            # A look that took long must not make the next one late as well.
            self._over.wait(max(0.0, self._interval_s - (self._clock() - self._began - at)))


@contextmanager
def source_of(index: int, *, nvml: ModuleType | None = None) -> Iterator[TelemetrySource | None]:
    """Open what can be looked at: the GPU through NVML, a Jetson through its own programs."""
    if nvml is None and is_jetson():
        with TegraSource.opened() as lines, JtopSource.opened() as service:
            found = [each for each in (lines, service) if each is not None]
            yield Sources(found) if found else None
        return
    with opened(index, part=slice_in_use(index, nvml=nvml), nvml=nvml) as device:
        yield None if device is None else NvmlSource(device)


def growth(before: Counters, after: Counters) -> Growth:
    """Subtract two readings; a counter that went back (a driver was reloaded) is left out."""
    limits = {
        name: after.limits_s[name] - value
        for name, value in before.limits_s.items()
        if after.limits_s.get(name, -1.0) >= value
    }
    energy = None
    if before.energy_j is not None and after.energy_j is not None:
        energy = max(0.0, after.energy_j - before.energy_j)
    return Growth(seconds=after.at_s - before.at_s, limits_s=limits, energy_j=energy)


def integrated_j(samples: tuple[TelemetrySample, ...]) -> float | None:
    """Integrate the power that was seen, by trapezia."""
    points = [(s.at_s, s.power_w) for s in samples if s.power_w is not None]
    if len(points) < 2:
        return None
    pairs = pairwise(points)
    return sum((b - a) * (p + q) / 2 for (a, p), (b, q) in pairs)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
