"""Jetson boards: tegrastats lines in the wordings of several JetPacks, and how the board is set.

NVML starts there and tells almost nothing, so the board's own program is asked.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trtbench.domain.result import Scalar
from trtbench.domain.samples import TelemetrySample
from trtbench.host.jtop import JtopSource
from trtbench.host.process import Child, run_process, tail
from trtbench.host.telemetry_values import Counters, known_temperature
from trtbench.host.unfinished import temporary_folder

INTERVAL_MS = 100

_RAM = re.compile(r"\bRAM (\d+)/(\d+)MB")
_GPU = re.compile(r"\bGR3D(?:_FREQ)? (?:(\d+)%)?(?:@\[?(\d+(?:,\d+)*)\]?)?")
"""Each part of a GPU has a clock, 0 when it is off; not everybody is told the load."""
_EMC = re.compile(r"\bEMC(?:_FREQ)? (?:(\d+)%)?(?:@(\d+))?")
_TEMPERATURE = re.compile(r"\bgpu(?:-therm(?:al)?)?@(-?\d+(?:\.\d+)?)C", re.IGNORECASE)
_RAIL = re.compile(
    r"(?<![\w@])(VDD\w*|VIN\w*|POM_5V_\w+|SYS5V|GPU|CPU|SOC|CV) "
    r"(-?\d+)(?:mW)?/-?\d+(?:mW)?(?![\w.])"
)
_WHOLE_BOARD = ("VDD_IN", "POM_5V_IN", "VIN")
"""Rails through which all power comes; AGX Xavier and AGX Orin measure none of them."""
_BEHIND_OTHERS = ("VDDQ_VDD2_1V8AO",)
"""Rails fed from another one that is measured: at 5 V, from VIN_SYS_5V0 of an AGX Orin."""


def is_jetson(*, root: Path = Path("/")) -> bool:
    """Tell a Jetson by what its system leaves in the file tree."""
    return (root / "etc/nv_tegra_release").exists() or (root / "usr/bin/tegrastats").exists()


def sample_from_line(line: str, *, at_s: float) -> TelemetrySample | None:
    """Read one line; ``None`` when it is not one of tegrastats'."""
    memory, gpu = _RAM.search(line), _GPU.search(line)
    if memory is None and gpu is None:
        return None
    temperature, emc = _TEMPERATURE.search(line), _EMC.search(line)
    return TelemetrySample(
        at_s=at_s,
        gpu_util=int(gpu[1]) / 100 if gpu and gpu[1] else None,
        memory_util=int(emc[1]) / 100 if emc and emc[1] else None,
        memory_used_bytes=int(memory[1]) * 2**20 if memory else None,
        sm_clock_hz=max(map(int, gpu[2].split(","))) * 1e6 if gpu and gpu[2] else None,
        memory_clock_hz=int(emc[2]) * 1e6 if emc and emc[2] else None,
        power_w=_power(line),
        temperature_c=known_temperature(float(temperature[1]) if temperature else None),
    )


def _power(line: str) -> float | None:
    """Measure watts of the whole board where they are measured, else of all its rails together."""
    rails = {match[1]: int(match[2]) * 1e-3 for match in _RAIL.finditer(line)}
    for name in _WHOLE_BOARD:
        if name in rails:
            return rails[name]
    parts = [watts for name, watts in rails.items() if name not in _BEHIND_OTHERS]
    return sum(parts) if parts else None


class TegraSource:
    """Runs tegrastats and looks at its latest line."""

    def __init__(self, child: Child, log: Path) -> None:
        self._child, self._log = child, log

    @classmethod
    @contextmanager
    def opened(cls, *, command: str = "tegrastats") -> Iterator[TegraSource | None]:
        """Start it and end it; ``None`` where it is not there."""
        program = shutil.which(command)
        if program is None:
            yield None
            return
        with temporary_folder() as folder:
            log = folder / "lines.txt"
            log.touch()
            child = Child([program, "--interval", str(INTERVAL_MS)], log=log)
            try:
                yield cls(child, log)
            finally:
                child.end()
                child.close()

    def sample(self, at_s: float) -> TelemetrySample:
        for line in reversed(tail(self._log)):
            found = sample_from_line(line, at_s=at_s)
            if found is not None:
                return found
        return TelemetrySample(at_s=at_s)

    def counters(self, *, energy: bool = False) -> Counters:
        """Tell the clock of the last line; a Jetson has no counters of limits."""
        seen = self.sample(0.0)
        return Counters(at_s=time.monotonic(), sm_clock_hz=seen.sm_clock_hz)


def board_settings() -> dict[str, Scalar]:
    """Find the power mode and whether clocks are pinned; empty where there is no such board."""
    found: dict[str, Scalar] = {}
    mode = _said("nvpmodel", "-q")
    if mode is not None:
        found["nvpmodel"] = power_mode(mode)
    clocks = _said("jetson_clocks", "--show")
    if clocks is not None:
        found["jetson_clocks"] = clocks_pinned(clocks)
    known: dict[str, Scalar] = {name: value for name, value in found.items() if value is not None}
    if len(known) == 2 or not is_jetson():
        return known
    with JtopSource.opened() as service:  # jetson_clocks answers to root alone
        return {**(service.settings() if service is not None else {}), **known}


def power_mode(text: str) -> str | None:
    """Read ``NV Power Mode: MAXN`` and the number that follows it."""
    name = re.search(r"NV Power Mode\s*:\s*(\S+)", text)
    if name is None:
        return None
    number = re.search(r"^\s*(\d+)\s*$", text, re.M)
    return f"{name[1]} ({number[1]})" if number else name[1]


def clocks_pinned(text: str) -> bool | None:
    """Tell whether the GPU's least and greatest clock are the same, which jetson_clocks does."""
    match = re.search(r"GPU\s+MinFreq=(\d+)\s+MaxFreq=(\d+)", text)
    return None if match is None else match[1] == match[2]


def _said(program: str, *arguments: str) -> str | None:
    found = shutil.which(program)
    if found is None:
        return None
    with temporary_folder() as folder:
        log = folder / "said.txt"
        try:
            ended = run_process([found, *arguments], log=log, timeout_s=10.0)
        except OSError:
            return None
        return log.read_text(errors="replace") if ended.status == 0 else None
