"""Builds engines with TensorRT-RTX, which needs no GPU: kernels are chosen where it runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.domain.job import BuildOutcome, Stage
from trtbench.domain.spec import BuildSpec
from trtbench.host.tensorrt import INSTALL
from trtbench.host.versions import library_versions

if TYPE_CHECKING:
    from trtbench.build.builders._precision import PrecisionStep

LIBRARY = "tensorrt_rtx"
CHOSEN = 3
TIMING_CACHE = False
"""Kernels are chosen when the engine runs; there is nothing to time."""


def available() -> str | None:
    if importlib.util.find_spec("tensorrt_rtx") is None:
        return "tensorrt_rtx is not installed in this interpreter"
    return None


def fix() -> str | None:
    return INSTALL["tensorrt_rtx"]


def tools() -> dict[str, str]:
    return library_versions(("tensorrt-rtx",))


def device(spec: BuildSpec) -> str:
    return "cpu"


def command_lines(spec: BuildSpec) -> list[str]:
    from trtbench.build.builders._plan import plan_lines

    return plan_lines(spec, flavour="tensorrt_rtx")


def step_ahead(spec: BuildSpec) -> PrecisionStep | None:
    """Tell what is done to the model in another interpreter, before this one is started."""
    from trtbench.build.builders._plan import ahead_of

    return ahead_of(spec)


def build(spec: BuildSpec, *, folder: Path, stage: Stage) -> BuildOutcome:
    """Build one engine; log and layers are left in the folder."""
    from trtbench.build.builders._python_api import build

    return build(spec, folder=folder, stage=stage, flavour="tensorrt_rtx")
