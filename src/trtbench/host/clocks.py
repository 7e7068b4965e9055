"""The GPU's clock, locked for a while: only when asked, and freed whatever becomes of this process.

A lock outlives the process that set it, so another one waits for this one's end, however it comes:
``python -m trtbench.host.clocks INDEX`` frees the clock of a GPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType

from trtbench.host.nvml import Device, Refusal, opened
from trtbench.host.process import run_on_death
from trtbench.host.tegrastats import is_jetson

_JETSON = "on a Jetson sudo jetson_clocks does it, after sudo nvpmodel -m 0 for the highest"
_NOT = "the clock was not locked"
_FREE = "nvmlDeviceResetGpuLockedClocks"


@dataclass(frozen=True, kw_only=True)
class Lock:
    """What became of the wish to lock the clock."""

    locked: bool
    clock_mhz: int | None = None
    note: str | None = None
    """Why it is not locked."""


@contextmanager
def locked_clocks(
    index: int, wish: str, *, pinned: bool = False, nvml: ModuleType | None = None
) -> Iterator[Lock]:
    """Lock to ``base``, ``max`` or a number of megahertz; whatever happens, unlock at the end.

    ``pinned`` says that the board holds its clocks already.
    """
    if nvml is None and is_jetson():
        note = "the clock is held by jetson_clocks" if pinned else f"{_NOT}: {_JETSON}"
        yield Lock(locked=pinned, note=note)
        return
    with ExitStack() as stack:
        device = stack.enter_context(opened(index, nvml=nvml))
        if device is None:
            yield Lock(locked=False, note=f"{_NOT}: NVML, which would do it, sees no GPU {index}")
            return
        if nvml is None:
            command = (sys.executable, "-m", "trtbench.host.clocks", str(index))
            stack.enter_context(run_on_death(command))
        lock = _lock(device, index, wish)
        if lock.locked:
            stack.callback(device.command, _FREE)
        yield lock


def _lock(device: Device, index: int, wish: str) -> Lock:
    clock = wanted_mhz(device, wish)
    if clock is None:
        other = "a number of MHz" if wish == "max" else "max or a number of MHz"
        return Lock(
            locked=False, note=f"{_NOT}: the GPU does not tell its {wish} one; give {other}"
        )
    refused = device.command("nvmlDeviceSetGpuLockedClocks", clock, clock)
    if refused is not None:
        return Lock(locked=False, note=_words(refused, index, clock))
    return Lock(locked=True, clock_mhz=clock)


def wanted_mhz(device: Device, wish: str) -> int | None:
    """Turn a wish into a clock; the base clock is what the GPU holds within its power for long."""
    if wish.isdecimal():
        return int(wish)
    kind = device.number("NVML_CLOCK_SM", 1)
    if wish == "max":
        found = device.ask("nvmlDeviceGetMaxClockInfo", kind)
    else:
        found = device.ask("nvmlDeviceGetDefaultApplicationsClock", kind)
    return None if found is None else int(found)


def _words(refused: Refusal, index: int, clock: int) -> str:
    if not refused.needs_root:
        return f"{_NOT}: {refused.reason}"
    command = f"sudo nvidia-smi -i {index} -lgc {clock},{clock}"
    if os.geteuid() == 0:
        return (
            f"{_NOT}: the driver refuses it to root too, as in containers ({command} on the host)"
        )
    return f"{_NOT}: that needs root ({command})"


def free_clock(index: int) -> None:
    """Free the clock of a GPU."""
    with opened(index) as device:
        if device is not None:
            device.command(_FREE)


if __name__ == "__main__":
    free_clock(int(sys.argv[1]))
