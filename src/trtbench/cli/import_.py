"""``trtbench import``: runs from what trtexec and other tools left behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtbench.cli._options import dry_run_option, json_option, store_option
from trtbench.errors import EXIT_FAILED

if TYPE_CHECKING:
    from trtbench.workflows.importing.run import ImportResult


@click.command("import", short_help="Make runs of what trtexec (TensorRT 5 to 11) left behind.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--batch", type=click.IntRange(min=1), help="Items in one query, whatever is on record."
)
@click.option(
    "--engine", type=click.Path(path_type=Path), help="The engine that was run; it is hashed."
)
@click.option(
    "--warmup", metavar="TIME", help="Length of the warm-up to leave out, whatever the log says."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="DIR",
    help="Also write the trtexec evaluation toolkit's files of the one run here.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Import files that were imported before.")
@click.option("--pictures/--no-pictures", default=True, help="Draw the layers (about 1 s a run).")
@click.option("--gpu", metavar="NAME", help="The GPU it ran on, where no log tells.")
@click.option("--tensorrt", metavar="VERSION", help="The version of TensorRT, such as 8.5.")
@click.option("--date", metavar="DAY", help="When it was measured, such as 2024-05-17.")
@click.option("--precision", metavar="NAME", help="The precision of the engine, such as fp16.")
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="Tag the runs.")
@store_option
@json_option
@dry_run_option
@click.pass_context
def command(context: click.Context, /, **flags: Any) -> None:
    """Make runs of what trtexec (TensorRT 5 to 11) and other tools left behind.

    PATH is a file, a folder or a pattern: exported times, profiles, layer information, logs,
    metadata, and the result files of toolkits. What belongs together becomes one run.

    \b
    Examples:
      trtbench import times.json profile.json trtexec_stdout.log
      trtbench import results/ --tag nightly
      trtbench import 'results/*.times.json' --warmup 500ms --batch 8
      trtbench import old-run/ --dry-run
    """
    from trtbench.cli._screen import Talk, say
    from trtbench.cli._settings import load_config
    from trtbench.store.place import is_url
    from trtbench.units import seconds_from_text
    from trtbench.workflows.importing.run import import_artefacts
    from trtbench.workflows.request.config import open_store

    warmup = flags["warmup"]
    warmup_s = seconds_from_text(warmup) if warmup else None
    config = load_config(store=flags["store"])
    is_there = is_url(config.store) or Path(config.store).exists()
    store = open_store(config) if is_there or not flags["dry_run"] else None
    stated = ("batch", "engine", "tags", "gpu", "tensorrt", "date", "precision")
    wanted = (*stated, "again", "dry_run", "output", "pictures")
    with Talk("import") as talk:
        result = import_artefacts(
            flags["paths"],
            store=store,
            warmup_s=warmup_s,
            listen=talk,
            **{name: flags[name] for name in wanted},
        )
    for warning in result.warnings:
        say(f"warning: {warning}")
    _show(result, as_json=flags["as_json"])
    if result.written:
        say(f"{len(result.written)} files in {flags['output']}")
    for line in _summaries(result):
        say(line)
    say(_counts(result, dry_run=flags["dry_run"]))
    if not result.complete or not result.runs:
        context.exit(EXIT_FAILED)


def _show(result: ImportResult, *, as_json: bool) -> None:
    if as_json:
        from trtbench.domain.codec import json_from_value

        click.echo(json_from_value(_document(result)).decode(), nl=False)
        return
    from trtbench.cli._screen import show
    from trtbench.report.documents.importing import document_from_import

    show(document_from_import(result))


def _summaries(result: ImportResult) -> list[str]:
    """Say how many summaries were seen and became runs; a difference is named."""
    if not result.summaries:
        return []
    seen = "1 summary" if result.summaries == 1 else f"{result.summaries} summaries"
    runs = "1 run" if result.summary_runs == 1 else f"{result.summary_runs} runs"
    return [f"{seen} seen, {runs} made of them", *(f"  not a run: {each}" for each in result.lost)]


def _counts(result: ImportResult, *, dry_run: bool) -> str:
    known = sum(each.known_as is not None for each in result.runs)
    fresh = len(result.runs) - known
    runs = "run" if fresh == 1 else "runs"
    said = f"{fresh} {runs} would be imported" if dry_run else f"{fresh} {runs} imported"
    if known:
        said += f", {known} known already (--again imports them once more)"
    count = len(result.unused)
    return f"{said}, {count} {'file' if count == 1 else 'files'} not used"


def _document(result: ImportResult) -> dict[str, object]:
    from trtbench.workflows.importing.find import plain

    return {
        "runs": [
            {
                "record": each.record,
                "path": each.path and str(each.path),
                "known_as": each.known_as,
                "samples": each.samples,
                "median_s": each.median_s,
                "median_of": each.median_of,
                "files": [plain(path) for path in each.files],
            }
            for each in result.runs
        ],
        "unused": result.unused,
        "warnings": result.warnings,
        "summaries": result.summaries,
        "summary_runs": result.summary_runs,
        "lost": result.lost,
        "written": [str(path) for path in result.written],
    }
