"""The request of a sweep."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trtbench.core.errors import UsageError
from trtbench.core.words import Scalar
from trtbench.requests.fields import (
    FILE,
    LIST,
    TIME,
    WRITTEN_HERE,
    Duration,
    File,
    Kind,
    VerbRequest,
    argument,
    option,
    words_from_text,
)
from trtbench.requests.groups import (
    ExecutorFields,
    MemoryFields,
    SourceFields,
    StoreFields,
    TagFields,
    TaskFields,
    TimeoutFields,
)

Values = str | int | Sequence[Scalar]
"""Values of an axis: a list, one value, or text with commas."""
Axes = Mapping[str, Sequence[Scalar]]
Excluded = Sequence[Mapping[str, Scalar]]
OpenShapes = Mapping[str, Sequence[int | str]]
"""Shapes by input; a text in one is the name of an axis."""


def axes_from_flags(flags: Sequence[str]) -> dict[str, Sequence[Scalar]]:
    """Read ``threads=1,2``."""
    axes: dict[str, Sequence[Scalar]] = {}
    for text in flags:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise UsageError(f"--axis {text} cannot be read", fix="write it like threads=1,2,4")
        axes[name.strip().replace("-", "_")] = scalars(values)
    return axes


def open_shapes_from_flags(flags: Sequence[str]) -> dict[str, tuple[int | str, ...]]:
    """Read ``x:1x3x64x25xM``; dimensions that are no numbers are names of axes."""
    found: dict[str, tuple[int | str, ...]] = {}
    for text in flags:
        name, colon, dims = text.rpartition(":")
        words = dims.split("x")
        if not colon or not all(re.fullmatch(r"[1-9]\d*|[A-Za-z_]\w*", word) for word in words):
            raise UsageError(
                f"--shape {text} cannot be read", fix="write it like input:1x3x224x224"
            )
        found[name] = tuple(int(word) if word.isdecimal() else word for word in words)
    return found


def excluded_from_flags(flags: Sequence[str]) -> list[dict[str, Scalar]]:
    """Read ``runtime=torch,precision=int8``."""
    found = []
    for text in flags:
        pairs = dict(part.partition("=")[::2] for part in words_from_text(text))
        if not all(pairs.values()):
            raise UsageError(f"--exclude {text} cannot be read", fix="runtime=torch,precision=int8")
        found.append({name: scalar(value) for name, value in pairs.items()})
    return found


def scalars(values: Values) -> list[Scalar]:
    """Take the values of an axis apart, numbers as numbers; an axis that was not given has none."""
    if values is None:
        return []
    if isinstance(values, str):
        return [scalar(part) for part in words_from_text(values)]
    return list(values) if isinstance(values, Sequence) else [values]


def scalar(text: str) -> Scalar:
    """Read a number, true or false, or else a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


AXES = Kind(metavar="NAME=LIST", python="lists of values by name", read=axes_from_flags)
OPEN_SHAPES = Kind(
    metavar="NAME:1x3xHxW",
    python="dimensions by the name of the input; a text is the name of an axis",
    read=open_shapes_from_flags,
)
EXCLUDED = Kind(
    metavar="NAME=VALUE,...", python="mappings of names to values", read=excluded_from_flags
)


@dataclass(frozen=True, kw_only=True)
class AxisFields(VerbRequest):
    """What is varied."""

    preset: str | None = option(None, "classification, depth, pose or stgcn.", metavar="NAME")
    precision: Values = option((), "fp32,fp16,int8; as-is takes the file's own.", kind=LIST)
    batch: Values = option((), "Batch sizes: 1,32,64.", kind=LIST)
    runtime: Values = option(
        (), "What executes: onnxruntime,tensorrt.", ("-r", "--runtime"), kind=LIST
    )
    engine: Values = option((), "static: one per batch; dynamic: one for all.", kind=LIST)
    axis: Axes = option(
        {},
        "Another axis: a flag of bench, opt.KEY, build.KEY or a dimension, shape.NAME; "
        "repeat for several.",
        kind=AXES,
    )
    exclude: Excluded = option((), "Leave out the cases that have all these values.", kind=EXCLUDED)
    rounds: int | None = option(None, "Measure every case so often, in turn (default 1).")
    seed: int | None = option(None, "Of the order within rounds (default 0).")
    launches: Values = option((), "Fresh processes of each measurement.", kind=LIST)
    duration: Values = option((), "Least measured time.", kind=LIST)


@dataclass(frozen=True, kw_only=True)
class AccuracyFields(VerbRequest):
    """What accuracies are taken on, outputs are compared on, and INT8 is calibrated with."""

    data: File | None = option(
        None, "Take accuracies on this, as eval --data.", metavar="PATH", travels="data"
    )
    task: str | None = option(
        None,
        "Of eval, for --data (default: classification); adds its flags (see --task NAME --help).",
        metavar="NAME",
    )
    inputs: File | None = option(
        None,
        "Measure on these arrays, or on an image as the task prepares it.",
        metavar="FILE",
        travels="file",
    )
    calibration: File | None = option(
        None, "For INT8: images, .npz or random.", metavar="DATA", travels="calibration"
    )
    shapes: OpenShapes = option(
        {},
        "Shape of an input that is open in more than its batch; a letter is an axis: "
        "x:1x3x64x25xM.",
        ("--shape",),
        kind=OPEN_SHAPES,
    )
    input_shape: Sequence[str] = option(
        (), "PyTorch's: -1x3x224x224; a letter is an axis: x:-1x3x64x25xM.", metavar="SHAPE"
    )


@dataclass(frozen=True, kw_only=True)
class ResultFields(TimeoutFields):
    """What becomes of it."""

    resume: File | None = option(
        None,
        "Go on with the sweep in this folder.",
        kind=FILE,
        metavar="DIR",
        stays="the folder is on the machine that asks",
    )
    retry_failed: bool = option(False, "With --resume: try again what failed.")
    output: File | None = option(
        None, "Folder of the sweep.", ("-o", "--output"), kind=FILE, stays=WRITTEN_HERE
    )
    names: Literal["case", "vanilla"] | None = option(
        None, "Call rows by runtime and precision, or Vanilla and TRT fp16, as ArtTRT does."
    )
    timeout: Duration | None = option(
        None, "Give up on a launch or a step after this long.", kind=TIME
    )


@dataclass(frozen=True)
class SweepRequest(
    AxisFields, AccuracyFields, TaskFields, SourceFields, ResultFields, MemoryFields,
    TagFields, ExecutorFields, StoreFields,
):  # fmt: skip
    """Measure every case of a matrix: models, or a file of TOML or YAML that says it all."""

    models: Sequence[File | Mapping[str, object]] = argument(
        (),
        "Models, or a file that describes a matrix.",
        "[MODELS]...",
        needed=False,
        travels="model",
    )
