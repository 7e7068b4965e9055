"""Run the whole tool on a small network, without a GPU.

Takes about a minute, one thread of one CPU, and nothing from a network. What it measures is
real: a model in FP32 and INT8 on ONNX Runtime at two batch sizes, their accuracy on images they
have never seen, and a comparison of the two with a verdict.

Examples:
  trtbench demo
  trtbench demo -o /tmp/first-look
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.requests.fields import FILE, File, VerbRequest, option
from trtbench.verbs._screen import draw, print_json, say
from trtbench.verbs._verb import Caller, JsonView, Verb

if TYPE_CHECKING:
    from trtbench.workflows.demo import Demo


@dataclass(frozen=True, kw_only=True)
class DemoRequest(VerbRequest):
    """Measure a small network in FP32 and INT8 on ONNX Runtime, and write a report."""

    output: File = option(
        "demo-report",
        "Folder of the report and of the demo's own store.",
        ("-o", "--output"),
        kind=FILE,
    )


def run(request: DemoRequest, caller: Caller) -> Demo:
    from trtbench.requests.execution import Execution
    from trtbench.workflows.demo import run_demo

    output = Path(request.output)
    config = caller.settings(output.absolute() / "store")
    with caller.progress("demo") as listen:
        execution = Execution(command=caller.command, listen=listen)
        return run_demo(output, store=caller.store(config), config=config, execution=execution)


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

        draw(document_from_demo(found))
    report = next(path for path in found.files if path.suffix == ".html")
    say(f"report: {report}")


verb = Verb(DemoRequest, run, show, JsonView)
