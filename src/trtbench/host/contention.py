"""Who else wants the processor: stolen time, pressure, quotas and throttling.

Counters are read before and after a run and differenced; none of them is read while it runs.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from trtbench.domain.result import Scalar
from trtbench.domain.spec import Value
from trtbench.host.files import fields_of, integer_from_text, number_of, text_of

ROOT = Path("/")
_NO_MEMORY_LIMIT = 1 << 62
"""Version 1 control groups write "no limit" as the largest multiple of a page."""


class CpuCounters(Value, frozen=True, kw_only=True):
    """Counters that only grow, at one moment; what cannot be read is ``None``."""

    at_s: float
    """On the monotonic clock."""
    cpu_total_ticks: int | None = None
    cpu_idle_ticks: int | None = None
    cpu_steal_ticks: int | None = None
    pressure_us: int | None = None
    """Time in which some task waited for a processor."""
    throttled_us: int | None = None
    """Time for which a quota stopped this control group or one above it."""


def read_counters(*, root: Path = ROOT) -> CpuCounters:
    """Read the machine's counters; costs less than a millisecond."""
    ticks = cpu_ticks(root=root)
    return CpuCounters(
        at_s=time.monotonic(),
        cpu_total_ticks=sum(ticks) if ticks else None,
        cpu_idle_ticks=ticks[3] + ticks[4] if ticks else None,
        cpu_steal_ticks=ticks[7] if ticks else None,
        pressure_us=integer_from_text(pressure(root=root).get("total")),
        throttled_us=throttled_us(root=root),
    )


def counters_between(before: CpuCounters, after: CpuCounters) -> dict[str, Scalar]:
    """Return what happened between two readings; what either lacks is absent.

    Keys: ``elapsed_s``; of all processors' time the fractions ``cpu_busy_fraction`` and
    ``cpu_steal_fraction``; ``pressure_fraction`` of the elapsed time in which some task waited;
    ``throttled_s``.
    """
    elapsed_s = after.at_s - before.at_s
    total = _growth(before.cpu_total_ticks, after.cpu_total_ticks)
    idle = _growth(before.cpu_idle_ticks, after.cpu_idle_ticks)
    pressure_us = _growth(before.pressure_us, after.pressure_us)
    throttled = _growth(before.throttled_us, after.throttled_us)
    busy = total - idle if total is not None and idle is not None else None
    found: dict[str, Scalar] = {
        "elapsed_s": elapsed_s,
        "cpu_busy_fraction": _ratio(busy, total),
        "cpu_steal_fraction": _ratio(_growth(before.cpu_steal_ticks, after.cpu_steal_ticks), total),
        "pressure_fraction": _ratio(pressure_us, elapsed_s * 1e6),
        "throttled_s": None if throttled is None else throttled * 1e-6,
    }
    return {name: value for name, value in found.items() if value is not None}


def contention(*, root: Path = ROOT) -> dict[str, Scalar]:
    """Return how contended the processor is now, and its limits; the unknown is absent."""
    ticks = cpu_ticks(root=root)
    recent = pressure(root=root).get("avg10")
    throttled = throttled_us(root=root)
    found: dict[str, Scalar] = {
        "cpu_steal_fraction_since_boot": _ratio(ticks[7], sum(ticks)) if ticks else None,
        "pressure_fraction_10s": _percent(recent),
        "cpu_quota_cores": cpu_quota_cores(root=root),
        "throttled_s_so_far": None if throttled is None else throttled * 1e-6,
        "memory_limit_bytes": memory_limit_bytes(root=root),
    }
    return {name: value for name, value in found.items() if value is not None}


def cpu_ticks(*, root: Path) -> tuple[int, ...] | None:
    """Return user, nice, system, idle, iowait, irq, softirq and steal ticks of all processors."""
    line = (text_of(root / "proc/stat") or "").partition("\n")[0].split()
    # Guest time follows, and is contained in user and nice already.
    values = line[1:9]
    if len(values) < 8 or line[0] != "cpu" or not all(value.isdecimal() for value in values):
        return None
    return tuple(int(value) for value in values)


def pressure(*, root: Path) -> dict[str, str]:
    """Return the ``some`` line of the kernel's processor pressure; empty where it keeps none."""
    line = re.search(r"^some (.*)$", text_of(root / "proc/pressure/cpu") or "", re.MULTILINE)
    return dict(re.findall(r"(\w+)=(\S+)", line.group(1))) if line else {}


def cpu_quota_cores(*, root: Path) -> float | None:
    """Return the tightest processor quota, in cores; ``None`` without a quota."""
    quotas = []
    for folder in _groups("cpu", root=root):
        quota, _, period = (text_of(folder / "cpu.max") or "").partition(" ")
        if not quota:
            quota = str(number_of(folder / "cpu.cfs_quota_us"))
            period = str(number_of(folder / "cpu.cfs_period_us"))
        if quota.isdecimal() and period.isdecimal() and int(period):
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def throttled_us(*, root: Path) -> int | None:
    """Return for how long quotas stopped this control group and those above it."""
    found = []
    for folder in _groups("cpu", root=root):
        stat = fields_of(folder / "cpu.stat")
        microseconds = integer_from_text(stat.get("throttled_usec"))
        nanoseconds = integer_from_text(stat.get("throttled_time"))
        if microseconds is not None:
            found.append(microseconds)
        elif nanoseconds is not None:
            found.append(nanoseconds // 1000)
    return sum(found) if found else None


def memory_limit_bytes(*, root: Path) -> int | None:
    """Return the tightest memory limit of the control groups; ``None`` without one."""
    limits = []
    for folder in _groups("memory", root=root):
        limit = number_of(folder / "memory.max")
        limit = number_of(folder / "memory.limit_in_bytes") if limit is None else limit
        if limit is not None and limit < _NO_MEMORY_LIMIT:
            limits.append(limit)
    return min(limits, default=None)


def _groups(controller: str, *, root: Path) -> list[Path]:
    """List this process's control group and all above it, in both versions of the hierarchy.

    Inside a container the path may be the one the host sees, which does not exist here; the
    folders above it do, and they hold the container's own limits.
    """
    found: list[Path] = []
    for line in (text_of(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        base = root / "sys/fs/cgroup"
        if controllers:
            if controller not in controllers.split(","):
                continue
            joint = base / controllers
            # Path.is_dir raises where a folder may not be entered, up to Python 3.11.
            base = joint if os.path.isdir(joint) else base / controller  # noqa: PTH112
        parts = [part for part in path.split("/") if part and part != ".."]
        found += [base.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]
    return found


def _growth(before: int | None, after: int | None) -> int | None:
    """Difference a counter; one that went back was reset, and says nothing."""
    if before is None or after is None or after < before:
        return None
    return after - before


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _percent(text: str | None) -> float | None:
    try:
        return float(text) / 100 if text is not None else None
    except ValueError:
        return None
