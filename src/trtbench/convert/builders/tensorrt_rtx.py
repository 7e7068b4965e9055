"""Builds engines with TensorRT-RTX, without a GPU: kernels are chosen when the engine runs."""

import importlib.util
from functools import partial

from trtbench.convert.builders import _python_api
from trtbench.core.spec import BuildSpec
from trtbench.host.machine import library_versions
from trtbench.host.tensorrt import INSTALL

LIBRARY = "tensorrt_rtx"
CHOSEN = 3
TIMING_CACHE = False  # kernels are chosen when the engine runs; there is nothing to time

command_lines = partial(_python_api.dry_run_lines, flavour="tensorrt_rtx")
build = partial(_python_api.build, flavour="tensorrt_rtx")


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
