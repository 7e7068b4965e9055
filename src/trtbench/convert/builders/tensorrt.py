"""Builds engines with the Python API of TensorRT 8.6 to 11, on the GPU that will run them."""

from functools import partial

from trtbench.convert.builders import _python_api
from trtbench.core.spec import BuildSpec
from trtbench.host.machine import library_versions
from trtbench.host.tensorrt import INSTALL

LIBRARY = "tensorrt"
CHOSEN = 2

available = partial(_python_api.available, "tensorrt")
fix = partial(INSTALL.get, "tensorrt")
tools = partial(library_versions, ("tensorrt",))
command_lines = partial(_python_api.dry_run_lines, flavour="tensorrt")
build = partial(_python_api.build, flavour="tensorrt")


def device(spec: BuildSpec) -> str:
    return spec.device or "cuda:0"  # locked, because the build times kernels
