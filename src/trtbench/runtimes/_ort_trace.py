"""What ONNX Runtime's own trace tells: times of nodes, where each ran, and in which types."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trtbench.boundary import read_text
from trtbench.domain.arrays import Arrays
from trtbench.domain.labels import name_of
from trtbench.domain.result import Scalar
from trtbench.domain.samples import LayerProfile
from trtbench.domain.spec import ModelRef
from trtbench.errors import InputError
from trtbench.models.onnx_outline import outline_of
from trtbench.models.onnx_types import few_bits
from trtbench.runtimes._layer_times import WARMUP, Row, profile_from_rows, repeat_profiled

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

TraceEvent = dict[str, Any]
"""One event of the trace: a category, a name, when it began and how long it took."""
KERNEL = "_kernel_time"
MOST = 100
"""Runs in one trace, which ONNX Runtime keeps in memory and cuts off at a million events."""
LARGEST_BYTES = 1 << 30
_COMPUTES = re.compile(r"Conv|MatMul|Gemm|LSTM|GRU|RNN|Attention|Einsum")
"""Operators that multiply, fused ones too: what is between them goes along."""
_TYPES = {"float": "fp32", "float16": "fp16", "bfloat16": "bf16", "double": "fp64"}


LARGEST_MODEL_BYTES = 1 << 28
"""A larger model is not loaded a second time only to look at it."""
_NAMED = 8
"""Nodes that are named where nodes are listed; the rest are counted."""


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


def computed_elsewise(model: ModelRef, run: Callable[[], list[TraceEvent]]) -> dict[str, Scalar]:
    """Tell what nodes multiplied in, where it is none of the types that a file holds."""
    try:
        held = outline_of(Path(model.path)).held
        small = (model.size_bytes or 0) <= LARGEST_MODEL_BYTES
        ran = types_of_trace(run(), held) if held and small else frozenset()
    except Exception:  # ONNX Runtime's exceptions share no base class; the number stands without
        return {}
    return {"computes_in": name_of(ran)} if ran and not ran & held else {}


def traced(session: InferenceSession, names: list[str], feed: Arrays) -> list[TraceEvent]:
    """Run a session that was opened with profiling on once."""
    session.run(names, feed)
    return end_trace(session)


def types_of_trace(events: Iterable[TraceEvent], held: frozenset[str]) -> frozenset[str]:
    """Name the types that nodes multiplied in; of packed weights, those that the file holds."""
    found: set[str] = set()
    for event in filter(is_kernel, events):
        arguments = event.get("args", {})
        operator = str(arguments.get("op_name", ""))
        if packed := few_bits(operator):
            found |= {packed} if packed in held else held
        elif _COMPUTES.search(operator):
            kinds = [kind for each in arguments.get("input_type_shape", ()) for kind in each]
            found |= {_TYPES[kind] for kind in kinds if kind in _TYPES}
    return frozenset(found)


def nodes_and_providers(events: Iterable[TraceEvent]) -> dict[str, str]:
    """Tell which provider ran each node, from the trace of one run."""
    placed: dict[str, str] = {}
    for event in events:
        arguments = event.get("args", {})
        if event.get("cat") == "Node" and "provider" in arguments:
            name = event["name"].removesuffix(KERNEL)
            placed[name] = arguments["provider"]
    return placed


def listed(nodes: Sequence[str]) -> str:
    """Name the first few of many nodes."""
    more = len(nodes) - _NAMED
    return ", ".join(nodes[:_NAMED]) + (f" and {more} more" if more > 0 else "")
