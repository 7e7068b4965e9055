"""What was said about a run by other means than a log, in the form of a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from trtbench.domain.result import Gpu
from trtbench.formats.toolkit_files import RunConfig
from trtbench.trtexec.log import LogRun, LogSection
from trtbench.trtexec.metadata import number

_QUANTITY = re.compile(r"([\d.]+)\s*(GHz|MHz|kHz|Hz|GiB|MiB|KiB|bits)?", re.IGNORECASE)
_SCALE = {"ghz": 1e9, "mhz": 1e6, "khz": 1e3, "hz": 1.0, "gib": 2.0**30, "mib": 2.0**20}

NOTHING = LogRun(where="", line=1, outcome="passed")
"""A run nobody said anything about."""


def log_from_config(config: RunConfig, *, where: str) -> LogRun:
    """Tell in the form of a log what ``run_config.json`` holds: the command, and options."""
    entries = []
    if config.use_cuda_graph is not None:
        entries.append(("CUDA Graph", "Enabled" if config.use_cuda_graph else "Disabled"))
    if config.warmup is not None:
        entries.append(("Duration", f"(+ {config.warmup:g}ms warm up)"))
    if config.iterations is not None:
        entries.append(("Iterations", f"{config.iterations:g}"))
    if config.avg_runs is not None:
        entries.append(("Averages", f"{config.avg_runs:g} inferences"))
    return LogRun(
        where=where,
        line=1,
        outcome="passed",
        command=config.command or None,
        tool="run_config",
        sections=(LogSection(name="Inference Options", entries=tuple(entries)),),
    )


def joined(logs: Iterable[LogRun]) -> LogRun:
    """Take the first source at its word and fill what it does not tell from the others."""
    found = [each for each in logs if each is not None]
    if not found:
        return NOTHING
    base = found[0]
    for other in found[1:]:
        names = {section.name for section in base.sections}
        extra = tuple(each for each in other.sections if each.name not in names)
        base = base.having(
            version=base.version or other.version,
            command=base.command or other.command,
            tool=base.tool if base.command else other.tool,
            sections=(*base.sections, *extra),
            summary=base.summary or other.summary,
        )
    return base


def gpu_from_log(run: LogRun) -> Gpu | None:
    """Read the selected device; its clocks are what it may reach, not what it had."""
    section = run.section("Device Information")
    name = section.get("Selected Device") if section else None
    if section is None or not name:
        return None
    count, memory = section.get("SMs"), quantity(section.get("Device Global Memory"))
    bus = section.get("Memory Bus Width") or ""
    return Gpu(
        name=name,
        uuid=section.get("Selected Device UUID"),
        compute_capability=section.get("Compute Capability"),
        sm_count=int(float(count)) if number(count) is not None and count else None,
        memory_bytes=int(memory) if memory is not None else None,
        sm_clock_max_hz=quantity(section.get("Compute Clock Rate")),
        sm_clock_default_hz=quantity(section.get("Application Compute Clock Rate")),
        ecc={"enabled": True, "disabled": False}.get(bus.partition("ECC ")[2].strip(") ")),
    )


def gpu_from_device(device: Mapping[str, object]) -> Gpu:
    """Read the attributes of a device as CUDA lists them."""
    capability, clock = device.get("ComputeCapability"), number(device.get("CLOCK_RATE"))
    ecc = device.get("ECC_ENABLED")
    cuda = device.get("CUDA_VERSION")
    return Gpu(
        name=str(device.get("Name")),
        compute_capability=".".join(map(str, capability)) if isinstance(capability, list) else None,
        memory_bytes=_integer(device.get("TotalMemory")),
        sm_clock_max_hz=clock * 1e3 if clock else None,
        sm_count=_integer(device.get("MULTIPROCESSOR_COUNT")),
        l2_bytes=_integer(device.get("L2_CACHE_SIZE")),
        ecc=bool(ecc) if ecc is not None else None,
        cuda=".".join(map(str, cuda)) if isinstance(cuda, list) else None,
    )


def quantity(text: object) -> float | None:
    """Read ``1.77 GHz`` or ``24217 MiB``; a bare number of a clock is in GHz."""
    match = _QUANTITY.match(str(text)) if text is not None else None
    value = number(match[1]) if match else None
    if match is None or value is None:
        return None
    return value * _SCALE.get((match[2] or "GHz").lower(), 1.0)


def _integer(value: object) -> int | None:
    found = number(value)
    return int(found) if found is not None else None
