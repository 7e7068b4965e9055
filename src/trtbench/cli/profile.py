"""``trtbench profile``: which layers the time goes to."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtbench.cli._options import dry_run_option, json_option, measure_options, store_option
from trtbench.errors import UsageError

if TYPE_CHECKING:
    from trtbench.domain.result import Run
    from trtbench.workflows.measure.profile import LayerRow


@click.command("profile", short_help="Time the layers of a model, or show those of a run.")
@click.argument("model")
@click.argument("extra", nargs=-1, type=click.UNPROCESSED)
@measure_options
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Show so many layers, the slowest first.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print all layers as CSV.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for this run.")
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="Name to find the run by.")
@store_option
@json_option
@dry_run_option
def command(**flags: Any) -> None:
    """Time the layers of MODEL, or show those of a stored run.

    MODEL is a file, which is measured and profiled in a pass of its own, or the name of a run.

    \b
    Examples:
      trtbench profile model.engine
      trtbench profile model.engine --top 10 --csv > layers.csv
      trtbench profile last --json
    """
    from trtbench.cli._settings import load_config
    from trtbench.workflows.measure.profile import is_model_file, profile_model, stored_profile
    from trtbench.workflows.request.config import open_store

    config = load_config(store=flags["store"])
    if not is_model_file(flags["model"]) and not _looks_like_file(flags["model"]):
        run = stored_profile(flags["model"], store=open_store(config))
        _show(run, flags)
        return
    from trtbench.cli._screen import Talk, say
    from trtbench.cli.bench import conduct_from_flags, show_plan, spec_from_flags

    if flags["profile"] is False:
        raise UsageError("profile times layers: --no-profile has no meaning here")
    spec = spec_from_flags({**flags, "profile": True}, config)
    if flags["dry_run"]:
        show_plan(spec, as_json=flags["as_json"])
        return
    with Talk(spec.model.name) as talk:
        conduct = conduct_from_flags(flags, config, spec, talk)
        run = profile_model(spec, store=open_store(config), conduct=conduct)
    _show(run, flags)
    for note in run.record.notes:
        say(f"note: {note}")
    say(f"run {run.id} in {run.path}")


def _looks_like_file(name: str) -> bool:
    """A name with a model's ending is a file that is missing, not a run."""
    from trtbench.models.identity import SUFFIXES

    return Path(name).suffix.lower() in SUFFIXES


def _show(run: Run, flags: dict[str, Any]) -> None:
    from trtbench.workflows.measure.profile import layer_rows

    rows = layer_rows(run)
    if flags["as_json"]:
        from trtbench.domain.codec import json_from_value

        count = run.layers.count if run.layers else None
        layers = [_facts(row) for row in rows[: flags["top"]]]
        document = {"run": run.id, "path": str(run.path), "count": count, "layers": layers}
        click.echo(json_from_value(document).decode(), nl=False)
        return
    if flags["as_csv"]:
        click.echo(_csv(rows), nl=False)
        return
    _show_table(run, rows, top=flags["top"])


def _facts(row: LayerRow) -> dict[str, object]:
    layer = row.layer
    return {
        "name": layer.name,
        "type": row.type,
        "precision": row.precision,
        "average_s": layer.average_s,
        "median_s": layer.median_s,
        "total_s": layer.total_s,
        "share": row.share,
    }


def _csv(rows: list[LayerRow]) -> str:
    buffer = io.StringIO(newline="")
    facts = [_facts(row) for row in rows]
    writer = csv.DictWriter(buffer, list(facts[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(facts)
    return buffer.getvalue()


def _show_table(run: Run, rows: list[LayerRow], *, top: int) -> None:
    from rich.table import Table
    from rich.text import Text

    from trtbench.cli._screen import result_console
    from trtbench.report.documents.run import title_of
    from trtbench.units import text_from_fraction, text_from_seconds

    console = result_console()
    console.print(title_of(run), style="bold", markup=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("average", "median", "share", "so far"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("type", "output", "layer"):
        table.add_column(name, overflow="fold")
    so_far = 0.0
    for row in rows[:top]:
        so_far += row.share or 0.0
        table.add_row(
            text_from_seconds(row.layer.average_s),
            text_from_seconds(row.layer.median_s),
            text_from_fraction(row.share, digits=1),
            text_from_fraction(so_far, digits=1),
            row.type or "–",
            row.precision or "–",
            Text(row.layer.name),
        )
    console.print(table)
    sum_s = sum(row.layer.average_s for row in rows)
    count = run.layers.count if run.layers else None
    shown = f"{min(top, len(rows))} of {len(rows)} layers"
    console.print(
        f"{shown}, {text_from_seconds(sum_s)} in sum, averaged over {count or 'unknown'} "
        "inferences; with the profiler attached, layers run one by one",
        markup=False,
    )
