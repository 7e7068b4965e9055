"""Measure every case of a matrix.

The matrix is MODELS and axes, or a TOML or YAML file that describes everything. Steps that cases
share (export, quantize, build) run once and are cached by the content of their inputs. A case that
fails is a row with its reason. --resume continues after any interruption, even kill -9, without
repeating finished work. Exit status 3 when nothing meets --where.

In Python a model may be a mapping with the keys of such a file, and a sweep that has begun in the
``output`` folder is resumed.

Examples:
  trtbench sweep resnet18.onnx --precision fp32,int8 --batch 1,8,32 --rounds 3
  trtbench sweep sweep.toml --dry-run
  trtbench sweep model.onnx -r tensorrt --engine static,dynamic \\
      --batch 1,32,256
  trtbench sweep model.onnx --axis threads=1,2,4 --data val.npz \\
      --where 'p99<5ms and top1>=baseline-0.5%'
  trtbench sweep fp16.engine int8.engine --task depth --data images --gt truth
  trtbench sweep --preset classification -r torch,tensorrt
  trtbench sweep --resume FOLDER
  trtbench sweep model.onnx --batch 1,8,32 --executor ray --address head:6379
  >>> trtbench.sweep("model.onnx", batch=[1, 8], output="sweep").rows
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.core.errors import EXIT_BROKEN, JobError, UsageError, refuse_unknown
from trtbench.requests.fields import Words, option, words_from_text
from trtbench.requests.measure import SweepRequest
from trtbench.verbs._screen import draw, print_json, say
from trtbench.verbs._verb import Caller, PlanView, Verb, python_function

if TYPE_CHECKING:
    from trtbench.requests.settings import Config
    from trtbench.sweep.matrix import Matrix
    from trtbench.sweep.plan import SweepPlan
    from trtbench.sweep.result import Results


class ChoiceRequest(SweepRequest):
    """A sweep of which the best cases are shown."""

    where: str | None = option(None, "Show cases that meet this, best first.", metavar="CONDITION")
    best: str = option(
        "items", "Quantity to rank them by: items, median, size, top1.", metavar="NAME"
    )


class SweepView(PlanView):
    """How the results are printed, and the formats of the report."""

    format: Words = option("html,png", "Formats of the report; none for no report.")

    @property
    def formats(self) -> tuple[str, ...]:
        return () if self.format == "none" else words_from_text(self.format)

    def validate(self) -> None:
        from trtbench.report.compose import RENDERERS

        _ = [RENDERERS.load(name) for name in self.formats]  # refused before anything is measured


@dataclass(frozen=True, kw_only=True)
class Swept:
    results: Results
    folder: Path
    title: str


def run(request: SweepRequest, caller: Caller) -> Swept:
    from trtbench.sweep.matrix import refuse_flags_with_resume, sweep_folder
    from trtbench.sweep.records import SWEEP, config_of_sweep, read_outline, start_sweep
    from trtbench.sweep.result import results_from_sweep
    from trtbench.sweep.run import run_sweep

    config = caller.settings(request.store)
    folder = Path(given) if (given := request.resume or request.output) is not None else None
    begun = folder is not None and (folder / SWEEP).is_file() and not caller.on_terminal
    if request.resume is not None:
        refuse_flags_with_resume(request)
    if folder is not None and (request.resume is not None or begun):  # in the store it began in
        store_given = None if request.store is None else str(request.store)
        config = config_of_sweep(folder, config, given=store_given)
        _check_choice(request, read_outline(folder.absolute()).matrix)
        store = caller.store(config)
    else:
        plan = _make_plan(request, config)
        for note in dict.fromkeys(note for each in plan.cases for note in each.notes):
            caller.say(f"note: {note}")
        store = caller.store(config)
        folder = sweep_folder(request, plan.matrix, store.root)
        start_sweep(plan.matrix, folder, store=store, lenient=_is_lenient(request))
    with caller.executing(request, config, "sweep") as execution:
        try:
            sweep = run_sweep(
                folder, store=store, config=config, execution=execution,
                retry_failed=request.retry_failed,
            )  # fmt: skip
        except KeyboardInterrupt:
            again = " and the same --executor" if request.executor else ""
            caller.say(f"continue with: trtbench sweep --resume {shlex.quote(str(folder))}{again}")
            raise
    for note in sweep.journal.notes:
        caller.say(f"note: {note}")
    title = sweep.outline.matrix.title or f"Sweep {sweep.outline.name}"
    return Swept(results=results_from_sweep(sweep), folder=folder, title=title)


def results(request: SweepRequest, caller: Caller) -> Results:
    return run(request, caller).results


def _check_choice(request: SweepRequest, matrix: Matrix) -> None:
    """Raise an error for an invalid condition, before minutes of work."""
    from trtbench.sweep.matrix import check_where_and_best

    if isinstance(request, ChoiceRequest):
        check_where_and_best(request.where, request.best, matrix)


def _is_lenient(request: SweepRequest) -> bool:
    return request.preset is not None and not request.runtime


def _make_plan(request: SweepRequest, config: Config) -> SweepPlan:
    from trtbench.sweep.matrix import matrix_from_request
    from trtbench.sweep.plan import plan_sweep

    matrix = matrix_from_request(request)
    _check_choice(request, matrix)
    is_elsewhere = request.executor is not None
    return plan_sweep(matrix, config=config, lenient=_is_lenient(request), elsewhere=is_elsewhere)


def plan(request: SweepRequest, view: PlanView, caller: Caller) -> None:
    from trtbench.report.sections.sweep import document_from_plan
    from trtbench.sweep.plan import estimate

    if request.resume is not None:
        raise UsageError("--resume has no dry run", fix="leave --dry-run out")
    config = caller.settings(request.store)
    plan = _make_plan(request, config)
    kinds = estimate(plan, store=caller.store(config))
    if not view.as_json:
        draw(document_from_plan(plan, kinds))
        return
    keys = ("case", "refused", "notes")
    cases = [
        {"name": x.case.name, "steps": x.chain, **{key: getattr(x, key) for key in keys}}
        for x in plan.cases
    ]
    steps = list(plan.steps.values())
    print_json({"matrix": plan.matrix, "cases": cases, "steps": steps, "estimate": kinds})


def show(found: Swept, request: ChoiceRequest, view: SweepView) -> int | None:
    import msgspec

    from trtbench.analysis.sweep import choose, quantities
    from trtbench.core.conditions import condition_from_text
    from trtbench.core.metrics import kinds
    from trtbench.report.sections.sweep import document_from_sweep, json_from_rows
    from trtbench.sweep.result import write_results

    results, folder = found.results, found.folder
    paths = write_results(results, folder, title=found.title, formats=view.formats)
    best, chosen = request.best, None
    if request.where:
        names = quantities(results.rows)
        unknown = f"--best {best} is not a quantity"
        refuse_unknown(best, names, unknown, listed="quantities", flag="--best")
        condition = condition_from_text(request.where, names=names, kinds=kinds(names))
        chosen = choose(results.rows, condition, by=best)
    if view.as_json:
        document = msgspec.json.decode(json_from_rows(results.rows, title=folder.name))
        document |= {"folder": str(folder)}
        if chosen is not None:
            document |= {"chosen": [row.runs for row in chosen.rows], "unknown": chosen.unknown}
        print_json(document)
    else:
        draw(document_from_sweep(results.rows, chosen=chosen))
    pictures = [path for path in paths if path.suffix == ".png"]
    shown = f"; {len(pictures)} pictures in {pictures[0].parent.name}/" if pictures else ""
    say(f"wrote {len(paths)} files to {folder}; start with {paths[0].name}{shown}")
    if chosen is not None and not chosen.rows:
        return EXIT_BROKEN
    if not results.runs:
        raise JobError("no case of the sweep could be measured", fix=f"see {paths[0]}")
    return None


verb = Verb(ChoiceRequest, run, show, SweepView, plan=plan, task="all")
sweep = python_function(SweepRequest, results)
