"""Which layers cost a low-precision model its accuracy, and the fewest to keep out of it."""

from __future__ import annotations

import shlex
from pathlib import Path

from trtbench.accuracy.check import feed_of, with_source, write_both
from trtbench.analysis.check import METRICS
from trtbench.convert.cast import ASKED_FOR
from trtbench.convert.conversions import put_in_place
from trtbench.core.conditions import condition_from_text
from trtbench.core.errors import UsageError, writing
from trtbench.core.jobs import LocalizeJob
from trtbench.core.results import Feed, Localization, Localized, LocalizeSpec, NodeGroup
from trtbench.measure.jobs import outcome_of_job
from trtbench.models.identity import model_ref, read_sidecar
from trtbench.report.sections.checks import document_from_localized
from trtbench.requests.accuracy import CheckRequest, LocalizeRequest
from trtbench.requests.execution import Execution
from trtbench.requests.fields import converted, seconds
from trtbench.requests.run_spec import first_choice, side_spec
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.tasks import TASKS
from trtbench.tasks.contract import completed

PATIENCE_S = 3600.0
"""Added to the time a search is allowed: one model over all items may take long."""


def run_localize(
    request: LocalizeRequest, *, store: Store, config: Config, execution: Execution | None = None
) -> Localization:
    """Find the groups that matter, and repair if that is requested."""
    execution, output = execution or Execution(), Path(request.output)
    for model in (request.reference, request.candidate):
        if model_ref(Path(model)).format != "onnx":
            raise UsageError(
                "localize compares ONNX files",
                facts={"given": str(model)},
                fix="trtbench check compares outputs of any models",
            )
    made = None
    with store.scratch() as folder:
        spec = _localize_spec(request, config, folder)
        found = outcome_of_job(
            LocalizeJob(spec=spec), Localized, folder=folder / "search", execution=execution,
            patience_s=spec.max_time_s + PATIENCE_S, failure="the search did not finish",
        )  # fmt: skip
        if found.kept and spec.repair is not None:
            made = output / Path(spec.repair).name
            with writing(output):
                output.mkdir(parents=True, exist_ok=True)
            put_in_place(Path(spec.repair), made)
    inputs = f"{found.items} random inputs, {request.distribution}, seed {request.seed}"
    if request.data:
        inputs = f"{found.items} items of {request.data}, task {request.task}"
    elif request.images or request.inputs:
        inputs = f"{found.items} items of {request.images or request.inputs}"
    result = Localization(
        reference=str(request.reference),
        candidate=str(request.candidate),
        inputs=inputs,
        found=found,
        repaired=None if made is None else str(made),
        commands=commands_for(request, found),
        files=tuple(str(output / name) for name in ("localize.json", "localize.md")),
    )
    write_both(output / "localize", result, document_from_localized(result))
    return result


def _localize_spec(request: LocalizeRequest, config: Config, folder: Path) -> LocalizeSpec:
    if request.where and not request.data:
        condition_from_text(request.where, names=METRICS)  # refused before anything is run
    asked = converted(
        request,
        CheckRequest,
        reference=request.reference,
        random=request.random,
        limit=request.limit,
        task=request.task if request.images else None,
    )
    sides = [Path(request.reference), Path(request.candidate)]
    if request.data:
        assert request.task is not None
        settings = {**request.settings, "data": str(request.data)}
        flags = TASKS.load(request.task).FLAGS
        feed = Feed(
            kind="task", task=request.task, settings=completed(flags, settings),
            count=request.limit, seed=request.seed,
        )  # fmt: skip
    else:
        feed = feed_of(asked, sides)
    return LocalizeSpec(
        reference=str(sides[0].absolute()),
        candidate=str(sides[1].absolute()),
        run=with_source(side_spec(request, request.reference, first_choice("onnx"), config), asked),
        feed=feed,
        repair=str(folder / f"{sides[1].stem}.repaired.onnx") if request.repair else None,
        where=request.where,
        max_time_s=seconds(request.max_time),
    )


def commands_for(request: LocalizeRequest, found: Localized) -> dict[str, str]:
    """Write the commands that leave the groups out: those of the repair, else the worst one."""
    kept = [group for group in found.groups if group.node in found.kept] or list(found.groups[:1])
    names = list(dict.fromkeys(name for group in kept for name in group.named))
    if not names or (not found.kept and (found.met or not _matters(kept[0]))):
        return {}
    low, record = kept[0].type.lower(), read_sidecar(Path(request.candidate))
    is_cast = low in ("fp16", "bf16")
    if not is_cast and low not in ("int8", "fp8"):
        return {}
    before = [node for node, why in record.kept.items() if why == ASKED_FOR] if record else []
    names = list(dict.fromkeys([*before, *names]))
    recipe = (record.recipe if record else ()) or (() if is_cast else ("--calibration", "DATA"))
    reference, target = str(request.reference), f"{Path(request.candidate).stem}.repaired.onnx"
    flag = "--keep" if is_cast else "--exclude"
    own = ["quantize", reference, "-o", target, "--precision", low, *recipe]
    own += [word for name in names for word in (flag, name)]
    return {"trtbench": f"trtbench {shlex.join(own)}"}


def _matters(group: NodeGroup) -> bool:
    gains = ((group.gain or 0.0), (group.sqnr_gain_db or 0.0))
    return group.first_nonfinite or max(gains) > 0 or not group.restored
