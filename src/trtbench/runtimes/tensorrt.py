"""Runs TensorRT engines in the worker's process, through TensorRT's Python API."""

from functools import partial

from trtbench.host.tensorrt import Flavour
from trtbench.runtimes import _trt_session as _trt_bench
from trtbench.runtimes._loop import bench_session

FORMATS = ("engine",)
CHOSEN_FOR = {"engine": 1}
FLAVOUR: Flavour = "tensorrt"
EXECUTES_ENGINES = True
OPTIONS = _trt_bench.OPTIONS
TRAVELS = _trt_bench.TRAVELS

available = partial(_trt_bench.available, FLAVOUR)
fix = partial(_trt_bench.fix, FLAVOUR)
device = _trt_bench.device
open_session = partial(_trt_bench.open_session, flavour=FLAVOUR)
bench = partial(bench_session, open_session)
check = partial(_trt_bench.check, flavour=FLAVOUR)
load_library = partial(_trt_bench.load_library, FLAVOUR)
bursts = _trt_bench.bursts
early_context = _trt_bench.early_context
