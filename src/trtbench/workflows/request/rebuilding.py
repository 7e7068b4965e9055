"""What is asked of the verbs that build one network several times: lottery and upgrade."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from trtbench.workflows.request.fields import Argument, VerbRequest, converted, option
from trtbench.workflows.request.groups import QueryFields, StoreFields, TagFields, WaitFields
from trtbench.workflows.request.kinds import FILE, TIME, Duration, File
from trtbench.workflows.request.making import (
    BuildRequest,
    MakingFields,
    MakingTimeFields,
    RecipeFields,
)


@dataclass(frozen=True, kw_only=True)
class DrawFields(VerbRequest):
    """How often is built, and how each engine is measured."""

    builds: int = option(5, "How many engines to build.", metavar="N", least=2)
    launches: int = option(3, "Fresh processes to measure each engine in.", metavar="N", least=1)
    duration: Duration = option("1s", "Least measured time of a launch.", kind=TIME, metavar="TIME")
    random: int = option(16, "Random inputs to compare outputs on.", least=1)
    resume: bool = option(
        False, "Keep engines of the same command that an earlier try left in the folder."
    )


@dataclass(frozen=True, kw_only=True)
class LotteryRequest(
    DrawFields, RecipeFields, QueryFields, MakingFields, WaitFields, TagFields,
    StoreFields,
):  # fmt: skip
    """Build the same engine several times and say in what the builds differ."""

    model: Annotated[File, Argument("An ONNX file.", "MODEL", kind=FILE)]
    output: File | None = option(
        None, "Folder of the engines (default: MODEL.builds).", ("-o", "--output"), kind=FILE
    )


def lottery_from_build(request: BuildRequest) -> LotteryRequest:
    """Have an engine built several times instead of once; what was its name is a folder now."""
    folder = request.output and Path(request.output).with_suffix(".builds")
    return converted(
        request, LotteryRequest, model=request.model, output=folder, builds=request.times
    )


@dataclass(frozen=True, kw_only=True)
class UpgradeRequest(
    DrawFields, RecipeFields, QueryFields, MakingTimeFields, WaitFields, TagFields,
    StoreFields,
):  # fmt: skip
    """Build one network with two versions of TensorRT and hold the engines against each other."""

    old: Annotated[File, Argument("The version in use: NAME=INTERPRETER.", "OLD=PYTHON")]
    new: Annotated[File, Argument("The version to change to.", "NEW=PYTHON")]
    model: Annotated[File, Argument("An ONNX file.", "MODEL", kind=FILE)]
    data: File | None = option(
        None, "Take the accuracy of both on these, as --task has it.", metavar="PATH"
    )
    output: File | None = option(
        None, "Folder of the engines (default: MODEL.upgrade).", ("-o", "--output"), kind=FILE
    )
