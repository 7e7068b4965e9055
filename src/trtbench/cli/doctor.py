"""``trtbench doctor``: what works here, and what to type to get what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trtbench.errors import EXIT_UNAVAILABLE

if TYPE_CHECKING:
    from rich.table import Table

    from trtbench.workflows.look.doctor import Diagnosis, Group

_STYLES = {"ok": "green", "missing": "yellow", "broken": "red", "info": "dim"}
_PIPE_COLUMNS = 200


@click.command("doctor", short_help="What works here, and what to type to get the rest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(context: click.Context, *, as_json: bool) -> None:
    """Show what is installed, which runtimes work here, and what to type to get the rest.

    Exit status 4 when no runtime works here.

    \b
    Examples:
      trtbench doctor
      trtbench doctor --json
    """
    from rich.console import Console

    from trtbench.domain.codec import json_from_value
    from trtbench.workflows.look.doctor import diagnose

    with Console(stderr=True).status("looking around"):
        diagnosis = diagnose()
    if as_json:
        click.echo(json_from_value(diagnosis).decode(), nl=False)
    else:
        _show(diagnosis)
    if not diagnosis.working_runtimes:
        context.exit(EXIT_UNAVAILABLE)


def _show(diagnosis: Diagnosis) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        # In a file or a pipe a command to type stays on one line.
        console.width = max(console.width, _PIPE_COLUMNS)
    for group in diagnosis.groups:
        console.print(_table(group))
        console.print()


def _table(group: Group) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=group.name, title_justify="left", title_style="bold", box=None, show_header=False
    )
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in group.checks:
        # Plain Text: a path or a message may hold brackets, which rich would read as markup.
        detail = Text(check.detail)
        if check.origin:
            detail.append(f"  from {check.origin}", style="dim")
        if check.fix:
            detail.append(f"\nfix: {check.fix}", style="bold")
        table.add_row(Text(check.status, style=_STYLES[check.status]), Text(check.name), detail)
    return table
