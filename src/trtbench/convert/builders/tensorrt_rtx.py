"""Builds engines with TensorRT-RTX, without a GPU: kernels are chosen when the engine runs."""

from functools import partial

from trtbench.convert.builders import _python_api
from trtbench.core.spec import BuildSpec
from trtbench.host.machine import library_versions
from trtbench.host.tensorrt import INSTALL

LIBRARY = "tensorrt_rtx"
CHOSEN = 3
TIMING_CACHE = False  # kernels are chosen when the engine runs; there is nothing to time

available = partial(_python_api.available, "tensorrt_rtx")
fix = partial(INSTALL.get, "tensorrt_rtx")
tools = partial(library_versions, ("tensorrt-rtx",))
command_lines = partial(_python_api.dry_run_lines, flavour="tensorrt_rtx")
build = partial(_python_api.build, flavour="tensorrt_rtx")


def device(spec: BuildSpec) -> str:
    return "cpu"
