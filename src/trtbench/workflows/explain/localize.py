"""Which layers cost a low-precision model its accuracy, and which are the fewest to keep."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trtbench.analysis.check_rules import METRICS
from trtbench.analysis.condition_text import condition_from_text
from trtbench.boundary import clean_line
from trtbench.build.cast import ASKED_FOR
from trtbench.domain.feed import Feed
from trtbench.domain.job import LocalizeJob
from trtbench.domain.localize import Localization, Localized, LocalizeSpec, NodeGroup, Speed
from trtbench.errors import TrtbenchError, UsageError, writing
from trtbench.models.identity import model_ref
from trtbench.models.sidecar import read_sidecar
from trtbench.report.documents.localize import document_from_localized
from trtbench.store.store import Store
from trtbench.tasks import TASKS
from trtbench.tasks.contract import completed
from trtbench.workflows.check.check import feed_of, with_source
from trtbench.workflows.check.check_files import write_both
from trtbench.workflows.compare.compare import compare
from trtbench.workflows.make.conversion import put_in_place
from trtbench.workflows.measure.job import outcome_of_job
from trtbench.workflows.request.choice import first_choice
from trtbench.workflows.request.comparing import CompareRequest
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.fields import converted
from trtbench.workflows.request.judging import CheckRequest, LocalizeRequest
from trtbench.workflows.request.kinds import seconds
from trtbench.workflows.request.spec import pick, side_spec

SEARCH_PART = 0.8
"""Of the bar, where a comparison of speeds follows."""
PATIENCE_S = 3600.0
"""Added to the time a search is allowed: one model over all items may take long."""


def run_localize(
    request: LocalizeRequest, *, store: Store, config: Config, conduct: Conduct | None = None
) -> Localization:
    """Find the groups that matter, repair if asked for, and measure what that costs."""
    conduct = conduct or Conduct()
    output = Path(request.output)
    if Path(request.reference).suffix.lower() != ".onnx":
        raise UsageError(
            "the reference is an ONNX file",
            facts={"given": request.reference},
            fix="trtbench localize MODEL.onnx CANDIDATE",
        )
    kind = model_ref(Path(request.candidate)).format
    if kind not in ("onnx", "engine"):
        raise UsageError(
            "localize looks into ONNX files and engines",
            facts={"format": kind},
            fix="trtbench check compares outputs of any models",
        )
    with store.scratch() as folder:
        spec = localize_spec(request, config, folder)
        if kind == "engine":
            return _of_engine(request, spec.feed, store=store, config=config, conduct=conduct)
        found = outcome_of_job(
            LocalizeJob(spec=spec), Localized, folder=folder / "search",
            conduct=conduct.part(0.0, SEARCH_PART), patience_s=spec.max_time_s + PATIENCE_S,
            failure="the search did not finish",
        )  # fmt: skip
        made = _keep(spec, request, output) if found.kept else None
    result = _result(request, found, made)
    if made is not None and request.speed:
        last = conduct.part(SEARCH_PART, 1.0)
        result = _with_speeds(result, request, store=store, config=config, conduct=last)
    return _write(result, output)


def _of_engine(
    request: LocalizeRequest, feed: Feed, *, store: Store, config: Config, conduct: Conduct
) -> Localization:
    from trtbench.workflows.explain.localize_engine import localize_engine

    found = localize_engine(request, feed, store=store, config=config, conduct=conduct)
    return _write(_result(request, found), Path(request.output))


def _result(request: LocalizeRequest, found: Localized, made: Path | None = None) -> Localization:
    return Localization(
        reference=str(request.reference),
        candidate=str(request.candidate),
        inputs=inputs_in_words(request, found),
        found=found,
        repaired=None if made is None else str(made),
        commands=commands_for(request, found),
    )


def localize_spec(request: LocalizeRequest, config: Config, folder: Path) -> LocalizeSpec:
    """Settle what the worker searches with; what a condition asks for is looked at first."""
    if request.where and not request.data:
        condition_from_text(request.where, names=METRICS)
    asked = converted(
        request,
        CheckRequest,
        reference=request.reference,
        random=request.random,
        limit=request.limit,
        task=request.task if request.images else None,
    )
    plain = replace(request, threads=None, device=None, options={})
    run = with_source(side_spec(plain, request.reference, first_choice("onnx"), config), asked)
    sides = [Path(request.reference), Path(request.candidate)]
    feed = _task_feed(request) if request.data else feed_of(asked, sides)
    return LocalizeSpec(
        reference=str(sides[0].absolute()),
        candidate=str(sides[1].absolute()),
        run=run,
        feed=feed,
        repair=str(folder / f"{sides[1].stem}.repaired.onnx") if request.repair else None,
        where=request.where,
        max_time_s=seconds(request.max_time),
    )


def _task_feed(request: LocalizeRequest) -> Feed:
    assert request.task is not None
    settings = {**request.settings, "data": str(request.data)}
    return Feed(
        kind="task",
        task=request.task,
        settings=completed(TASKS.load(request.task).FLAGS, settings),
        count=request.limit,
        seed=request.seed,
    )


def _keep(spec: LocalizeSpec, request: LocalizeRequest, output: Path) -> Path:
    assert spec.repair is not None
    target = output / Path(spec.repair).name
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
    put_in_place(Path(spec.repair), target)
    return target


def _with_speeds(
    result: Localization,
    request: LocalizeRequest,
    *,
    store: Store,
    config: Config,
    conduct: Conduct,
) -> Localization:
    """Measure the repaired model in turn with the candidate and with the reference."""
    found, notes = [], list(result.notes)
    for name in (result.candidate, result.reference):
        asked = converted(
            request, CompareRequest, baseline=name, candidates=(result.repaired,),
            inputs=None, seed=request.seed, accept=("inputs",),
            runtime=pick(request.runtime, 1, 2, what="-r"),
            python=pick(request.python, 1, 2, what="--python"),
        )  # fmt: skip
        try:
            compared = compare(asked, store=store, config=config, conduct=conduct)[0]
        except TrtbenchError as problem:
            reason = problem.facts.get("reason", "")
            told = clean_line(f"{problem.message}{f': {reason}' if reason else ''}")
            notes.append(f"speed against {Path(name).name} was not measured: {told}")
            continue
        runtime = compared.candidate.record.spec.runtime
        verdict = compared.comparison.verdicts[0]
        found.append(Speed(against=name, runtime=runtime, verdict=verdict))
    return result.having(speeds=tuple(found), notes=tuple(notes))


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
    own = shlex.join(["quantize", reference, "-o", target, "--precision", low, *recipe])
    theirs = "autocast" if is_cast else "quantization"
    how = "low_precision_type" if is_cast else "calibration_data CALIBRATION.npy --quantize_mode"
    return {
        "trtbench": f"trtbench {own} {_each('keep' if is_cast else 'exclude', names)}",
        "ModelOpt": f"python -m modelopt.onnx.{theirs} --onnx_path {shlex.quote(reference)} "
        f"--{how} {low} --nodes_to_exclude {shlex.join(names)}",
    }


def _each(flag: str, names: Sequence[str]) -> str:
    return " ".join(f"--{flag} {shlex.quote(name)}" for name in names)


def _matters(group: NodeGroup) -> bool:
    gains = ((group.gain or 0.0), (group.sqnr_gain_db or 0.0))
    return group.first_nonfinite or max(gains) > 0 or not group.restored


def inputs_in_words(request: LocalizeRequest, found: Localized) -> str:
    """Say what both models ran on."""
    if request.data:
        return f"{found.items} items of {request.data}, task {request.task}"
    if request.images or request.inputs:
        return f"{found.items} items of {request.images or request.inputs}"
    return f"{found.items} random inputs, {request.distribution}, seed {request.seed}"


def _write(result: Localization, folder: Path) -> Localization:
    """Write everything as JSON, and what the screen shows as Markdown."""
    paths = folder / "localize.json", folder / "localize.md"
    result = result.having(files=tuple(map(str, paths)))
    write_both(*paths, result, document_from_localized(result))
    return result
