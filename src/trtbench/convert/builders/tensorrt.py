"""Builds engines with the Python API of TensorRT 8.6 to 11, on the GPU that will run them."""

import importlib.util
from functools import partial

from trtbench.convert.builders import _python_api
from trtbench.core.spec import BuildSpec
from trtbench.host.machine import library_versions
from trtbench.host.tensorrt import INSTALL, driver_problem

LIBRARY = "tensorrt"
CHOSEN = 2

command_lines = partial(_python_api.dry_run_lines, flavour="tensorrt")
build = partial(_python_api.build, flavour="tensorrt")


def available() -> str | None:
    if importlib.util.find_spec("tensorrt") is None:
        return "tensorrt is not installed in this interpreter"
    return driver_problem()


def fix() -> str | None:
    return INSTALL["tensorrt"]


def tools() -> dict[str, str]:
    return library_versions(("tensorrt",))


def device(spec: BuildSpec) -> str:
    return "cuda:0"  # locked, because the build times kernels
