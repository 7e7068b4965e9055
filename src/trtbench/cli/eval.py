"""``trtbench eval``: how right models are at their task, and how fast on the same data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtbench.cli._options import json_option, refuse_unwritable, store_option
from trtbench.cli._task_flags import TaskCommand, settings_from_flags
from trtbench.cli.check import conduct_from_flags, side_flags, side_options

if TYPE_CHECKING:
    from trtbench.workflows.check.evaluate import Evaluation

SHOWN_ROWS = 10


@click.command("eval", short_help="Accuracy on data with known answers.", cls=TaskCommand)
@click.argument("models", nargs=-1, required=True)
@click.option("--task", required=True, metavar="NAME",
              help="classification, depth, pose; with --help shows its flags.")  # fmt: skip
@click.option("--data", required=True, metavar="PATH", help="Images, or an .npz with labels.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many items.")
@click.option("--warmup", metavar="PERCENT", default="10%", show_default=True,
              help="Batches at the start whose times do not count.")  # fmt: skip
@side_options
@click.option("--join", "runs", multiple=True, metavar="RUN",
              help="Insist on this run; those of the same bytes are joined anyway.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("artifacts/eval"),
              show_default=True, help="Folder of tables and pictures.")  # fmt: skip
@store_option
@json_option
def command(models: tuple[str, ...], **flags: Any) -> None:
    """Evaluate MODELS on data with known answers, each through its own runtime.

    Scores are kept beside all stored runs of the same bytes, and reports show them there. Latency
    is taken in the same pass: what it says is said about this pass; bench measures it alone.

    \b
    Examples:
      trtbench eval model.onnx model.engine --task classification --data val --batch 8
      trtbench eval depth.engine --task depth --data images --gt depths --align least-squares
      trtbench eval yolov8n-pose.onnx --task pose --data images --annotations people.json
      trtbench eval stgcn.onnx --task classification --data skeletons.npz
    """
    from trtbench.cli._screen import Talk, say
    from trtbench.cli._settings import load_config
    from trtbench.units import fraction_from_text
    from trtbench.workflows.check.evaluate import Asked, run_evaluation
    from trtbench.workflows.check.evaluate_files import join, write_evaluation
    from trtbench.workflows.measure.failure import refuse_failed
    from trtbench.workflows.request.config import open_store

    config = load_config(store=flags["store"])
    store = open_store(config)
    asked = Asked(
        task=flags["task"],
        settings=settings_from_flags(flags["task"], flags, data=flags["data"]),
        limit=flags["limit"],
        warmup=fraction_from_text(flags["warmup"]),
        flags=side_flags(flags),
        runtimes=flags["runtime"] or (None,),
        pythons=flags["python"] or (None,),
    )
    refuse_unwritable(flags["output"])
    with Talk("eval") as talk:
        evaluation = run_evaluation(
            models, store=store, config=config, asked=asked, output=flags["output"],
            conduct=conduct_from_flags(flags, config.defaults.timeout, talk), runs=flags["runs"],
        )  # fmt: skip
    evaluation = join(evaluation, store, runs=flags["runs"])
    paths = write_evaluation(evaluation, flags["output"])
    _show(evaluation, flags)
    say(f"written {', '.join(str(path) for path in paths)}")
    for label, ids in evaluation.joined.items():
        say(f"{label}: joined to {', '.join(ids[:5])}{' ...' if len(ids) > 5 else ''}")
    refuse_failed(evaluation.failed, what="not all models could be evaluated")


def _show(evaluation: Evaluation, flags: dict[str, Any]) -> None:
    if flags["as_json"]:
        from trtbench.domain.codec import json_from_value

        click.echo(json_from_value(evaluation).decode(), nl=False)
        return
    from trtbench.cli._screen import show
    from trtbench.report.documents.evaluation import document_from_evaluation

    document = document_from_evaluation(evaluation, rows=SHOWN_ROWS)
    show(document.with_figures(()))
