"""What ``--dry-run`` prints: the job as a value, then its steps and the commands it would run."""

from __future__ import annotations

from collections.abc import Sequence

import click


def show_job(job: object, lines: Sequence[str] = (), *, as_json: bool) -> None:
    """Print a job; of the lines, those that begin with # are told, the others could be typed."""
    from trtbench.domain.codec import json_from_value

    if not as_json:
        click.echo(json_from_value(job).decode(), nl=False)
        for line in lines:
            click.echo(line)
        return
    steps = [line.removeprefix("# ") for line in lines if line[:1] == "#"]
    commands = [line for line in lines if line[:1] != "#"]
    document = {"job": job, "steps": steps, "commands": commands}
    click.echo(json_from_value(document).decode(), nl=False)
