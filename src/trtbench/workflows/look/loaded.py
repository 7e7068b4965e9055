"""An engine asked itself: loaded here in a process of its own, and run once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from trtbench.analysis.inspection import Inspection
from trtbench.analysis.memory import memory_from_facts
from trtbench.domain.job import BenchJob, BenchOutcome
from trtbench.domain.spec import Length, RunSpec, Warmup
from trtbench.errors import TrtbenchError, UsageError
from trtbench.host.unfinished import temporary_folder
from trtbench.models.identity import model_ref
from trtbench.runtimes import RUNTIMES
from trtbench.workflows.look.engine import inspect_engine
from trtbench.workflows.measure.failure import raise_unfinished
from trtbench.workflows.measure.job import carry_out_job, read_outcome
from trtbench.workflows.measure.launches import hold_device
from trtbench.workflows.measure.watch import watching
from trtbench.workflows.request.choice import default_runtime
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config

PATIENCE_S = 600.0


def inspect_loaded(
    path: Path,
    *,
    shapes: Mapping[str, tuple[int, ...]],
    batch: int | None,
    onnx: Path | None,
    config: Config,
) -> Inspection:
    """Describe an engine with what it takes and tells once it is loaded, or why it cannot be."""
    model = model_ref(path)
    if model.format != "engine":
        raise UsageError(f"--load asks an engine, and {path.name} is none", fix="leave it out")
    runtime = default_runtime(model, config, with_outputs=True)
    assert runtime is not None  # an engine has one, whether or not it works here
    look = partial(inspect_engine, path, onnx=onnx, shapes=shapes, batch=batch)
    found = look()
    spec = RunSpec(
        model=model,
        runtime=runtime,
        shapes=dict(shapes),
        batch=batch,
        warmup=Warmup(floor=Length(iterations=1), until_steady=False),
        stop=Length(iterations=1),
    )
    try:
        outcome = _loaded(spec, Conduct(python=config.python_for(runtime)))
    except TrtbenchError as problem:
        facts = "; ".join(f"{name}: {value}" for name, value in problem.facts.items())
        told = f"{problem.message} ({facts})" if facts else problem.message
        notes = (*(each for each in found.notes if each not in told), told)
        return found.having(facts={**found.facts, "loads_here": "it did not run"}, notes=notes)
    found = look(use=memory_from_facts(outcome.evidence, weight_bytes=model.size_bytes))
    return found.having(
        inputs=found.inputs or outcome.inputs, outputs=found.outputs or outcome.outputs
    )


def _loaded(spec: RunSpec, conduct: Conduct) -> BenchOutcome:
    device = RUNTIMES.load(spec.runtime).device(spec)
    with (
        hold_device(spec, conduct),
        temporary_folder() as folder,
        watching(spec, device) as watch,
    ):
        end = carry_out_job(
            BenchJob(spec=spec),
            folder=folder,
            conduct=conduct,
            patience_s=PATIENCE_S,
            python=conduct.python,
            on_stage=watch,
        )
        if not end.ok:
            raise_unfinished(end, "the engine was loaded, and did not run")
        return watch.told(read_outcome(folder, BenchOutcome))
