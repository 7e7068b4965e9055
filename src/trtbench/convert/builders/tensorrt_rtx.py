"""Builds engines with TensorRT-RTX, which needs no GPU: kernels are chosen where it runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.core.jobs import BuildOutcome, Stage
from trtbench.core.spec import BuildSpec
from trtbench.host.machine import library_versions
from trtbench.host.tensorrt import INSTALL

if TYPE_CHECKING:
    from trtbench.convert.builders._precision import PrecisionStep

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
    from trtbench.convert.builders._python_api import plan_lines

    return plan_lines(spec, flavour="tensorrt_rtx")


def step_ahead(spec: BuildSpec) -> PrecisionStep | None:
    from trtbench.convert.builders._python_api import ahead_of

    return ahead_of(spec)


def build(spec: BuildSpec, *, folder: Path, stage: Stage) -> BuildOutcome:
    from trtbench.convert.builders._python_api import build

    return build(spec, folder=folder, stage=stage, flavour="tensorrt_rtx")
