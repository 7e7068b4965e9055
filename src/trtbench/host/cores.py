"""Cores of the processor, which need not be alike."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")


def fastest_core(allowed: Collection[int], *, root: Path = CPUS) -> int:
    """Choose a core as fast as any, the first of several; where nobody tells, the first."""
    return min(allowed, key=lambda core: (-_speed(root / f"cpu{core}"), core))


def _speed(folder: Path) -> int:
    """Read a core's capacity, which small and large cores of one chip have, else its clock."""
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        try:
            return int((folder / name).read_text())
        except (OSError, ValueError):
            continue
    return 0
