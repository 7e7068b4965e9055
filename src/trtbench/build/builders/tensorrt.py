"""Builds engines with TensorRT's Python API (8.6 to 11), on the GPU they are for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.domain.job import BuildOutcome, Stage
from trtbench.domain.spec import BuildSpec
from trtbench.host.tensorrt import INSTALL
from trtbench.host.tensorrt_device import driver_problem
from trtbench.host.versions import library_versions

if TYPE_CHECKING:
    from trtbench.build.builders._precision import PrecisionStep


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
    """Name the device, which building needs for itself: it times kernels."""
    return "cuda:0"


def command_lines(spec: BuildSpec) -> list[str]:
    from trtbench.build.builders._plan import plan_lines

    return plan_lines(spec, flavour="tensorrt")


def step_ahead(spec: BuildSpec) -> PrecisionStep | None:
    """Tell what is done to the model in another interpreter, before this one is started."""
    from trtbench.build.builders._plan import ahead_of

    return ahead_of(spec)


def build(spec: BuildSpec, *, folder: Path, stage: Stage) -> BuildOutcome:
    """Build one engine; log and layers are left in the folder."""
    from trtbench.build.builders._python_api import build

    return build(spec, folder=folder, stage=stage, flavour="tensorrt")
