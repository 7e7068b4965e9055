"""INT8 by ONNX Runtime's quantizer, with the options that TensorRT's parser takes."""

from __future__ import annotations

from importlib import util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.build.cast import ASKED_FOR, matching_nodes, prepared
from trtbench.build.cast_types import FLOAT, FLOAT16, QDQ_OPSET, at_opset
from trtbench.build.onnx_file import ONE_FILE_BYTES, load_onnx, save_onnx, sort_nodes
from trtbench.build.onnx_rules import quantized_operators, refusals
from trtbench.build.quantize_data import FeedArrays, FeedFile
from trtbench.build.quantize_finish import finish, versions
from trtbench.domain.conversion import QuantOutcome, QuantSpec
from trtbench.domain.job import Stage
from trtbench.errors import InputError, UsageError
from trtbench.extras import optional_library

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime.quantization import CalibrationDataReader


OPERATORS = (
    "Conv",
    "ConvTranspose",
    "Gemm",
    "MatMul",
    "Add",
    "AveragePool",
    "GlobalAveragePool",
    "MaxPool",
)
"""What TensorRT has INT8 kernels for; others would only gain conversions."""

_METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}


def quantize_int8(spec: QuantSpec, *, folder: Path, stage: Stage) -> QuantOutcome:
    """Put Q/DQ nodes around the operators, with scales from the calibration data."""
    if spec.precision != "int8":
        raise UsageError(
            f"ONNX Runtime quantizes to int8, not {spec.precision}", fix="--via modelopt"
        )
    quantization = optional_library("onnxruntime.quantization")
    stage("load")
    source, kept = _prepare(spec, folder)
    assert spec.calibration is not None
    assert spec.calibration.file is not None
    feeds = FeedFile(Path(spec.calibration.file))
    stage("calibrate")
    raw = folder / "quantized.onnx"
    try:
        quantization.quantize_static(
            str(source),
            str(raw),
            _reader(quantization, feeds),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=list(spec.operators or OPERATORS),
            per_channel=spec.per_channel,
            activation_type=quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8,
            nodes_to_exclude=sorted(kept),
            use_external_data_format=source.stat().st_size > ONE_FILE_BYTES // 2,
            calibrate_method=getattr(quantization.CalibrationMethod, _METHODS[spec.method]),
            extra_options=_options(spec),
        )
    except MemoryError:
        raise
    except Exception as problem:  # its exceptions share no base class of their own
        raise _refused(problem, spec) from problem
    stage("save")
    return _finish(spec, raw, kept)


_SLIPS = (KeyError, AttributeError, IndexError, TypeError)
"""What its quantizer raises over graphs it was not made for."""


def _refused(problem: Exception, spec: QuantSpec) -> InputError:
    reason = (str(problem).strip().splitlines() or [""])[0]
    random = spec.calibration is not None and spec.calibration.kind == "random"
    fix = None
    if random and "while running" in reason:
        fix = "--calibration data.npz with inputs that the model takes"
    elif isinstance(problem, _SLIPS):
        reason = f"{type(problem).__name__}: {reason}"
        fix = (
            "another onnxruntime (pip install -U onnxruntime), or --exclude the node it trips over"
        )
    return InputError(
        "ONNX Runtime could not quantize the model",
        facts={
            "reason": reason,
            "method": spec.method,
            "onnxruntime": versions().get("onnxruntime"),
        },
        fix=fix,
    )


def _options(spec: QuantSpec) -> dict[str, object]:
    """Ask for what TensorRT wants: zero points of zero and FP32 biases."""
    return {
        "ActivationSymmetric": True,
        "WeightSymmetric": True,
        "QuantizeBias": False,
        # One batch at a time: otherwise every activation of every batch is held in memory.
        "CalibStridedMinMax": 1,
        **({"CalibPercentile": spec.percentile} if spec.method == "percentile" else {}),
    }


def _prepare(spec: QuantSpec, folder: Path) -> tuple[Path, dict[str, str]]:
    """Name the nodes, infer shapes and fold what can be folded, batch norms above all."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model = prepared(load_onnx(Path(spec.model.path)))
    if any(node.op_type == "QuantizeLinear" for node in model.graph.node):
        raise InputError(
            "the model is quantized already",
            facts={"model": spec.model.path},
            fix="start from the model in FP32",
        )
    if any(tensor.data_type == FLOAT16 for tensor in model.graph.initializer):
        model = at_opset(model, QDQ_OPSET, what="int8 in an FP16 model")
    kept = {**_constant_additions(model), **matching_nodes(model, spec.keep)}
    named, ready = folder / "named.onnx", folder / "prepared.onnx"
    large = len(save_onnx(model, named)) > 1
    try:
        quant_pre_process(
            str(named),
            str(ready),
            skip_symbolic_shape=util.find_spec("sympy") is None,
            save_as_external_data=large,
        )
    except MemoryError:
        raise
    except Exception as problem:
        raise _refused(problem, spec) from problem
    return ready, kept


def _constant_additions(model: ModelProto) -> dict[str, str]:
    """List additions of stored values, which TensorRT takes only into weighted layers."""
    stored = {tensor.name for tensor in model.graph.initializer if tensor.data_type == FLOAT}
    return {
        node.name: "adds a constant"
        for node in model.graph.node
        if node.op_type == "Add" and stored & set(node.input)
    }


def _reader(quantization: ModuleType, feeds: FeedFile) -> CalibrationDataReader:
    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        """Hands the batches to the quantizer, a range of them at a time."""

        def __init__(self) -> None:
            self.set_range(0, len(feeds))

        def __len__(self) -> int:
            return len(feeds)

        def set_range(self, start_index: int, end_index: int) -> None:
            self._rest = iter(range(start_index, end_index))

        def get_next(self) -> FeedArrays | None:
            index = next(self._rest, None)
            return None if index is None else feeds[index]

    return Reader()


def _read_unrounded(model: ModelProto, names: set[str]) -> None:
    """Have nodes that are left alone read what others made, not what was rounded for others.

    The quantizer rounds behind every node it quantizes, also for readers it was told to leave.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        for index, name in enumerate(node.input if node.name in names else ()):
            back = makers.get(name)
            if back is None or back.op_type != "DequantizeLinear":
                continue
            forth = makers.get(back.input[0])
            if forth is not None and forth.op_type == "QuantizeLinear":
                node.input[index] = forth.input[0]


def _finish(spec: QuantSpec, raw: Path, kept: dict[str, str]) -> QuantOutcome:
    model = load_onnx(raw)
    _read_unrounded(model, {name for name, reason in kept.items() if reason == ASKED_FOR})
    sort_nodes(model.graph)  # the quantizer does not see what bodies of control flow read
    problems = refusals(model)
    if problems:
        raise InputError(
            "the quantized model is not one that TensorRT takes",
            facts={f"node {index}": text for index, text in enumerate(problems[:5], start=1)},
            fix="hold the nodes with --exclude, or report this",
        )
    changed = quantized_operators(model)
    if not changed:
        raise InputError(
            "nothing was quantized",
            facts={"operators": " ".join(spec.operators or OPERATORS)},
            fix="--op MatMul and the like name the operators to quantize",
        )
    finish(model, spec)
    return QuantOutcome(versions=versions(), changed=changed, kept=kept)
