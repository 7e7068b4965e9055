"""``trtbench trust``: let settings count that belong to another user."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.boundary import clean_line


@click.command("trust", short_help="Let a trtbench.toml count that belongs to another user.")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--remove", is_flag=True, help="Take it back.")
def command(path: Path | None, *, remove: bool) -> None:
    """Let the settings of a project count though another user owns or can change them.

    A trtbench.toml can name an interpreter that is then run under your name, so files of others
    are refused, as git does. Read the file first. Without PATH, list what is trusted.

    \b
    Examples:
      trtbench trust /srv/team/project
      trtbench trust --remove /srv/team/project
      trtbench trust
    """
    from trtbench.errors import UsageError
    from trtbench.workflows.request.trust import distrust_settings, trust_settings, trusted_settings

    if path is None:
        if remove:
            raise UsageError("--remove needs a path", fix="trtbench trust --remove PATH")
        names = trusted_settings()
        for name in names:
            click.echo(name)
        if not names:
            click.echo("nothing of other users is trusted", err=True)
        return
    if remove:
        found = distrust_settings(path)
        click.echo(clean_line(f"{path} is {'no longer' if found else 'not'} trusted"))
        return
    click.echo(clean_line(f"{trust_settings(path)} is trusted from now on"))
