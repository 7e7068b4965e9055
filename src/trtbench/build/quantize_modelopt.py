"""INT8 and FP8 by NVIDIA ModelOpt, in an interpreter of its own.

ModelOpt pins old releases of onnx and onnxruntime, so it is never part of trtbench's own
environment. Without data it calibrates on random numbers and says nothing; here it always gets
data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.build.builders._precision import MAKE_MODELOPT
from trtbench.build.onnx_file import load_onnx
from trtbench.build.onnx_rules import quantized_operators
from trtbench.build.quantize_data import FeedFile
from trtbench.build.quantize_finish import finish, versions
from trtbench.domain.arrays import AnyArray
from trtbench.domain.conversion import QuantOutcome, QuantSpec
from trtbench.domain.job import Stage
from trtbench.errors import InputError, UnavailableError, UsageError

_METHODS = {"minmax": "max", "entropy": "entropy"}
FIX = (
    f"{MAKE_MODELOPT}, then --python modelopt/bin/python, or runtimes.modelopt.python in "
    "trtbench.toml"
)


def quantize_modelopt(spec: QuantSpec, *, folder: Path, stage: Stage) -> QuantOutcome:
    """Quantize with ModelOpt on the CPU; what is not quantized becomes ``spec.rest``."""
    if spec.method not in _METHODS:
        raise UsageError(
            f"ModelOpt has no method {spec.method}",
            facts={"methods": ", ".join(_METHODS)},
            fix=f"--method {next(iter(_METHODS))}",
        )
    stage("load")
    quantize = _library()
    stage("calibrate")
    raw = folder / "quantized.onnx"
    _call(quantize, spec, raw)
    stage("save")
    model = load_onnx(raw)
    changed = quantized_operators(model)
    if not changed:
        raise InputError(
            "ModelOpt quantized nothing of the model",
            facts={"operators": " ".join(spec.operators) or "those of its own choice"},
            fix="--precision fp16: it leaves small convolutions and products alone",
        )
    finish(model, spec)
    return QuantOutcome(
        versions=versions(),
        changed=changed,
        kept=dict.fromkeys(spec.keep, "asked for"),
        facts={"rest": spec.rest},
        notes=(f"what is not quantized is {spec.rest}",),
    )


def _call(quantize: Callable[..., object], spec: QuantSpec, output: Path) -> None:
    assert spec.calibration is not None
    assert spec.calibration.file is not None
    feeds = FeedFile(Path(spec.calibration.file))
    try:
        quantize(
            onnx_path=spec.model.path,
            quantize_mode=spec.precision,
            calibration_data=_joined(feeds),
            calibration_shapes=_shapes(feeds),
            calibration_method=_METHODS[spec.method],
            calibration_eps=["cpu"],
            op_types_to_quantize=list(spec.operators) or None,
            nodes_to_exclude=[re.escape(name).replace(r"\*", ".*") for name in spec.keep] or None,
            high_precision_dtype=spec.rest,
            output_path=str(output),
        )
    except Exception as problem:  # it raises whatever the libraries below it raise
        first = next(iter(str(problem).strip().splitlines()), "")
        raise InputError(
            "ModelOpt could not quantize the model",
            facts={"reason": f"{type(problem).__name__}: {first}"},
            fix="look at the end of the log for what ModelOpt said",
        ) from problem


def _library() -> Callable[..., object]:
    try:
        from modelopt.onnx.quantization import quantize  # type: ignore[import-not-found]
    except ImportError as problem:
        raise UnavailableError(
            "NVIDIA ModelOpt is not installed in this interpreter",
            facts={"reason": problem},
            fix=FIX,
        ) from None
    found: Callable[..., object] = quantize
    return found


def _joined(feeds: FeedFile) -> dict[str, NDArray[np.generic]]:
    """Join all batches in one array, which ModelOpt cuts up again."""
    batches = [feed for feed in feeds if _rows(feed) == _rows(feeds[0])]
    return {name: np.concatenate([feed[name] for feed in batches]) for name in feeds[0]}


def _rows(feed: Mapping[str, AnyArray]) -> int:
    return len(next(iter(feed.values())))


def _shapes(feeds: FeedFile) -> str:
    return ",".join(f"{name}:{'x'.join(map(str, a.shape))}" for name, a in feeds[0].items())
