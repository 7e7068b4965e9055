"""How exports, casts and quantizations are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from trtbench.domain.conversion import Sidecar


def show_conversion(sidecar: Sidecar, output: Path, *, as_json: bool) -> None:
    """Print what was made and how far it is from its source; talk goes to stderr."""
    from trtbench.cli._screen import print_json, say, show
    from trtbench.report.documents.artefact import document_from_conversion

    if as_json:
        import msgspec

        from trtbench.cli._outputs import ConversionOutput

        print_json(ConversionOutput(path=str(output), **msgspec.structs.asdict(sidecar)))
        return
    show(document_from_conversion(sidecar, size_bytes=output.stat().st_size))
    say(f"wrote {output}")
