"""Time the layers of a model: a run with a profiling pass, or the profile of a stored run."""

from __future__ import annotations

import shlex
from pathlib import Path

from trtbench.domain.result import Run
from trtbench.domain.spec import RunSpec
from trtbench.errors import UsageError
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import demand_finished
from trtbench.store.store import Store
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.conduct import Conduct


def profile_model(spec: RunSpec, *, store: Store, conduct: Conduct | None = None) -> Run:
    """Measure a model, and its layers in a pass of their own."""
    run = run_bench(spec.having(profile=True), store=store, conduct=conduct)
    return _profiled(run)


def is_model_file(name: str) -> bool:
    """Tell a model from the name of a stored run; a file comes first."""
    return Path(name).is_file()


def stored_profile(name: str, *, store: Store) -> Run:
    """Read a run that has a profile."""
    return _profiled(demand_finished(store.load(name)))


def _profiled(run: Run) -> Run:
    if run.layers is None:
        raise UsageError(
            f"the run {run.id} has no layer times",
            facts={"model": run.record.spec.model.name, "runtime": run.record.spec.runtime},
            fix=way_to_layers(run),
        )
    return run


def way_to_layers(run: Run) -> str:
    """Say what to type to get the layer times that a run lacks."""
    spec = run.record.spec
    if run.record.provenance == "imported":
        return "import the file of --exportProfile together with the others, with --again"
    if not RUNTIMES.load(spec.runtime).TIMES_LAYERS:
        return "trtbench build MODEL.onnx, then trtbench profile MODEL.engine"
    return f"trtbench profile {shlex.quote(spec.model.path)} -r {spec.runtime}"
