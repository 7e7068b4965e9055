"""Flags and ends of the verbs about layers: how many, what is expected, where to write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._options import stack
from trtbench.host.files import write_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trtbench.analysis.layers.columns import Row
    from trtbench.domain.comparison import GateResult
    from trtbench.report.document import Document

top_options = stack(
    click.option(
        "--top",
        type=click.IntRange(min=1),
        default=20,
        show_default=True,
        help="Show so many layers.",
    ),
    click.option("--all", "show_all", is_flag=True, help="Show all layers."),
)

write_options = stack(
    click.option("--csv", "as_csv", is_flag=True, help="Print all rows as CSV."),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write all rows to FILE.csv, .json or .parquet.",
    ),
)

draw_option = click.option(
    "--draw",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the layers as FILE.svg, to be opened in a browser.",
)

expect_options = stack(
    click.option(
        "--expect",
        "expectations",
        multiple=True,
        metavar="RULE",
        help="'count(Einsum)>=1', 'share(precision=int8)>=80%', 'jitter<5%'; else status 3.",
    ),
    click.option(
        "--junit",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write what was expected as JUnit XML.",
    ),
)


def present(
    document: Document, rows: Sequence[Row], *, output: Path | None, as_csv: bool, as_json: bool
) -> None:
    """Print a document as asked, and write its rows where asked."""
    from trtbench.cli._screen import say, show
    from trtbench.workflows.explain.layers import csv_of, write_rows

    if output:
        say(f"written: {write_rows(rows, output)}")
    if as_csv and not as_json:
        click.echo(csv_of(rows), nl=False)
    else:
        show(document, as_json=as_json)


def hold(
    results: Sequence[GateResult], *, junit: Path | None, suite: str, err: bool = False
) -> None:
    """Say what was expected and what is; leave with status 3 when anything is not met."""
    from trtbench.analysis.gate import passed
    from trtbench.analysis.gate_report import junit_from_results
    from trtbench.cli._screen import show_blocks
    from trtbench.errors import EXIT_BROKEN
    from trtbench.report.documents.gate import rule_table

    if not results:
        return
    if junit:
        write_output(junit, junit_from_results(results, suite=suite))
    show_blocks([rule_table(results)], err=err)
    if not passed(results):
        click.get_current_context().exit(EXIT_BROKEN)
