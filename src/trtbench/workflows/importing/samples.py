"""What the parts of a run measured: iteration times, layer times, the engine's layers."""

from __future__ import annotations

from trtbench.domain.result import UNKNOWN
from trtbench.domain.samples import (
    Column,
    EngineGraph,
    IterationTimes,
    LayerProfile,
    times_from_columns,
)
from trtbench.domain.spec import TensorSpec
from trtbench.formats.toolkit_files import BLOCKS, layers_from_csv
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.log import LogRun
from trtbench.trtexec.profile import profiles_from_json
from trtbench.trtexec.times import TimesArray, TimesFile, times_from_file, without_warmup
from trtbench.workflows.importing.agreement import warmup_ms_of
from trtbench.workflows.importing.look import data_of, series_of, text_of
from trtbench.workflows.importing.match import Draft

_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}


def times_of(
    draft: Draft, told: LogRun, *, warmup_s: float | None
) -> tuple[IterationTimes, TimesArray | None]:
    """Take the exported times without warm-up, else the series the evaluation toolkit kept."""
    part = draft.parts.get("times")
    if part is None:
        return _series(draft), None
    warmup_ms = warmup_s * 1e3 if warmup_s is not None else warmup_ms_of(told)
    array = without_warmup(part.times(), warmup_ms)
    return times_from_file(TimesFile(arrays=(array,))), array


def layers_of(draft: Draft) -> LayerProfile | None:
    """Take the profile that was exported, else the printed one, else the evaluation toolkit's."""
    part = draft.parts.get("profile")
    if part is not None:
        profiles = profiles_from_json(data_of(part.file), where=part.file.shown)
        return profiles[part.index]
    if draft.log is not None and draft.log.profile is not None:
        return draft.log.profile
    part = draft.parts.get("layer_csv")
    return layers_from_csv(text_of(part.file)) if part else None


def graph_of(draft: Draft) -> EngineGraph | None:
    """Tell what the engine's inspector told."""
    part = draft.parts.get("graph")
    return graph_from_json(data_of(part.file), where=part.file.shown) if part else None


def edge_tensors(graph: EngineGraph, *, outputs: bool) -> tuple[TensorSpec, ...]:
    """Find the engine's inputs or outputs among the tensors of its layers."""
    made = {tensor.name for layer in graph.layers for tensor in layer.outputs}
    found: dict[str, TensorSpec] = {}
    for layer in graph.layers:
        for tensor in layer.outputs if outputs else layer.inputs:
            at_edge = tensor.name in graph.io_tensors and outputs == (tensor.name in made)
            if at_edge and tensor.dimensions and min(tensor.dimensions) > 0:
                dtype = _DTYPES.get(tensor.dtype or "", tensor.dtype or UNKNOWN)
                spec = TensorSpec(name=tensor.name, dtype=dtype, shape=tensor.dimensions)
                found.setdefault(tensor.name, spec)
    return tuple(found.values())


def _series(draft: Draft) -> IterationTimes:
    columns: dict[str, Column] = {}
    for theirs, ours in {"latency": "latency", **BLOCKS}.items():
        part = draft.parts.get(f"{theirs}_series")
        if part is not None:
            columns[ours] = series_of(part.file)[1]
    if not columns:
        return IterationTimes()
    length = len(next(iter(columns.values())))  # a series of another length is another run's
    return times_from_columns({k: v for k, v in columns.items() if len(v) == length})
