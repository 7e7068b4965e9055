"""What models are called beside one another: as their files, or Vanilla and TRT fp16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trtbench.domain.result import Scalar
from trtbench.domain.spec import RunSpec
from trtbench.runtimes import RUNTIMES


def vanilla_name(
    runtime: str, precision: str | None, *, engine: str | None = None,
    options: Mapping[str, Scalar] | None = None,
) -> str:  # fmt: skip
    """Call a model as ArtTRT does: PyTorch is Vanilla, engines are TRT, with their kind if told."""
    formats = RUNTIMES.load(runtime).FORMATS if runtime in RUNTIMES.names() else ()
    if "torch" in formats:
        plain = precision in (None, "fp32", "tf32")
        parts = ["Vanilla", *([] if plain else [str(precision)])]
    elif "engine" in formats:
        parts = ["TRT", f"{precision or 'as it is'}{f'-{engine}' if engine else ''}"]
    else:
        parts = [runtime, *([precision] if precision else [])]
    return " ".join([*parts, *(f"{key}={value}" for key, value in (options or {}).items())])


def told_apart(names: Sequence[str], specs: Sequence[RunSpec]) -> list[str]:
    """Tell models of the same name apart: by runtime, file or folder, else by their number."""
    pairs = list(zip(names, specs, strict=True))
    by_runtime = [f"{name} ({spec.runtime})" for name, spec in pairs]
    by_file = [f"{spec.model.name} {name}" for name, spec in pairs]
    by_folder = [f"{Path(spec.model.path).parent.name}/{name}" for name, spec in pairs]
    numbered = [f"{name} {place}" for place, name in enumerate(by_runtime, start=1)]
    ways = (list(names), by_runtime, by_file, by_folder, numbered)
    return next(way for way in ways if len(set(way)) == len(names))
