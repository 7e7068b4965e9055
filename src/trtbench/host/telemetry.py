"""Samples and counters of a GPU, read from outside the measured process, and its locked clock.

Quantities that a device does not report are absent; none is read while latency is measured. On a
Jetson, where NVML reports almost nothing, tegrastats is read.

A locked clock outlives the process that set it, so another process waits for the end of this one:
``python -m trtbench.host.telemetry INDEX`` unlocks the clock of a GPU.
"""

import math
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from trtbench.core.run import Scalar
from trtbench.core.samples import TelemetrySample
from trtbench.core.spec import Value
from trtbench.host import nvml
from trtbench.host.files import temporary_folder
from trtbench.host.machine import growth_of
from trtbench.host.process import Child, module_command, program_output, run_on_death, tail

POLICIES = ("power", "thermal", "sync_boost", "board", "low_utilization", "reliability")
"""Violation counters in the order of NVML's numbers: how long each policy limited the clocks."""
FIELDS = {
    "sw_power_cap": 74,
    "sync_boost_field": 76,
    "sw_thermal": 269,
    "hw_thermal": 270,
    "power_brake": 271,
}
"""More counters of this kind, by the numbers of NVML's fields."""
ENERGY_PROBE_S = 0.6

_RUNNING = ("MPSCompute", "Compute")
_GPU = re.compile(r"\bGR3D(?:_FREQ)? (?:(\d+)%)?(?:@\[?(\d+(?:,\d+)*)\]?)?")
"""Each part of a GPU has a clock, 0 if it is off; the load is shown only to some users."""
_RAIL = re.compile(
    r"(?<![\w@])(VDD\w*|VIN\w*|POM_5V_\w+|SYS5V|GPU|CPU|SOC|CV) "
    r"(-?\d+)(?:mW)?/-?\d+(?:mW)?(?![\w.])"
)

_NOT_LOCKED = "the clock was not locked"
_UNLOCK = "nvmlDeviceResetGpuLockedClocks"


class Counters(Value, frozen=True, kw_only=True):
    """Counters of a device at one moment, or their growth; those that it lacks are absent."""

    at_s: float  # on the monotonic clock; of a growth, how long it took
    limits_s: dict[str, float] = {}
    energy_j: float | None = None
    sm_clock_hz: float | None = None
    event_reasons: int | None = None


class NvmlSource:
    """Reads samples and counters of a GPU through NVML."""

    def __init__(self, device: nvml.Device) -> None:
        self._device = device
        self._others = frozenset(pid for kind in _RUNNING for pid, _ in self._processes(kind))
        """Processes that ran before, whose memory does not count."""

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
            memory_clock_hz=nvml.scaled(ask("nvmlDeviceGetClockInfo", nvml.CLOCK_MEMORY), nvml.MHZ),
            power_w=nvml.scaled(ask("nvmlDeviceGetPowerUsage"), 1e-3),
            temperature_c=nvml.scaled(ask("nvmlDeviceGetTemperature", nvml.TEMPERATURE_GPU), 1.0),
            event_reasons=self._reasons(),
            process_memory_bytes=self.process_memory(),
            energy_j=self._energy(),
        )

    def counters(self, *, energy: bool = False) -> Counters:
        """Read limits and clock; the energy counter takes milliseconds, and is optional."""
        limits = {}
        for policy, name in enumerate(POLICIES):
            answer = self._device.ask("nvmlDeviceGetViolationStatus", policy)
            if answer is not None:
                limits[name] = int(answer.violationTime) * 1e-9
        answers = self._device.ask("nvmlDeviceGetFieldValues", list(FIELDS.values())) or ()
        for name, answer in zip(FIELDS, answers, strict=False):
            if answer.nvmlReturn == 0:
                limits[name] = int(answer.value.ullVal) * 1e-9
        return Counters(
            at_s=time.monotonic(),
            limits_s=limits,
            energy_j=self._energy() if energy else None,
            sm_clock_hz=self._device.sm_clock_hz(),
            event_reasons=self._reasons(),
        )

    def energy_period_s(self) -> float | None:
        """Return the update period of the energy counter: the least time between two changes."""
        began = time.monotonic()
        changes: list[float] = []
        value = self._energy()
        while value is not None and len(changes) < 3 and time.monotonic() - began < ENERGY_PROBE_S:
            now = self._energy()
            if now != value:
                changes.append(time.monotonic())
                value = now
        return min((b - a for a, b in pairwise(changes)), default=None)

    def _reasons(self) -> int | None:
        kinds = ("Event", "Throttle")  # the names in newer and in older drivers
        answers = (self._device.ask(f"nvmlDeviceGetCurrentClocks{kind}Reasons") for kind in kinds)
        return next((int(each) for each in answers if each is not None), None)

    def _energy(self) -> float | None:
        return nvml.scaled(self._device.ask("nvmlDeviceGetTotalEnergyConsumption"), 1e-3)

    def process_memory(self) -> int | None:
        """Return the memory of processes that were started later, such as the measured one."""
        for kind in _RUNNING:
            mine = [size for pid, size in self._processes(kind) if pid not in self._others]
            known = [int(size) for size in mine if size is not None]
            if known:
                return sum(known)
        return None

    def _processes(self, kind: str) -> list[tuple[int, int | None]]:
        listed = self._device.ask_part(f"nvmlDeviceGet{kind}RunningProcesses") or ()
        return [(item.pid, item.usedGpuMemory) for item in listed]


class TegraSource:
    """Reads samples from the latest line in the log of tegrastats."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def sample(self, at_s: float) -> TelemetrySample:
        samples = (sample_from_line(line, at_s=at_s) for line in reversed(tail(self._log)))
        return next(filter(None, samples), TelemetrySample(at_s=at_s))

    def counters(self, *, energy: bool = False) -> Counters:
        """Return the clock of the last line; a Jetson has no counters of clock limits."""
        return Counters(at_s=time.monotonic(), sm_clock_hz=self.sample(0.0).sm_clock_hz)


TelemetrySource = NvmlSource | TegraSource


def sample_from_line(line: str, *, at_s: float) -> TelemetrySample | None:
    """Parse a line of tegrastats, in the formats of several JetPacks; ``None`` for other lines."""
    memory, gpu = re.search(r"\bRAM (\d+)/(\d+)MB", line), _GPU.search(line)
    if memory is None and gpu is None:
        return None
    emc = re.search(r"\bEMC(?:_FREQ)? (?:(\d+)%)?(?:@(\d+))?", line)
    heat = re.search(r"\bgpu(?:-therm(?:al)?)?@(-?\d+(?:\.\d+)?)C", line, re.IGNORECASE)
    celsius = float(heat[1]) if heat else -math.inf
    rails = {match[1]: int(match[2]) * 1e-3 for match in _RAIL.finditer(line)}
    # Rails that supply the whole board; AGX Xavier and AGX Orin measure none of them.
    whole = next((rails[name] for name in ("VDD_IN", "POM_5V_IN", "VIN") if name in rails), None)
    # Rails supplied by another measured one: this one by VIN_SYS_5V0 of an AGX Orin.
    parts = [watts for name, watts in rails.items() if name != "VDDQ_VDD2_1V8AO"]
    power_w = sum(parts) if parts else None
    return TelemetrySample(
        at_s=at_s,
        gpu_util=int(gpu[1]) / 100 if gpu and gpu[1] else None,
        memory_util=int(emc[1]) / 100 if emc and emc[1] else None,
        memory_used_bytes=int(memory[1]) * 2**20 if memory else None,
        sm_clock_hz=max(map(int, gpu[2].split(","))) * 1e6 if gpu and gpu[2] else None,
        memory_clock_hz=int(emc[2]) * 1e6 if emc and emc[2] else None,
        power_w=power_w if whole is None else whole,
        temperature_c=celsius if celsius >= -40.0 else None,  # a disabled sensor reads -256
    )


class Sampler:
    """Samples a device in its own thread, at an interval, until it is stopped."""

    def __init__(self, source: TelemetrySource, *, interval_s: float) -> None:
        self._source, self._interval_s = source, interval_s
        self._samples: list[TelemetrySample] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="telemetry", daemon=True)
        self._began = 0.0

    def start(self) -> None:
        self._began = time.monotonic()
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait, while the thread takes samples."""
        self._over.wait(seconds)

    def stop(self) -> tuple[TelemetrySample, ...]:
        """Stop sampling, and return the samples in order of time."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        return tuple(self._samples)

    def _sample(self) -> None:
        while not self._over.is_set():
            at = time.monotonic() - self._began
            self._samples.append(self._source.sample(at))
            # A slow sample must not delay the next one.
            self._over.wait(max(0.0, self._interval_s - (time.monotonic() - self._began - at)))


@contextmanager
def source_of(index: int) -> Iterator[TelemetrySource | None]:
    """Open the telemetry of a GPU: NVML, or tegrastats on a Jetson; yields ``None`` without."""
    if not is_jetson():
        with nvml.opened(index, part=nvml.slice_in_use(index)) as device:
            yield None if device is None else NvmlSource(device)
    elif (program := shutil.which("tegrastats")) is None:
        yield None
    else:
        with temporary_folder() as folder:
            log = folder / "lines.txt"
            log.touch()
            child = Child([program, "--interval", "100"], log=log)
            try:
                yield TegraSource(log)
            finally:
                child.end()
                child.close()


def growth(before: Counters, after: Counters) -> Counters:
    """Subtract two readings, without counters that decreased because the driver was reloaded."""
    limits = growth_of(before.limits_s, after.limits_s)
    energy = None
    if before.energy_j is not None and after.energy_j is not None:
        energy = max(0.0, after.energy_j - before.energy_j)
    return Counters(at_s=after.at_s - before.at_s, limits_s=limits, energy_j=energy)


def integrated_j(samples: tuple[TelemetrySample, ...]) -> float | None:
    """Return the energy: the integral of the sampled power, by the trapezoidal rule."""
    points = [(s.at_s, s.power_w) for s in samples if s.power_w is not None]
    if len(points) < 2:
        return None
    return sum((b - a) * (p + q) / 2 for (a, p), (b, q) in pairwise(points))


def is_jetson() -> bool:
    """Return whether this machine is a Jetson, by files of its system."""
    return Path("/etc/nv_tegra_release").exists() or Path("/usr/bin/tegrastats").exists()


def board_settings() -> dict[str, Scalar]:
    """Return a Jetson's power mode, and whether its clocks are pinned; empty on other machines."""
    found = {
        "nvpmodel": power_mode(program_output("nvpmodel", "-q")),
        "jetson_clocks": clocks_pinned(program_output("jetson_clocks", "--show")),
    }
    return {name: value for name, value in found.items() if value is not None}


def power_mode(text: str) -> str | None:
    """Parse ``NV Power Mode: MAXN``, and the number of the mode on the next line."""
    name = re.search(r"NV Power Mode\s*:\s*(\S+)", text)
    if name is None:
        return None
    number = re.search(r"^\s*(\d+)\s*$", text, re.M)
    return f"{name[1]} ({number[1]})" if number else name[1]


def clocks_pinned(text: str) -> bool | None:
    """Return whether the GPU's lowest and highest clock are equal, as jetson_clocks sets them."""
    match = re.search(r"GPU\s+MinFreq=(\d+)\s+MaxFreq=(\d+)", text)
    return None if match is None else match[1] == match[2]


@dataclass(frozen=True, kw_only=True)
class Lock:
    """Whether the clock was locked, and at what frequency."""

    locked: bool = False
    clock_mhz: int | None = None
    note: str | None = None  # why it is not locked


@contextmanager
def locked_clocks(index: int, wish: str, *, pinned: bool = False) -> Iterator[Lock]:
    """Lock the clock to ``base``, ``max`` or a number of MHz during the block."""
    if is_jetson():
        how = "on a Jetson, run sudo jetson_clocks, after sudo nvpmodel -m 0 for the highest clocks"
        note = "the clock is locked by jetson_clocks" if pinned else f"{_NOT_LOCKED}: {how}"
        yield Lock(locked=pinned, note=note)
        return
    with ExitStack() as stack:
        device = stack.enter_context(nvml.opened(index))
        if device is None:
            yield Lock(note=f"{_NOT_LOCKED}: NVML does not list GPU {index}")
            return
        stack.enter_context(run_on_death([*module_command("trtbench.host.telemetry"), str(index)]))
        # The base clock is the one that the GPU sustains within its power limit.
        ask = "nvmlDeviceGetDefaultApplicationsClock"
        ask = "nvmlDeviceGetMaxClockInfo" if wish == "max" else ask
        found = int(wish) if wish.isdecimal() else device.ask(ask, nvml.CLOCK_SM)
        if found is None:
            other = "a number of MHz" if wish == "max" else "max or a number of MHz"
            yield Lock(
                note=f"{_NOT_LOCKED}: the GPU does not report its {wish} clock; give {other}"
            )
            return
        clock = int(found)
        refused = device.command("nvmlDeviceSetGpuLockedClocks", clock, clock)
        if refused is None:
            stack.callback(device.command, _UNLOCK)
            yield Lock(locked=True, clock_mhz=clock)
            return
        reason = str(refused)
        if "NoPermission" in type(refused).__name__:
            command = f"sudo nvidia-smi -i {index} -lgc {clock},{clock}"
            reason = f"that needs root ({command})"
            if os.geteuid() == 0:
                reason = f"the driver denies it even to root: run {command} outside the container"
        yield Lock(note=f"{_NOT_LOCKED}: {reason}")


if __name__ == "__main__":
    with nvml.opened(int(sys.argv[1])) as gpu:
        if gpu is not None:
            gpu.command(_UNLOCK)
