"""What was said about a run by other means than a log, in the form of a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from trtbench.domain.result import Gpu
from trtbench.trtexec.log import LogRun, LogSection, Metric, PerformanceSummary

_SECTIONS = {
    "model_options": "Model Options",
    "build_options": "Build Options",
    "system_options": "System Options",
    "inference_options": "Inference Options",
    "reporting_options": "Reporting Options",
    "device_information": "Device Information",
}
_STATISTICS = ("min", "max", "mean", "median")
_POSITIONS = {
    5: (*_STATISTICS, "percentile(99%)"),
    7: (*_STATISTICS, "percentile(90%)", "percentile(95%)", "percentile(99%)"),
}
"""What the lists of TREx hold, by their length; files with labels say it themselves."""

_QUANTITY = re.compile(r"([\d.]+)\s*(GHz|MHz|kHz|Hz|GiB|MiB|KiB|bits)?", re.IGNORECASE)
_SCALE = {"ghz": 1e9, "mhz": 1e6, "khz": 1e3, "hz": 1.0, "gib": 2.0**30, "mib": 2.0**20}

NOTHING = LogRun(where="", line=1, outcome="passed")
"""A run nobody said anything about."""


def log_from_metadata(document: Mapping[str, Any], *, where: str) -> LogRun:
    """Read ``*.metadata.json`` of TREx and the trtexec pipeline, or of ours, back into a log."""
    identity = _mapping(document.get("trtexec"))
    return LogRun(
        where=where,
        line=1,
        outcome="passed",
        version=_text(identity.get("version")),
        command=_text(identity.get("command")),
        sections=tuple(_sections(document)),
        summary=_summary(document),
    )


def log_from_config(config: Mapping[str, Any], *, where: str) -> LogRun:
    """Read ``run_config.json`` of the evaluation toolkit: the command and what is beside it."""
    entries = []
    graph = first(config, "use_cuda_graph", "useCudaGraph")
    if isinstance(graph, bool):
        entries.append(("CUDA Graph", "Enabled" if graph else "Disabled"))
    warmup, iterations = first(config, "warmup", "warmUp"), first(config, "iterations", "iters")
    if number(warmup) is not None:
        # The toolkit calls it iterations and hands it to --warmUp, which takes milliseconds.
        entries.append(("Duration", f"(+ {number(warmup):g}ms warm up)"))
    if number(iterations) is not None:
        entries.append(("Iterations", f"{number(iterations):g}"))
    runs = first(config, "avg_runs", "avgRuns")
    if number(runs) is not None:
        entries.append(("Averages", f"{number(runs):g} inferences"))
    return LogRun(
        where=where,
        line=1,
        outcome="passed",
        command=_text(first(config, "command", "cmd")),
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
        base = msgspec.structs.replace(
            base,
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


def gpu_from_device(device: Mapping[str, Any]) -> Gpu:
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


def number(value: object) -> float | None:
    """Compute a number, whatever it was written as; anything else is ``None``."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def first(document: Mapping[str, Any], *names: str) -> Any:
    """Find the first of several names that a document knows."""
    return next((document[name] for name in names if document.get(name) is not None), None)


def _sections(document: Mapping[str, Any]) -> Iterable[LogSection]:
    for key, name in _SECTIONS.items():
        printed = document.get(f"{key}_printed", document.get(key))
        if isinstance(printed, Mapping):
            entries = [(str(k), x) for k, v in printed.items() for x in _texts(v)]
            yield LogSection(name=name, entries=tuple(entries))


def _summary(document: Mapping[str, Any]) -> PerformanceSummary | None:
    printed = _mapping(document.get("performance_summary"))
    labels = _mapping(document.get("performance_labels"))
    if not printed:
        return None
    metrics = {
        name: _metric(values, labels.get(name))
        for name, values in printed.items()
        if isinstance(values, list)
    }
    return PerformanceSummary(
        throughput_qps=number(printed.get("Throughput")),
        wall_s=number(printed.get("Total Host Walltime")),
        gpu_total_s=number(printed.get("Total GPU Compute Time")),
        metrics=metrics,
    )


def _metric(values: list[Any], labels: Any) -> Metric:
    names = labels if isinstance(labels, list) else _POSITIONS.get(len(values), _STATISTICS)
    pairs = {str(k): number(v) for k, v in zip(names, values, strict=False)}
    known = {name: value for name, value in pairs.items() if value is not None}
    return Metric(
        min_ms=known.get("min"),
        max_ms=known.get("max"),
        mean_ms=known.get("mean"),
        median_ms=known.get("median"),
        percentiles_ms={
            name[len("percentile(") : -1]: value
            for name, value in known.items()
            if name.startswith("percentile(")
        },
    )


def _texts(value: Any) -> list[str]:
    return [str(each) for each in (value if isinstance(value, list) else [value])]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return str(value) if value is not None and value != "" else None


def _integer(value: object) -> int | None:
    found = number(value)
    return int(found) if found is not None else None
