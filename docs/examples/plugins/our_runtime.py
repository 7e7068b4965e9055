"""Runs ONNX models on the evaluator of the onnx package: slow, and right by definition."""

from __future__ import annotations

from collections.abc import Callable
from importlib import util
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.core.jobs import BenchOutcome, Stage
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import RunSpec, TensorSpec
from trtbench.runtimes.contract import Arrays, Session, bench_session

FORMATS = ("onnx",)
TIMES_LAYERS = False
TAKES_PRECISION = False


def available() -> str | None:
    return None if util.find_spec("onnx") else "the package onnx is not installed"


def fix() -> str | None:
    return "pip install onnx"


def device(spec: RunSpec) -> str:
    return "cpu"


def bench(spec: RunSpec, *, folder: Path, stage: Stage) -> tuple[BenchOutcome, IterationTimes]:
    """Measure one launch with the loop that every session is measured with."""
    return bench_session(open_session, spec, stage=stage)


def open_session(spec: RunSpec) -> ReferenceSession:
    """Load the model in the worker's process; this is what check and eval ask for too."""
    return ReferenceSession(spec)


class ReferenceSession(Session):
    """A model that is evaluated node by node in numpy."""

    def __init__(self, spec: RunSpec) -> None:
        import onnx
        from onnx.reference import ReferenceEvaluator

        model = onnx.load(spec.model.path)
        stored = {each.name for each in model.graph.initializer}
        self.inputs = tuple(_tensor(e) for e in model.graph.input if e.name not in stored)
        self.outputs = tuple(_tensor(e) for e in model.graph.output)
        self.conditions = {}
        self._evaluator = ReferenceEvaluator(model)
        self._feeds: dict[str, NDArray[np.generic]] = {}

    def bind(self, arrays: Arrays) -> None:
        self._feeds = dict(arrays)

    def step(self) -> Callable[[], object]:
        return lambda: self._evaluator.run(None, self._feeds)

    def fetch(self) -> dict[str, NDArray[np.generic]]:
        values = self._evaluator.run(None, self._feeds)
        return {each.name: value for each, value in zip(self.outputs, values, strict=True)}


def _tensor(value: object) -> TensorSpec:
    from onnx import helper

    kind = value.type.tensor_type  # type: ignore[attr-defined]
    dims = tuple(d.dim_value or d.dim_param or None for d in kind.shape.dim)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type)).name
    return TensorSpec(name=value.name, dtype=dtype, shape=dims)  # type: ignore[attr-defined]
