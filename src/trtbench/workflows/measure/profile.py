"""Time the layers of a model: a run with a profiling pass, or the profile of a stored run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trtbench.domain.result import Run
from trtbench.domain.samples import EngineGraph, LayerInfo, LayerProfile, LayerTime
from trtbench.domain.spec import RunSpec
from trtbench.errors import InputError, UsageError
from trtbench.runtimes import RUNTIMES
from trtbench.store.store import Store
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.conduct import Conduct


@dataclass(frozen=True, kw_only=True)
class LayerRow:
    """One layer of a profile, with what the inspector tells about it where that is known."""

    layer: LayerTime
    share: float | None
    """Of the sum over all layers, from 0 to 1."""
    type: str | None = None
    precision: str | None = None
    """Of its first output."""


def profile_model(spec: RunSpec, *, store: Store, conduct: Conduct | None = None) -> Run:
    """Measure a model, and its layers in a pass of their own."""
    run = run_bench(msgspec.structs.replace(spec, profile=True), store=store, conduct=conduct)
    return _profiled(run)


def is_model_file(name: str) -> bool:
    """Tell a model from the name of a stored run; a file comes first."""
    return Path(name).is_file()


def stored_profile(name: str, *, store: Store) -> Run:
    """Read a run that has a profile."""
    found = store.load(name)
    if not isinstance(found, Run):
        raise InputError(f"the run {found.id} failed and has no profile")
    return _profiled(found)


def _profiled(run: Run) -> Run:
    if run.layers is None:
        raise UsageError(
            f"the run {run.id} has no layer times",
            facts={"model": run.record.spec.model.name, "runtime": run.record.spec.runtime},
            fix=_way_to_layers(run),
        )
    return run


def _way_to_layers(run: Run) -> str:
    spec = run.record.spec
    if run.record.provenance == "imported":
        return "import the file of --exportProfile together with the others, with --again"
    if not RUNTIMES.load(spec.runtime).TIMES_LAYERS:
        return "trtbench build MODEL.onnx, then trtbench profile MODEL.engine"
    return f"trtbench profile {shlex.quote(spec.model.path)} -r {spec.runtime}"


def layer_rows(run: Run, *, top: int | None = None) -> list[LayerRow]:
    """List the layers from the slowest on; layers that share a name stay apart."""
    profile = run.layers or LayerProfile(count=None, layers=())
    total_s = sum(layer.average_s for layer in profile.layers)
    known = _infos(profile, run.graph)
    rows = [
        LayerRow(
            layer=layer,
            share=layer.average_s / total_s if total_s else None,
            type=info.type if info else None,
            precision=_precision(info),
        )
        for layer, info in zip(profile.layers, known, strict=True)
    ]
    rows.sort(key=lambda row: -row.layer.average_s)
    return rows if top is None else rows[:top]


def _infos(profile: LayerProfile, graph: EngineGraph | None) -> list[LayerInfo | None]:
    """Find what is known of each layer: in the same order where names agree, else by name."""
    layers = list(graph.layers) if graph else []
    if [each.name for each in layers] == [each.name for each in profile.layers]:
        return [*layers]
    by_name = {each.name: each for each in layers}
    return [by_name.get(each.name) for each in profile.layers]


def _precision(info: LayerInfo | None) -> str | None:
    return info.outputs[0].dtype if info and info.outputs else None
