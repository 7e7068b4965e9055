"""``trtbench schema``: what ``--json`` prints, and what files hold, as JSON Schema."""

from __future__ import annotations

import click


@click.command("schema", short_help="Print the JSON Schema of what a verb's --json prints.")
@click.argument("verb", nargs=-1)
def command(verb: tuple[str, ...]) -> None:
    """Print the JSON Schema of what VERB prints with --json, or of a file such as run.json.

    Without one, name those there are.

    \b
    Examples:
      trtbench schema
      trtbench schema bench
      trtbench schema runs show
      trtbench schema run.json
    """
    from trtbench.cli._outputs import FILES, OUTPUTS, schema_of
    from trtbench.cli._screen import print_json
    from trtbench.errors import UsageError, near_miss

    name = " ".join(verb)
    if not name:
        click.echo("\n".join([*OUTPUTS, *FILES]))
        return
    if name not in OUTPUTS and name not in FILES:
        guess = near_miss(name, [*OUTPUTS, *FILES])
        raise UsageError(
            f"{name!r} prints no JSON document",
            fix=f"trtbench schema {guess}" if guess else "trtbench schema",
        )
    print_json(schema_of(name))
