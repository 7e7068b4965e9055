"""``trtbench history``: how measurements went over time, and where they changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trtbench.cli._options import json_option, store_option


@click.command("history", short_help="Series of runs over time, and where they changed.")
@click.argument("model", required=False)
@click.option("-r", "--runtime", metavar="NAME", help="Only this runtime.")
@click.option("--tag", metavar="NAME", help="Only runs with this tag.")
@click.option("--since", metavar="DATE", help="Only from this day on: 2026-11-15, today, 7d.")
@click.option("--until", metavar="DATE", help="Only up to and including this day.")
@click.option(
    "--reference", metavar="MODEL",
    help="Show ratios to this model, measured on the same machine within half an hour.",
)  # fmt: skip
@click.option("--least", type=click.IntRange(min=1), default=2, show_default=True,
              help="Only series of so many runs.")  # fmt: skip
@click.option("--changes", "only_changes", is_flag=True, help="Only series that changed.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write a report here.")
@click.option("--format", "formats", default="html,md,json", show_default=True, metavar="LIST",
              help="Of the report.")  # fmt: skip
@store_option
@json_option
def command(model: str | None, **flags: Any) -> None:
    """Show series of runs over time: same model, runtime, precision, shape and machine.

    \b
    A change of level is marked with what changed around it (library versions, driver, the
    model's bytes). It needs 2 % or more, p below 0.001 and five runs on each side, and is
    confirmed when two further runs agree.
    \b
    Examples:
      trtbench history resnet18 --since 30d
      trtbench history --changes -o artifacts/history
      trtbench history model.onnx --reference reference.onnx
      trtbench gate model.onnx --baseline best --max-slowdown 3%
    """
    from msgspec.structs import replace

    from trtbench.cli._screen import say, show
    from trtbench.cli._settings import load_config
    from trtbench.domain.codec import json_from_value
    from trtbench.report.documents.history import document_from_series
    from trtbench.workflows.request.config import open_store
    from trtbench.workflows.stored.history import History, read_history, write_history

    store = open_store(load_config(store=flags["store"]))
    names = ("runtime", "tag", "since", "until", "reference", "least")
    found = read_history(store, model=model, **{name: flags[name] for name in names})
    if flags["only_changes"]:
        kept = tuple(each for each in found.series if each.changes)
        found = History(series=kept, left_out=found.left_out)
    if flags["as_json"]:
        document = {"series": found.series, "left_out": found.left_out}
        click.echo(json_from_value(document).decode(), nl=False)
    elif found.series:
        show(replace(document_from_series(found.series), title="").with_figures(()))
    for why, count in found.left_out.items():
        say(f"{count} runs left out: {why}")
    if not found.series:
        say("no series; see: trtbench runs")
    elif flags["output"] is not None:
        formats = [part.strip() for part in flags["formats"].split(",") if part.strip()]
        paths = write_history(found, flags["output"], formats=formats)
        say(f"written: {', '.join(map(str, paths))}")
