"""Logs as ``build.metadata.json`` and ``profile.metadata.json``, the layout of TREx, both ways.

Sections are named in snake case and hold what the log printed. Unlike the parsers this layout
comes from, values are not cut at a colon, sections do not end early, repeated labels become
lists, and ``performance_labels`` says which statistic stands where in the lists of
``performance_summary``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec

from trtbench.trtexec._log_build import BuildTrace
from trtbench.trtexec._log_values import (
    BuildFacts,
    LogMessage,
    LogRun,
    LogSection,
    Metric,
    PerformanceSummary,
)

T = TypeVar("T")

MetadataTables = dict[str, dict[str, object]]

BUILD_SECTIONS = ("Model Options", "Build Options", "System Options", "Device Information")
PROFILE_SECTIONS = ("Inference Options", "Reporting Options", "Device Information")

TACTICS = ("layer", "runner", "operation", "tactic", "name", "time_ms", "chosen")

_NUMBERS = (
    "Compute Capability",
    "SMs",
    "Compute Clock Rate",
    "Memory Clock Rate",
    "Application Compute Clock Rate",
    "Application Memory Clock Rate",
    "Memory Bus Width",
)
"""Facts of the device that readers of this layout compute with: the number without its unit."""
_STATISTICS = ("min", "max", "mean", "median")
_POSITIONS = {
    5: (*_STATISTICS, "percentile(99%)"),
    7: (*_STATISTICS, "percentile(90%)", "percentile(95%)", "percentile(99%)"),
}
"""What the lists of TREx hold, by their length; files with labels say it themselves."""


def build_metadata_from_log(run: LogRun) -> MetadataTables:
    """Make what a log tells about building: options, device and the build's own facts."""
    document = _sections(run, BUILD_SECTIONS)
    document["build_facts"] = _facts(run)
    if run.trace is not None:
        document["build_trace"] = _trace(run.trace)
    warned = [_message(each) for each in run.messages if each.level == "W" and each.code]
    if warned:
        document["build_warnings"] = {"known": warned}
    document["trtexec"] = _identity(run)
    return document


def _trace(trace: BuildTrace) -> dict[str, object]:
    """Write a trace with the few fastest tactics of each layer; ``tactics.csv`` has all."""
    layers = [
        {
            **msgspec.to_builtins(layer.having(tactics=())),
            "fastest": msgspec.to_builtins(layer.fastest),
        }
        for layer in trace.layers
    ]
    for layer in layers:
        del layer["tactics"]
    whole: dict[str, object] = msgspec.to_builtins(trace.having(layers=()))
    return {**whole, "layers": layers}


def tactics_from_trace(trace: BuildTrace) -> Iterator[tuple[str | float | bool | None, ...]]:
    """List every tactic that was tried, under :data:`TACTICS`."""
    for layer in trace.layers:
        chosen = layer.chosen
        for each in layer.tactics:
            is_chosen = chosen is not None and (each.id, each.runner, each.operation) == (
                chosen.id, chosen.runner, chosen.operation
            )  # fmt: skip
            yield (layer.name, each.runner, each.operation, each.id, each.name, each.time_ms,
                   is_chosen)  # fmt: skip


def profile_metadata_from_log(run: LogRun) -> MetadataTables:
    """Make what a log tells about running: the performance summary, options and device."""
    document: MetadataTables = {}
    if run.summary is not None:
        document["performance_summary"] = _summary(run.summary)
        document["performance_labels"] = {
            label: _labels(metric) for label, metric in run.summary.metrics.items()
        }
    document.update(_sections(run, PROFILE_SECTIONS))
    device = document.get("device_information")
    if device is not None:
        document["device_information_printed"] = dict(device)
        document["device_information"] = {
            label: _number(label, value) for label, value in device.items()
        }
    document["trtexec"] = _identity(run)
    return document


def _sections(run: LogRun, names: tuple[str, ...]) -> MetadataTables:
    found = ((name, run.section(name)) for name in names)
    return {
        name.lower().replace(" ", "_"): _entries(section)
        for name, section in found
        if section is not None
    }


def _entries(section: LogSection) -> dict[str, object]:
    entries: dict[str, list[str]] = {}
    for label, value in section.entries:
        entries.setdefault(label, []).append(value)
    return {label: each[0] if len(each) == 1 else each for label, each in entries.items()}


def _facts(run: LogRun) -> dict[str, object]:
    facts = msgspec.to_builtins(run.facts)
    facts["memory"] = list(facts["memory"])
    # Zero bytes is a fact; None, False and an empty list say that nothing was printed.
    return {
        k: v for k, v in facts.items() if v is not None and v is not False and v not in ([], {})
    }


def _message(message: LogMessage) -> dict[str, object]:
    return {
        "kind": message.code,
        "meaning": message.meaning,
        "count": message.count,
        "text": message.text,
    }


def _identity(run: LogRun) -> dict[str, object]:
    return {
        "version": run.version,
        "build": run.build,
        "command": run.command,
        "outcome": run.outcome,
    }


def _summary(summary: PerformanceSummary) -> dict[str, object]:
    entries: dict[str, object] = {}
    if summary.throughput_qps is not None:
        entries["Throughput"] = summary.throughput_qps
    for label, metric in summary.metrics.items():
        entries[label] = [value for _, value in _statistics(metric)]
    if summary.wall_s is not None:
        entries["Total Host Walltime"] = summary.wall_s
    if summary.gpu_total_s is not None:
        entries["Total GPU Compute Time"] = summary.gpu_total_s
    return entries


def _labels(metric: Metric) -> list[str]:
    return [label for label, _ in _statistics(metric)]


def _statistics(metric: Metric) -> list[tuple[str, float]]:
    named = [
        ("min", metric.min_ms),
        ("max", metric.max_ms),
        ("mean", metric.mean_ms),
        ("median", metric.median_ms),
    ]
    shown = [(label, value) for label, value in named if value is not None]
    percentiles = metric.percentiles_ms.items()
    return shown + [(f"percentile({label})", value) for label, value in percentiles]


def _number(label: str, value: object) -> object:
    if label not in _NUMBERS or not isinstance(value, str):
        return value
    try:
        return float(value.split(" ", 1)[0])
    except ValueError:
        return value


def log_from_metadata(document: Mapping[str, object], *, where: str) -> LogRun:
    """Read either file, of TREx and the trtexec pipeline or of ours, back into a log."""
    identity = _mapping(document.get("trtexec"))
    return LogRun(
        where=where,
        line=1,
        outcome="passed",
        version=_text(identity.get("version")),
        build=_told(identity.get("build"), int),
        command=_text(identity.get("command")),
        sections=tuple(_sections_read(document)),
        facts=_told(document.get("build_facts"), BuildFacts) or BuildFacts(),
        trace=_told(document.get("build_trace"), BuildTrace),
        summary=_summary_read(document),
    )


def _told(value: object, kind: type[T]) -> T | None:
    """Take what another version of the writer has written otherwise for nothing."""
    try:
        return None if value is None else msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


def _sections_read(document: Mapping[str, object]) -> Iterator[LogSection]:
    for name in dict.fromkeys((*BUILD_SECTIONS, *PROFILE_SECTIONS)):
        key = name.lower().replace(" ", "_")
        printed = document.get(f"{key}_printed", document.get(key))
        if isinstance(printed, Mapping):
            entries = [(str(label), text) for label, v in printed.items() for text in _texts(v)]
            yield LogSection(name=name, entries=tuple(entries))


def _summary_read(document: Mapping[str, object]) -> PerformanceSummary | None:
    printed = _mapping(document.get("performance_summary"))
    labels = _mapping(document.get("performance_labels"))
    if not printed:
        return None
    return PerformanceSummary(
        throughput_qps=number(printed.get("Throughput")),
        wall_s=number(printed.get("Total Host Walltime")),
        gpu_total_s=number(printed.get("Total GPU Compute Time")),
        metrics={
            str(name): _metric(values, labels.get(name))
            for name, values in printed.items()
            if isinstance(values, list)
        },
    )


def _metric(values: list[object], labels: object) -> Metric:
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


def number(value: object) -> float | None:
    """Read a number, whatever it was written as; anything else is ``None``."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _texts(value: object) -> list[str]:
    return [str(each) for each in (value if isinstance(value, list) else [value])]


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return str(value) if value is not None and value != "" else None
