"""Locks a GPU's clock while it is measured, and gives it back; says so when it may not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from trtbench.host.nvml import Device, opened


@dataclass(frozen=True, kw_only=True)
class Lock:
    """What became of the wish to lock the clock."""

    locked: bool
    clock_mhz: int | None = None
    note: str | None = None
    """Why it is not locked."""


@contextmanager
def locked_clocks(index: int, wish: str, *, nvml: ModuleType | None = None) -> Iterator[Lock]:
    """Lock to ``base``, ``max`` or a number of megahertz; whatever happens, unlock at the end."""
    with opened(index, nvml=nvml) as device:
        if device is None:
            yield Lock(locked=False, note="the clock cannot be locked: NVML sees no such GPU")
            return
        clock = wanted_mhz(device, wish)
        if clock is None:
            yield Lock(locked=False, note=f"the GPU does not tell its {wish} clock: not locked")
            return
        refused = device.command("nvmlDeviceSetGpuLockedClocks", clock, clock)
        if refused is not None:
            yield Lock(locked=False, note=_words(refused, index, clock))
            return
        try:
            yield Lock(locked=True, clock_mhz=clock)
        finally:
            device.command("nvmlDeviceResetGpuLockedClocks")


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


def _words(refused: str, index: int, clock: int) -> str:
    if "may not" in refused or "ermission" in refused:
        command = f"sudo nvidia-smi -i {index} -lgc {clock},{clock}"
        return f"the clock was not locked: that needs root ({command})"
    return f"the clock was not locked: {refused}"
