"""Run the whole tool on a small network, without a GPU.

Takes about a minute on one thread of one CPU, and needs no internet access. It really measures a
model in FP32 and INT8 on ONNX Runtime at two batch sizes, their accuracy on images that were not
used for training, and compares the two.

Examples:
  trtbench demo
  trtbench demo -o /tmp/first-look
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.requests.fields import File, VerbRequest, output_path
from trtbench.verbs._screen import draw, print_json, say
from trtbench.verbs._verb import Caller, JsonView, Verb

if TYPE_CHECKING:
    from trtbench.core.results import Compared
    from trtbench.core.run import Run, Scores

MODELS = {"fp32": "digits.onnx", "int8": "digits.int8.onnx"}
BATCHES = (1, 16)
RUNTIME = "onnxruntime"


class DemoRequest(VerbRequest):
    """Measure a small network in FP32 and INT8 on ONNX Runtime, and write a report."""

    output: File = output_path("demo-report", "Folder of the report and of the demo's own store.")


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The results of the demo."""

    runs: tuple[Run, ...]
    scores: dict[str, Scores]
    compared: dict[int, Compared]
    files: tuple[Path, ...]


def run(request: DemoRequest, caller: Caller) -> Demo:
    from trtbench.accuracy.evaluate import run_evaluation, scores_of
    from trtbench.compare.compare import compare
    from trtbench.data import demo_file
    from trtbench.measure.bench import run_bench, write_scores
    from trtbench.requests.execution import Execution, Steps
    from trtbench.requests.measure import BenchRequest, CompareRequest
    from trtbench.requests.models import EvalRequest
    from trtbench.requests.run_spec import run_spec
    from trtbench.workflows.report import write_report

    output = Path(request.output)
    config = caller.settings(output.absolute() / "store")
    store = caller.store(config)
    models = {precision: demo_file(name) for precision, name in MODELS.items()}
    runs, compared, shown, comparisons = {}, {}, [], []
    with caller.progress("demo") as listen:
        execution = Execution(command=caller.command, listen=listen)
        steps = Steps(execution, len(MODELS) * len(BATCHES) + len(BATCHES) + 2)
        for batch in BATCHES:
            for precision, model in models.items():
                bench = BenchRequest(
                    model, runtime=RUNTIME, batch=batch, duration=1.0, launches=3, threads=1
                )
                step = steps.next(f"{precision}, batch {batch}")
                spec = run_spec(bench, config)
                runs[precision, batch] = run_bench(spec, store=store, execution=step)
        with store.scratch() as folder:
            evaluation = EvalRequest(
                list(models.values()), task="classification", data=demo_file("digits.npz"),
                runtime=RUNTIME, batch=64, threads=1, output=folder,
            )  # fmt: skip
            step = steps.next("accuracy")
            found = run_evaluation(evaluation, store=store, config=config, execution=step)
        scores = {n: scores_of(found, each) for n, each in zip(MODELS, found.models, strict=True)}
        for batch in BATCHES:
            sides = CompareRequest(
                models["fp32"], [models["int8"]], runtime=RUNTIME, batch=batch, threads=1
            )
            step = steps.next(f"int8 against fp32, batch {batch}")
            each = compare(sides, store=store, config=config, execution=step)[0]
            compared[batch] = each
            # The report shows the comparison as one between the runs that it lists.
            fp32, int8 = runs["fp32", batch].id, runs["int8", batch].id
            comparisons.append(each.comparison.having(baseline=fp32, candidate=int8))
        steps.next("report")
        for (precision, _), measured in runs.items():
            assert measured.path is not None
            write_scores(measured.path, scores[precision])
            shown.append(replace(measured, extra={"scores": scores[precision].by_metric()}))
        formats = ("html", "md", "json", "png")
        files = write_report(
            shown, output, title="trtbench demo", formats=formats, comparisons=comparisons
        )
    return Demo(runs=tuple(shown), scores=scores, compared=compared, files=tuple(files))


def show(found: Demo, request: DemoRequest, view: JsonView) -> None:
    if view.as_json:
        from trtbench.analysis.summary import summary_from_run

        runs = [{"run": run.record, "summary": summary_from_run(run)} for run in found.runs]
        compared = {str(batch): each.comparison for batch, each in found.compared.items()}
        files = [str(path) for path in found.files]
        about = {"scores": found.scores, "comparisons": compared, "files": files}
        print_json({"runs": runs, **about})
    else:
        from trtbench.report.sections.verdicts import document_from_demo

        draw(document_from_demo(found.runs, found.scores, found.compared))
    report = next(path for path in found.files if path.suffix == ".html")
    say(f"report: {report}")


verb = Verb(DemoRequest, run, show, JsonView)
