"""``trtbench schema``: what ``--json`` prints, as JSON Schema."""

from __future__ import annotations

import click


@click.command("schema", short_help="Print the JSON Schema of what a verb's --json prints.")
@click.argument("verb", nargs=-1)
def command(verb: tuple[str, ...]) -> None:
    """Print the JSON Schema of what VERB prints with --json; without one, name those there are.

    \b
    Examples:
      trtbench schema
      trtbench schema bench
      trtbench schema runs show
    """
    from trtbench.cli._outputs import OUTPUTS, schema_of
    from trtbench.domain.codec import json_from_value
    from trtbench.errors import UsageError, near_miss

    name = " ".join(verb)
    if not name:
        click.echo("\n".join(OUTPUTS))
        return
    if name not in OUTPUTS:
        guess = near_miss(name, list(OUTPUTS))
        raise UsageError(
            f"{name!r} prints no JSON document",
            fix=f"trtbench schema {guess}" if guess else "trtbench schema",
        )
    click.echo(json_from_value(schema_of(name)).decode(), nl=False)
