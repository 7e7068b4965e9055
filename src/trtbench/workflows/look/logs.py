"""Logs of trtexec, looked into: builds with their tactics, and what runs printed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from trtbench.analysis.inspection import Inspection, InspectionTable
from trtbench.domain.result import Scalar
from trtbench.errors import ParseError
from trtbench.trtexec.log import LogRun, read_log
from trtbench.trtexec.reported import reported_from_log, tensors_from_log

MOST_NOTES = 12
_WEIGHTS = re.compile(r"- (\d{1,9}) weights are affected")


def inspect_log(path: Path, onnx: Path | None = None) -> Inspection:
    """Describe a log: its last run in full, and the others in one line each."""
    with open(path, "rb") as stream:
        text = read_log(stream, where=str(path))
    if not text.runs:
        raise ParseError(f"{path} has words of trtexec's, but no run of it")
    run = text.runs[-1]
    built = run.summary is None and run.facts.build_s is not None
    return Inspection(
        kind="log of a build" if built else "log of trtexec",
        path=str(path),
        facts={
            "runs": len(text.runs),
            "summaries": text.summaries,
            "lines": text.lines,
            **_facts(run),
        },
        inputs=tensors_from_log(run, outputs=False),
        outputs=tensors_from_log(run, outputs=True),
        summary=_numbers(text.runs) if text.summaries else _phases(run),
        layers=_layers(run),
        notes=tuple(_notes(run)),
    )


def _facts(run: LogRun) -> dict[str, Scalar]:
    facts, trace = run.facts, run.trace
    device = run.option("Selected Device")
    return {
        "outcome": run.outcome,
        "tensorrt": run.version,
        "device": device,
        "command": run.command,
        "precision": run.option("Precision"),
        "began": run.first_stamp,
        "ended": run.last_stamp,
        "build_s": facts.build_s,
        "parse_s": facts.parse_s,
        "engine_bytes": facts.engine_bytes or facts.loaded_engine_bytes,
        "peak_cpu_bytes": facts.peak_cpu_bytes,
        "peak_gpu_bytes": facts.peak_gpu_bytes,
        "scratch_bytes": facts.scratch_bytes,
        "timing_cache": facts.timing_cache,
        "timing_cache_loaded_bytes": facts.timing_cache_loaded_bytes,
        "timing_cache_saved_bytes": facts.timing_cache_saved_bytes,
        "tactics_tried": trace.tactics_tried if trace else None,
        "tactics_in_subgraphs": (trace.tactics_within or None) if trace else None,
        "tactics_skipped": (trace.tactics_skipped or None) if trace else None,
        "fusions": len(trace.fusions) if trace else None,
    }


def _phases(run: LogRun) -> InspectionTable | None:
    if run.trace is None or not run.trace.phases_s:
        return None
    rows = tuple((name, seconds) for name, seconds in run.trace.phases_s.items())
    return InspectionTable(columns=("phase", "seconds_s"), rows=rows)


def _numbers(runs: tuple[LogRun, ...]) -> InspectionTable:
    """List what every run printed: its rate and the middle of its latency."""
    rows = []
    for number, run in enumerate((each for each in runs if each.summary), start=1):
        printed = reported_from_log(run)
        middle = next(
            (
                printed[key]
                for statistic in ("median", "mean")
                for column in ("latency", "gpu_compute_time", "host")
                if (key := f"{column}_{statistic}_ms") in printed
            ),
            None,
        )
        seconds = middle / 1e3 if isinstance(middle, (int, float)) else None
        rows.append((number, run.line, seconds, printed.get("throughput_qps"), run.title))
    columns = ("run", "line", "latency_s", "queries_per_s", "above it")
    return InspectionTable(columns=columns, rows=tuple(rows))


def _layers(run: LogRun) -> InspectionTable | None:
    """List the layers of a verbose build with the tactics that were tried and chosen."""
    if run.trace is None or not run.trace.layers:
        return None
    columns = ("layer", "runner", "tried", "spent_s", "chosen", "chosen_s", "fastest_s")
    rows = tuple(
        (
            each.name,
            each.runner,
            each.tried + each.tried_within,
            each.spent_s,
            (each.chosen.name or each.chosen.id) if each.chosen else None,
            _seconds(each.chosen.time_ms if each.chosen else None),
            _seconds(each.fastest[0].time_ms if each.fastest else None),
        )
        for each in run.trace.layers
    )
    return InspectionTable(columns=columns, rows=rows)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3


def _notes(run: LogRun) -> Iterator[str]:
    known: Counter[str] = Counter()
    for each in run.messages:
        weights = _WEIGHTS.match(each.text)
        if each.meaning and weights:
            yield f"{weights[1]} weights: {each.meaning}"
        elif each.meaning:
            known[each.meaning] += each.count
    for meaning, count in list(known.items())[:MOST_NOTES]:
        yield meaning + (f" ({count} times)" if count > 1 else "")
    if run.trace is not None:
        yield "every layer with its tactics: --layers; as a table: --csv"
