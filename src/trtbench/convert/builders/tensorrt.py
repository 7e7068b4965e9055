"""Builds engines with TensorRT's Python API (8.6 to 11), on the GPU they are for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.core.jobs import BuildOutcome, Stage
from trtbench.core.spec import BuildSpec
from trtbench.host.machine import library_versions
from trtbench.host.tensorrt import INSTALL
from trtbench.host.tensorrt_build import driver_problem

if TYPE_CHECKING:
    from trtbench.convert.builders._precision import PrecisionStep


LIBRARY = "tensorrt"
CHOSEN = 2


def available() -> str | None:
    if importlib.util.find_spec("tensorrt") is None:
        return "tensorrt is not installed in this interpreter"
    return driver_problem()


def fix() -> str | None:
    return INSTALL["tensorrt"]


def tools() -> dict[str, str]:
    return library_versions(("tensorrt",))


def device(spec: BuildSpec) -> str:
    return "cuda:0"  # alone: it times kernels


def command_lines(spec: BuildSpec) -> list[str]:
    from trtbench.convert.builders._python_api import plan_lines

    return plan_lines(spec, flavour="tensorrt")


def step_ahead(spec: BuildSpec) -> PrecisionStep | None:
    from trtbench.convert.builders._python_api import ahead_of

    return ahead_of(spec)


def build(spec: BuildSpec, *, folder: Path, stage: Stage) -> BuildOutcome:
    from trtbench.convert.builders._python_api import build

    return build(spec, folder=folder, stage=stage, flavour="tensorrt")
