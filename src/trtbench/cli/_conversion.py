"""How exports, casts and quantizations are shown, and carried out from their flags."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from trtbench.cli._options import stack

if TYPE_CHECKING:
    from pathlib import Path

    from trtbench.domain.conversion import Sidecar

conduct_options = stack(
    click.option("--python", metavar="PATH", help="Work in another Python interpreter."),
    click.option("--timeout", metavar="TIME", help="Give up after this long, e.g. 30min."),
)


def conduct_from_flags(flags: dict[str, Any], config: Any, *, runtime: str, listen: Any) -> Any:
    """How the job is carried out; ``runtime`` names the interpreter in the configuration."""
    from trtbench.units import seconds_from_text
    from trtbench.workflows.request.conduct import Conduct

    return Conduct(
        python=flags["python"] or config.python_for(runtime),
        timeout_s=seconds_from_text(flags["timeout"]) if flags["timeout"] else None,
        command=shlex.join(["trtbench", *sys.argv[1:]]),
        listen=listen,
    )


def show_conversion(sidecar: Sidecar, output: Path, *, as_json: bool) -> None:
    """Print what was made and how far it is from its source; talk goes to stderr."""
    from trtbench.cli._screen import say, show
    from trtbench.report.documents.artefact import document_from_conversion

    if as_json:
        from trtbench.domain.codec import json_from_value

        click.echo(json_from_value({"path": str(output), **_fields(sidecar)}).decode(), nl=False)
        return
    show(document_from_conversion(sidecar, size_bytes=output.stat().st_size))
    say(f"wrote {output}")


def _fields(sidecar: Sidecar) -> dict[str, Any]:
    import msgspec

    return msgspec.structs.asdict(sidecar)
