"""Runs TensorRT engines in the worker's own process, through its Python API and one CUDA door."""

from __future__ import annotations

from pathlib import Path

from trtbench.domain.job import BenchOutcome, Stage
from trtbench.domain.samples import IterationTimes
from trtbench.domain.spec import RunSpec
from trtbench.runtimes import _trt_bench
from trtbench.runtimes._trt_session import TrtSession

FORMATS = ("engine",)
CHOSEN_FOR = {"engine": 1}
FLAVOUR = "tensorrt"
EXECUTES_ENGINES = True
OPTIONS = _trt_bench.OPTIONS
"""What ``--opt key=value`` may set."""


def available() -> str | None:
    return _trt_bench.available("tensorrt")


def fix() -> str | None:
    return _trt_bench.fix("tensorrt")


def device(spec: RunSpec) -> str:
    return _trt_bench.device(spec)


def bench(spec: RunSpec, *, folder: Path, stage: Stage) -> tuple[BenchOutcome, IterationTimes]:
    """Measure one launch."""
    return _trt_bench.bench(spec, folder=folder, stage=stage, flavour="tensorrt")


def open_session(spec: RunSpec) -> TrtSession:
    """Load an engine with the options of a run."""
    return _trt_bench.open_session(spec, flavour="tensorrt")


def load_library() -> None:
    """Import TensorRT and the bindings of CUDA."""
    _trt_bench.load_library("tensorrt")


def bursts(spec: RunSpec) -> bool:
    """Tell that a session times bursts of queries, whatever is asked of it."""
    return True
