"""Logs as ``build.metadata.json`` and ``profile.metadata.json``, the layout of TREx.

Sections are named in snake case and hold what the log printed. Unlike the parsers this layout
comes from, values are not cut at a colon, sections do not end early, repeated labels become
lists, and ``performance_labels`` says which statistic stands where in the lists of
``performance_summary``.
"""

from __future__ import annotations

import msgspec

from trtbench.trtexec._log_values import LogMessage, LogRun, LogSection, Metric, PerformanceSummary

Document = dict[str, dict[str, object]]

BUILD_SECTIONS = ("Model Options", "Build Options", "System Options", "Device Information")
PROFILE_SECTIONS = ("Inference Options", "Reporting Options", "Device Information")

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


def build_metadata_from_log(run: LogRun) -> Document:
    """Make what a log tells about building: options, device and the build's own facts."""
    document = _sections(run, BUILD_SECTIONS)
    document["build_facts"] = _facts(run)
    if run.trace is not None:
        document["build_trace"] = msgspec.to_builtins(run.trace)
    warned = [_message(each) for each in run.messages if each.level == "W" and each.code]
    if warned:
        document["build_warnings"] = {"known": warned}
    document["trtexec"] = _identity(run)
    return document


def profile_metadata_from_log(run: LogRun) -> Document:
    """Make what a log tells about running: the performance summary, options and device."""
    document: Document = {}
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


def _sections(run: LogRun, names: tuple[str, ...]) -> Document:
    found = ((name, run.section(name)) for name in names)
    return {
        name.lower().replace(" ", "_"): _entries(section)
        for name, section in found
        if section is not None
    }


def _entries(section: LogSection) -> dict[str, object]:
    entries: dict[str, object] = {}
    for label, _ in section.entries:
        values = section.all(label)
        entries[label] = values[0] if len(values) == 1 else list(values)
    return entries


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
