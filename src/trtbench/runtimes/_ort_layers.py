"""Times of single nodes by ONNX Runtime's own profiler, in a session of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trtbench.boundary import read_text
from trtbench.domain.samples import LayerProfile
from trtbench.errors import InputError
from trtbench.runtimes._layer_times import WARMUP, Row, profile_from_rows, repeat_profiled

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

TraceEvent = dict[str, Any]
"""One event of the trace: a category, a name, when it began and how long it took."""
KERNEL = "_kernel_time"
MOST = 100
"""Runs in one trace, which ONNX Runtime keeps in memory and cuts off at a million events."""
LARGEST_BYTES = 1 << 30


def profile_nodes(session: InferenceSession, run: Callable[[], object]) -> LayerProfile:
    """Run a session that was opened with profiling on; its trace has every node of every run."""
    repeat_profiled(run, most=MOST)
    return profile_from_rows(rows_of_runs(end_trace(session))[WARMUP:])


def end_trace(session: InferenceSession) -> list[TraceEvent]:
    """Stop tracing, read all events, and leave no file behind."""
    trace = Path(session.end_profiling())
    try:
        events: list[TraceEvent] = json.loads(read_text(trace, most=LARGEST_BYTES))
        return events
    except (OSError, ValueError, InputError):
        return []
    finally:
        with suppress(OSError):
            trace.unlink()


def rows_of_runs(events: list[TraceEvent]) -> list[list[Row]]:
    """Sort the nodes of a trace into runs, each in the order of execution."""
    nodes = [each for each in events if is_kernel(each)]
    runs = sorted(
        (float(each["ts"]), float(each["ts"]) + float(each["dur"]))
        for each in events
        if each.get("cat") == "Session" and each.get("name") == "model_run"
    )
    nodes.sort(key=lambda each: float(each["ts"]))
    rows: list[list[Row]] = [[] for _ in runs]
    place = 0
    for node in nodes:
        while place < len(runs) and float(node["ts"]) > runs[place][1]:
            place += 1
        if place < len(runs) and float(node["ts"]) >= runs[place][0]:
            rows[place].append((_name(node), float(node["dur"]) * 1e-6))
    return rows


def is_kernel(event: TraceEvent) -> bool:
    """Tell the run of a node from the other events."""
    return event.get("cat") == "Node" and str(event.get("name", "")).endswith(KERNEL)


def _name(event: TraceEvent) -> str:
    """Name a node as the model does, or by its operator where it has none."""
    name = str(event["name"]).removesuffix(KERNEL)
    operator = str(event.get("args", {}).get("op_name", ""))
    if not name:
        return operator
    return f"{name} ({operator})" if operator else name
