"""Observes the GPU of a run from the parent process: locked clocks, counters, telemetry.

The GPU is not queried while latency is measured: counters are read before and after, and samples
over time are taken in a separate launch.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from trtbench.analysis.comparability import CLOCK_TOLERANCE
from trtbench.core.jobs import BenchOutcome, JobEnd
from trtbench.core.run import Fact, RunRecord, Scalar
from trtbench.core.samples import TelemetrySample
from trtbench.core.spec import RunSpec
from trtbench.host import telemetry
from trtbench.host.cuda import index_of
from trtbench.host.nvml import MHZ, Device, opened, slice_in_use, visible_index
from trtbench.store.directory import read_samples

IDLE_SAMPLES = 5  # samples of the idle power, taken before the sampled launch
SETTLE_S = 1.5  # wait before those: the sensor averages over a second, and a launch has just ended
_PART_TIME = re.compile(r"\bA100|\bH100|\bH200|\bGH200")
"""GPUs whose power sensor measures only a quarter of the time (arXiv 2312.02741)."""

RunLaunch = Callable[[Callable[[str], None], Path], JobEnd]


@dataclass
class Watch:
    """Observations of one GPU during a run; empty on a CPU."""

    index: int | None
    source: telemetry.NvmlSource | None = None
    free: Callable[[], int | None] = lambda: None
    lock: telemetry.Lock | None = None
    evidence: dict[str, Scalar] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _readings: list[telemetry.Counters] = field(default_factory=list)
    _free_bytes: int | None = None
    _taken_bytes: int | None = None

    def __call__(self, stage: str) -> None:
        """Read the counters when the measured part begins and when it ends.

        Memory is read after loading: the driver's number for the process, or else the decrease of
        free memory.
        """
        if self.source is None:
            return
        if stage == "load":
            self._free_bytes, self._taken_bytes = self.free(), None
        elif stage == "warm-up":
            taken, free = self.source.process_memory(), self.free()
            if taken is None and free is not None and self._free_bytes is not None:
                taken = self._free_bytes - free
            self._taken_bytes = taken
        begins = stage == "measure" and not self._readings
        if begins or (stage in ("profile", "save") and len(self._readings) == 1):
            self._readings.append(self.source.counters())

    def with_telemetry(self, outcome: BenchOutcome) -> BenchOutcome:
        """Return the outcome of a launch with its GPU memory and the times of clock limits."""
        if self._taken_bytes is not None and self._taken_bytes > 0:
            evidence = {**outcome.evidence, "gpu_memory_bytes": self._taken_bytes}
            outcome = outcome.having(evidence=evidence)
        readings, self._readings = self._readings, []
        if len(readings) != 2:
            return outcome
        before, after = readings
        self.evidence.setdefault("sm_clock_before_hz", before.sm_clock_hz)
        self.evidence["sm_clock_after_hz"] = after.sm_clock_hz
        self.notes += self._clock_notes(after.sm_clock_hz)
        if before.sm_clock_hz and after.sm_clock_hz:
            drop = 1 - after.sm_clock_hz / before.sm_clock_hz
            worst = self.evidence.get("sm_clock_drop", drop)
            self.evidence["sm_clock_drop"] = max(drop, float(worst or 0.0))
        facts = outcome.facts.having(violations_s=telemetry.growth(before, after).limits_s)
        return outcome.having(facts=facts)

    def _clock_notes(self, seen_hz: float | None) -> list[str]:
        """Return a note if the clock is not the one it was locked to."""
        wanted_hz = (self.lock.clock_mhz or 0) * MHZ if self.lock is not None else 0
        if not wanted_hz or not seen_hz or abs(seen_hz / wanted_hz - 1) <= CLOCK_TOLERANCE:
            return []
        return [f"clock locked to {wanted_hz / MHZ:.0f} MHz but seen at {seen_hz / MHZ:.0f} MHz"]

    def with_observations(self, record: RunRecord) -> RunRecord:
        clocks = [each.burst_clock_hz for each in record.launches]
        bursts = [note for clock_hz in clocks for note in self._clock_notes(clock_hz)]
        known = {name: value for name, value in self.evidence.items() if value is not None}
        notes = tuple(dict.fromkeys((*record.notes, *self.notes, *bursts)))
        record = record.having(facts={**record.facts, **known}, notes=notes)
        if self.lock is None:
            return record
        conditions = {**record.conditions, "clocks_locked": Fact(value=self.lock.locked)}
        gpus = list(record.environment.gpus)
        if (index := self.index or 0) < len(gpus):
            gpus[index] = gpus[index].having(clocks_locked=self.lock.locked)
        environment = record.environment.having(gpus=tuple(gpus))
        return record.having(conditions=conditions, environment=environment)

    def sample_launch(
        self, spec: RunSpec, run: RunLaunch, *, folder: Path, gpu: str | None
    ) -> tuple[TelemetrySample, ...]:
        """Run one more launch and sample the GPU; returns the samples of its measured part."""
        if self.index is None:
            self.notes.append("no telemetry: the run is on the CPU")
            return ()
        with telemetry.source_of(self.index) as source:
            if source is None:
                self.notes.append("no telemetry: neither NVML nor tegrastats can be read here")
                return ()
            launch = SampledLaunch(source, interval_s=spec.telemetry_s or 0.1)
            end = run(launch, folder)
            samples = launch.finish()
            if not end.ok:
                self.notes.append("the launch with telemetry did not finish")
                return samples
            self.evidence |= launch.energy(samples, count=len(read_samples(folder)), gpu=gpu)
            return samples


class SampledLaunch:
    """One launch whose measured part is sampled."""

    def __init__(self, source: telemetry.TelemetrySource, *, interval_s: float) -> None:
        self._source = source
        time.sleep(SETTLE_S)
        idle = telemetry.Sampler(source, interval_s=interval_s)
        idle.start()
        idle.wait(IDLE_SAMPLES * interval_s)
        watts = [sample.power_w for sample in idle.stop() if sample.power_w is not None]
        self._idle_w = float(np.median(watts)) if watts else None
        self._sampler = telemetry.Sampler(source, interval_s=interval_s)
        self._readings: list[telemetry.Counters] = []
        self._samples: tuple[TelemetrySample, ...] | None = None

    def __call__(self, stage: str) -> None:
        if stage == "measure" and not self._readings:
            self._readings.append(self._source.counters(energy=True))
            self._sampler.start()
        elif self._readings:
            self.finish()

    def finish(self) -> tuple[TelemetrySample, ...]:
        """Stop sampling, if it still runs; returns the samples."""
        if self._samples is None:
            self._samples = self._sampler.stop()
            if self._readings:
                self._readings.append(self._source.counters(energy=True))
        return self._samples

    def energy(
        self, samples: tuple[TelemetrySample, ...], *, count: int, gpu: str | None
    ) -> dict[str, Scalar]:
        """Return the energy per query, and the values that show how reliable it is."""
        grown = telemetry.growth(*self._readings) if len(self._readings) == 2 else None
        found: dict[str, Scalar] = {"telemetry_queries": count, "idle_power_w": self._idle_w}
        integral = telemetry.integrated_j(samples)
        used = grown.energy_j if grown is not None else None
        used = used if used is not None else integral
        if grown is None or used is None or not count:
            return found
        source, idle_j = self._source, (self._idle_w or 0.0) * grown.at_s
        return found | {
            "energy_per_query_j": used / count,
            "energy_above_idle_j": None if self._idle_w is None else (used - idle_j) / count,
            "energy_window_s": grown.at_s,
            "energy_update_s": source.energy_period_s()
            if isinstance(source, telemetry.NvmlSource)
            else None,
            "energy_counter_j": grown.energy_j,
            "energy_integral_j": integral,
            "energy_part_time_sensor": bool(gpu and _PART_TIME.search(gpu)),
        }


def free_memory_bytes(device: str) -> int | None:
    """Return the free memory of a CUDA device; ``None`` where NVML does not report it."""
    index = visible_index(index_of(device))
    with opened(index, part=slice_in_use(index)) as opened_device:
        return _free_bytes(opened_device)


def _free_bytes(device: Device | None) -> int | None:
    memory = device.ask_part("nvmlDeviceGetMemoryInfo") if device else None
    return None if memory is None else int(memory.free)


@contextmanager
def watch_device(spec: RunSpec, device: str) -> Iterator[Watch]:
    """Watch the device of a run during the block; clocks are locked only on request."""
    if not device.startswith("cuda"):
        note = "the clock was not locked: the run is on the CPU"
        yield Watch(index=None, notes=[note] if spec.lock_clocks is not None else [])
        return
    index = visible_index(index_of(device))
    with ExitStack() as stack:
        opened_device = stack.enter_context(opened(index, part=slice_in_use(index)))
        watch = Watch(
            index=index,
            source=telemetry.NvmlSource(opened_device) if opened_device is not None else None,
            free=partial(_free_bytes, opened_device),
            evidence={"gpu_index": index, **telemetry.board_settings()},
        )
        if spec.lock_clocks is not None:
            pinned = watch.evidence.get("jetson_clocks") is True
            lock = telemetry.locked_clocks(index, spec.lock_clocks, pinned=pinned)
            watch.lock = stack.enter_context(lock)
            watch.notes += [watch.lock.note] if watch.lock.note else []
        yield watch
