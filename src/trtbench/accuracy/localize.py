"""Find the layers that lose a low-precision model's accuracy, and the fewest to exclude."""

import shlex
from pathlib import Path

from trtbench.accuracy.check import describe_feed, feed_from_request, write_files
from trtbench.analysis.check import METRICS
from trtbench.convert.cast import ASKED_FOR
from trtbench.convert.conversions import put_in_place
from trtbench.core.conditions import condition_from_text
from trtbench.core.errors import StoreError, UsageError, writing
from trtbench.core.jobs import LocalizeJob, progress_from_line
from trtbench.core.results import Localization, Localized, LocalizeSpec
from trtbench.host.files import make_folder
from trtbench.measure.bench import read_outcome, run_job
from trtbench.models.identity import model_ref, read_sidecar
from trtbench.report.sections.accuracy import document_from_localized
from trtbench.requests.execution import Event, Execution
from trtbench.requests.fields import seconds
from trtbench.requests.models import LocalizeRequest
from trtbench.requests.run_spec import first_choice, side_spec
from trtbench.requests.settings import Config
from trtbench.store.store import Store

EXTRA_TIME_S = 3600.0  # added to the search's time limit: the last model may take long


def run_localize(
    request: LocalizeRequest, *, store: Store, config: Config, execution: Execution | None = None
) -> Localization:
    """Rank groups of nodes by lost accuracy, and write a repaired model if requested."""
    execution = execution or Execution()
    output, sides = Path(str(request.output)), [Path(request.reference), Path(request.candidate)]
    models = [model_ref(model) for model in sides]
    for model in models:
        if model.format != "onnx":
            fix = "trtbench check compares outputs of any models"
            raise UsageError("localize compares ONNX files", facts={"given": model.path}, fix=fix)
    if request.where and not request.data:
        condition_from_text(request.where, names=METRICS)  # raise before anything is run
    feed, made = feed_from_request(request, models), None
    with store.scratch() as folder:
        repaired = folder / f"{sides[1].stem}.repaired.onnx"
        run = side_spec(request, request.reference, first_choice("onnx"), config)
        spec = LocalizeSpec(
            reference=str(sides[0].absolute()), candidate=str(sides[1].absolute()),
            run=run, feed=feed, where=request.where,
            repair=str(repaired) if request.repair else None,
            max_time_s=seconds(request.max_time),
        )  # fmt: skip

        def report_progress(line: str) -> None:
            if (progress := progress_from_line(line)) is not None:
                execution.listen(Event(kind="stage", done=progress[0], text=progress[1]))

        execution.listen(Event(kind="stage", text="loading"))
        try:
            end = run_job(
                LocalizeJob(spec=spec), folder=folder / "search", execution=execution,
                patience_s=spec.max_time_s + EXTRA_TIME_S, on_stage=report_progress,
            )  # fmt: skip
            if not end.ok:
                raise end.failure("the search did not finish")
            found = read_outcome(folder / "search", Localized)
        except KeyboardInterrupt:  # the search leaves its best answer so far
            if not (folder / "search" / "outcome.json").is_file():
                raise
            found = read_outcome(folder / "search", Localized).having(interrupted=True)
        if found.kept and request.repair:
            with execution.writing_result():
                with writing(output):
                    make_folder(output)
                put_in_place(repaired, output / repaired.name)
                made = output / repaired.name
    result = Localization(
        reference=str(request.reference), candidate=str(request.candidate), found=found,
        inputs=describe_feed(request, feed, found.items), commands=commands_for(request, found),
        repaired=None if made is None else str(made),
        files=tuple(str(output / name) for name in ("localize.json", "localize.md")),
    )  # fmt: skip
    try:
        write_files(output / "localize", result, document_from_localized(result))
    except StoreError as problem:
        execution.on_unwritten(problem)
        return result.having(files=())
    return result


def commands_for(request: LocalizeRequest, found: Localized) -> dict[str, str]:
    """Return commands that keep the groups in higher precision: the repaired, else the worst."""
    kept = [group for group in found.groups if group.node in found.kept] or list(found.groups[:1])
    names = list(dict.fromkeys(name for group in kept for name in group.named))
    if not names or found.misfit or found.nothing_left:
        return {}
    worst = kept[0]
    if not found.kept and (found.met or not (found.gains or worst.first_nonfinite)):
        return {}
    low, record = worst.type.lower(), read_sidecar(Path(request.candidate))
    is_cast = low in ("fp16", "bf16")
    if not is_cast and low not in ("int8", "fp8"):
        return {}
    before = [node for node, why in record.kept.items() if why == ASKED_FOR] if record else []
    names = list(dict.fromkeys([*before, *names]))
    recipe = (record.recipe if record else ()) or (() if is_cast else ("--data", "DATA"))
    reference, target = str(request.reference), f"{Path(request.candidate).stem}.repaired.onnx"
    flag = "--keep" if is_cast else "--exclude"
    own = ["quantize", reference, "-o", target, "--precision", low, *recipe]
    own += [word for name in names for word in (flag, name)]
    return {"trtbench": f"trtbench {shlex.join(own)}"}
