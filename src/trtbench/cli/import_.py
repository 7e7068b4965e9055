"""``trtbench import``: runs from what trtexec and other tools left behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtbench.cli._options import dry_run_option, json_option, store_option
from trtbench.errors import EXIT_FAILED

if TYPE_CHECKING:
    from trtbench.domain.result import RunRecord
    from trtbench.workflows.importing.run import Imported, ImportResult

MOST_SHOWN = 200
"""Unused files that are listed one by one; the rest are counted, and --json lists them all."""

_SWITCHES = {
    "transfers": ("copies", "no copies"),
    "cuda_graph": ("graph", "no graph"),
    "spin_wait": ("spin", "sleep"),
    "tf32": ("TF32", "no TF32"),
}
_NUMBERS = {"streams": "{} streams", "typing": "{} types", "batch": "batch {}"}
_MARKS = {"stated": "", "implied": "~", "unknown": "?"}


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
    help="Also write toolkit 000's files of the one run here.",
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
    from trtbench.cli._screen import result_console

    console = result_console()
    if result.runs:
        console.print(_runs_table(result))
        console.print("conditions: stated, ~implied by version or data, ?unknown", style="dim")
    if result.unused:
        console.print()
        console.print(_unused_table(result))
        if len(result.unused) > MOST_SHOWN:
            console.print(f"and {len(result.unused) - MOST_SHOWN} more; --json lists all")


def _runs_table(result: ImportResult) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("run", "model", "TensorRT"):
        table.add_column(name, no_wrap=name != "model", overflow="fold")
    for name in ("samples", "median"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("conditions", "files"):
        table.add_column(name, overflow="fold")
    for each in result.runs:
        cells, failed = _cells(each)
        table.add_row(*(Text(cell) for cell in cells), style="red" if failed else None)
    return table


def _cells(each: Imported) -> tuple[tuple[str, ...], bool]:
    """Write one run, and say whether it is one that did not finish."""
    from trtbench.domain.result import FailedRun

    record = each.record
    head = (
        f"{each.known_as} (known)" if each.known_as else record.id,
        record.spec.model.name,
        record.environment.versions.get("tensorrt", "?"),
    )
    files = _names(each)
    if isinstance(record, FailedRun):
        return (*head, "", "failed", record.reason, files), True
    return (*head, str(each.samples), _median(each), _conditions(record), files), False


def _median(each: Imported) -> str:
    """Write the median; one that was only printed is marked, and so is a mean in its place."""
    from trtbench.analysis.reported import reported_headline
    from trtbench.domain.result import RunRecord
    from trtbench.units import text_from_seconds

    if not isinstance(each.record, RunRecord):
        return ""
    if each.samples:
        return text_from_seconds(each.median_s)
    printed = reported_headline(each.record)
    if printed is None:
        return "layers only" if each.median_s is None else "–"
    what = "reported" if printed.statistic == "median" else f"{printed.statistic}, reported"
    return f"{text_from_seconds(printed.seconds)} ({what})"


def _conditions(record: RunRecord) -> str:
    """Write conditions in short, marked by how they are known."""
    parts = [_switch(record, key, *words) for key, words in _SWITCHES.items()]
    for key, form in _NUMBERS.items():
        fact = record.conditions.get(key)
        if fact is not None and fact.value is not None and fact.value != 1:
            parts.append(_MARKS[fact.source] + form.format(fact.value))
    return ", ".join(parts)


def _switch(record: RunRecord, key: str, on: str, off: str) -> str:
    fact = record.conditions.get(key)
    if fact is None or fact.source == "unknown" or fact.value is None:
        return f"{_MARKS['unknown']}{on}"
    return _MARKS[fact.source] + (on if fact.value else off)


def _names(each: Imported) -> str:
    """Name the first file, and what else belongs to it."""
    from trtbench.workflows.importing.find import plain

    rest = ", ".join(part.replace("_", " ") for part in each.parts[1:])
    return plain(each.files[0].name) + (f" + {rest}" if rest else "")


def _unused_table(result: ImportResult) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("not used", overflow="fold")
    table.add_column("why", overflow="fold")
    for each in result.unused[:MOST_SHOWN]:
        style = "yellow" if each.broken or each.named else None
        table.add_row(Text(each.path), Text(each.reason), style=style)
    return table


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
