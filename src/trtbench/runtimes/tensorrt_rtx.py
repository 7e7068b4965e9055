"""Runs TensorRT-RTX engines in the worker's process, through its Python API."""

from functools import partial

from trtbench.host.tensorrt import Flavour
from trtbench.runtimes import _trt_session as _trt_bench
from trtbench.runtimes._loop import bench_session
from trtbench.runtimes._trt_session import TRAVELS, bursts, device, early_context  # noqa: F401

FORMATS = ("engine",)
CHOSEN_FOR = {"engine": 1}
FLAVOUR: Flavour = "tensorrt_rtx"
EXECUTES_ENGINES = True
OPTIONS = {**_trt_bench.OPTIONS, **_trt_bench.RTX_OPTIONS}
CONDITIONS = tuple(_trt_bench.RTX_OPTIONS)

available = partial(_trt_bench.available, FLAVOUR)
fix = partial(_trt_bench.fix, FLAVOUR)
open_session = partial(_trt_bench.open_session, flavour=FLAVOUR)
bench = partial(bench_session, open_session)
check = partial(_trt_bench.check, flavour=FLAVOUR)
load_library = partial(_trt_bench.load_library, FLAVOUR)
