"""How exports, casts and quantizations are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pathlib import Path

    from trtbench.domain.conversion import Sidecar


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
