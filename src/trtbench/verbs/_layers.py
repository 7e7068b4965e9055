"""What the verbs about layers have in common."""

from __future__ import annotations

from dataclasses import dataclass

from trtbench.requests.fields import FILE, File, VerbRequest, option
from trtbench.verbs._verb import JsonView


@dataclass(frozen=True, kw_only=True)
class EngineSourceFields(VerbRequest):
    """What else is known of an engine."""

    onnx: File | None = option(
        None,
        "The model it was built of, for FLOPs and asked types.",
        kind=FILE,
        stays="read where layers are shown",
    )
    gpu: str | None = option(None, "Take the roofline of this GPU: 'NVIDIA H200'.", metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class LayersView(JsonView):
    """Which layers are shown, and in which form."""

    top: int = option(20, "Show so many layers.", least=1)
    show_all: bool = option(False, "Show all layers.", ("--all",))
    draw: File | None = option(
        None, "Draw the layers as FILE.svg, to be opened in a browser.", kind=FILE
    )
    as_csv: bool = option(False, "Print all rows as CSV.", ("--csv",))

    @property
    def most(self) -> int | None:
        return None if self.show_all else self.top
