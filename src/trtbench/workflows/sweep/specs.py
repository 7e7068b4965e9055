"""What a case of a sweep is run as, for measuring and for judging."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trtbench.domain.spec import RunSpec
from trtbench.host.images import SUFFIXES
from trtbench.models.identity import model_ref
from trtbench.runtimes import RUNTIMES
from trtbench.workflows.request.choice import default_runtime, first_choice
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.fields import fields_of
from trtbench.workflows.request.measuring import BenchRequest
from trtbench.workflows.request.spec import run_spec
from trtbench.workflows.sweep.content import preparing_of
from trtbench.workflows.sweep.graph import is_hub, judging_options, precision_told
from trtbench.workflows.sweep.matrix import MACHINE, PREFIXES, SOURCE, Case, Matrix
from trtbench.workflows.sweep.plan import SweepPlan

LOOK_EVERY = "100ms"
"""How often the GPU is looked at in a sweep that judges a task, in a pass of its own."""


def spec_of_case(plan: SweepPlan, place: int, model: Path | str, config: Config) -> RunSpec:
    """Settle how a case is measured."""
    case = plan.cases[place]
    flags = {**_inputs(plan.matrix), **_flags(case)}
    spec = run_spec(_request(plan, place, model, flags=flags), config)
    if not _is_watched(plan.matrix, case, spec):
        return spec
    flags["telemetry"] = LOOK_EVERY
    return run_spec(_request(plan, place, model, flags=flags), config)


def judging_spec(plan: SweepPlan, place: int, model: Path | str, config: Config) -> RunSpec:
    """Settle how a case is run over data: in any batch, without what is for measuring only."""
    case = plan.cases[place]
    flags = {k: v for k, v in judging_options(case).items() if not k.startswith(PREFIXES)}
    request = _request(plan, place, model, flags={**flags, "profile": False})
    return run_spec(request, config).having(batch=None)


def reference_spec(plan: SweepPlan, place: int, config: Config) -> RunSpec:
    """Settle how the model of a case is run as it was given, for others to be compared with."""
    case = plan.cases[place]
    if is_hub(case.model):
        runtime = first_choice("torch")
    else:
        own = model_ref(Path(case.model))
        runtime = default_runtime(own, config, with_outputs=True) or first_choice(own.format)
    loading = {k: str(v) for k, v in case.own("opt.").items() if k in (*SOURCE, "seed")}
    request = BenchRequest(
        model=case.model,
        runtime=runtime,
        batch=case.batch,
        shapes=plan.shapes[place],
        options=loading if "torch" in RUNTIMES.load(runtime).FORMATS else {},
        profile=False,
    )
    return run_spec(request, config).having(batch=None)


def arrays_of(matrix: Matrix) -> str | None:
    """Find the arrays that a sweep measures on, if it does; an image is none."""
    given = matrix.inputs
    return given if given and Path(given).suffix.lower() not in SUFFIXES else None


def _request(
    plan: SweepPlan, place: int, model: Path | str, *, flags: dict[str, Any]
) -> BenchRequest:
    case = plan.cases[place]
    return BenchRequest(
        model=model,
        runtime=case.runtime,
        batch=case.batch,
        shapes=plan.shapes[place],
        precision=precision_told(case),
        options=_options(plan, place),
        **flags,
    )


def _options(plan: SweepPlan, place: int) -> dict[str, str]:
    """Find options for the runtime; how a PyTorch model is loaded was used up by its export."""
    exported = any(plan.steps[key].kind == "export" for key in plan.chains[place])
    return {
        key: str(value)
        for key, value in plan.cases[place].own("opt.").items()
        if not (exported and key in (*SOURCE, "seed"))
    }


def _is_watched(matrix: Matrix, case: Case, spec: RunSpec) -> bool:
    """Say whether the GPU is looked at unasked: a task is judged, and nobody said otherwise."""
    on_gpu = RUNTIMES.load(case.runtime).device(spec).startswith("cuda")
    return on_gpu and matrix.data is not None and "telemetry" not in case.settings


def _inputs(matrix: Matrix) -> dict[str, object]:
    """Tell what is measured on; an image is prepared as those that are judged."""
    if matrix.inputs is None:
        return {}
    if arrays := arrays_of(matrix):
        return {"inputs": arrays}
    return {"inputs": matrix.inputs, "task": matrix.task, "settings": preparing_of(matrix)}


def _flags(case: Case) -> dict[str, Any]:
    """Take the axes that are flags of bench; a clock of 1500 is a word there."""
    words = {field.name for field in fields_of(BenchRequest) if field.type is str}
    found = {
        key: str(value) if key in words else value
        for key, value in case.settings.items()
        if key != MACHINE and not key.startswith(PREFIXES)
    }
    if found.get("telemetry") in ("off", False):
        del found["telemetry"]
    return found
