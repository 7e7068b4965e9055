"""Changes the precision of an ONNX file: a cast, or a quantization by one of two libraries.

INT8 is made by ONNX Runtime's quantizer with the options that TensorRT's parser takes, or by NVIDIA
ModelOpt, which makes FP8 too. ModelOpt pins old releases of onnx and onnxruntime, so it runs in an
interpreter of its own; without data it would calibrate on random numbers and say nothing, so here
it always gets data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from trtbench.analysis.onnx_graph import PREFIX, PREPARATION, text_from_preparation
from trtbench.convert.calibration import FeedArrays, FeedFile
from trtbench.convert.cast import (
    ASKED_FOR,
    FLOAT,
    FLOAT16,
    QDQ_OPSET,
    Low,
    at_opset,
    cast,
    matching_nodes,
    prepared,
)
from trtbench.core.errors import InputError, UnavailableError, UsageError, first_line
from trtbench.core.jobs import Stage
from trtbench.core.plugins import MAKE_MODELOPT, optional_library
from trtbench.core.results import QuantOutcome, QuantSpec
from trtbench.host.machine import library_versions
from trtbench.models.onnx_model import (
    ONE_FILE_BYTES,
    check_onnx,
    load_onnx,
    opset_of,
    save_onnx,
    sort_nodes,
    subgraphs,
)

if TYPE_CHECKING:
    from onnx import ModelProto

STAND_IN = "stand-in.onnx"
OPERATORS = (
    "Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "AveragePool", "GlobalAveragePool", "MaxPool",
)  # fmt: skip
"""What TensorRT has INT8 kernels for; others would only gain conversions."""
_LIBRARIES = ("trtbench", "onnx", "onnxruntime", "numpy", "nvidia-modelopt", "torch")


def quantize(spec: QuantSpec, *, folder: Path, stage: Stage) -> QuantOutcome:
    """Make the file ``spec.output``; the folder is the job's own."""
    if spec.via == "cast":
        return _cast(spec, folder=folder, stage=stage)
    make = quantize_int8 if spec.via == "onnxruntime" else quantize_modelopt
    return make(spec, folder=folder, stage=stage)


def _feeds(spec: QuantSpec) -> FeedFile:
    if spec.calibration is None or spec.calibration.file is None:
        raise UsageError(
            "a quantization needs data to calibrate with",
            fix="--calibration FOLDER, --calibration data.npz, or --calibration random",
        )
    return FeedFile(Path(spec.calibration.file))


def _cast(spec: QuantSpec, *, folder: Path, stage: Stage) -> QuantOutcome:
    stage("load")
    model = load_onnx(Path(spec.model.path))
    stage("cast")
    low = spec.precision
    if low not in get_args(Low):
        raise UsageError(f"a cast makes fp16 or bf16, not {low}", fix="--precision fp16")
    before = opset_of(model)
    made = cast(model, precision=low, keep_io=spec.keep_io, keep=spec.keep)  # type: ignore[arg-type]
    if not made.changed:
        raise InputError(
            "there is nothing to cast: no node of the model computes in FP32",
            facts={"model": spec.model.path},
            fix="use it as it is; trtbench inspect shows its types",
        )
    stage("save")
    _finish(made.model, spec)
    save_onnx(made.stand_in, folder / STAND_IN)
    notes = []
    if opset_of(made.model) != before:
        notes.append(f"raised from opset {before} to {opset_of(made.model)}, which {low} needs")
    return QuantOutcome(
        versions=library_versions(_LIBRARIES),
        changed=made.changed,
        kept=made.kept,
        notes=tuple(notes),
        stand_in=STAND_IN,
    )


def _finish(model: ModelProto, spec: QuantSpec) -> None:
    """Write into a model how it was made, save it, and refuse it if it breaks the rules of ONNX."""
    facts = {
        "step": "cast" if spec.via == "cast" else "quantize",
        "precision": spec.precision,
        "source_sha256": spec.model.sha256,
    }
    if spec.calibration is not None:
        facts["method"] = f"{spec.via} {spec.method}"
        facts["calibration"] = Path(spec.calibration.source).name  # anywhere, the same bytes
        facts["calibration_sha256"] = spec.calibration.sha256
        if spec.calibration.preprocessing:
            facts[PREPARATION] = text_from_preparation(spec.calibration.preprocessing)
    known = {entry.key: entry for entry in model.metadata_props}
    for key, value in facts.items():
        if value is not None:
            entry = known.get(PREFIX + key) or model.metadata_props.add()
            entry.key, entry.value = PREFIX + key, value
    # Quantizers list every operator domain they know; a body may use what is not used around it.
    used = {node.domain for node in model.graph.node} | {""}
    if not any(a.HasField("g") for node in model.graph.node for a in node.attribute):
        for entry in [each for each in model.opset_import if each.domain not in used]:
            model.opset_import.remove(entry)
    save_onnx(model, Path(spec.output))
    check_onnx(Path(spec.output))


def quantized_operators(model: ModelProto) -> dict[str, int]:
    """Nodes that read through a DequantizeLinear, by kind; control flow does not count."""
    sources = {name: node.op_type for node in model.graph.node for name in node.output}
    kinds = Counter(
        node.op_type
        for node in model.graph.node
        if node.op_type != "QuantizeLinear"
        and not any(True for _ in subgraphs(node))
        and any(sources.get(name) == "DequantizeLinear" for name in node.input)
    )
    return dict(kinds.most_common())


def quantize_modelopt(spec: QuantSpec, *, folder: Path, stage: Stage) -> QuantOutcome:
    """Quantize with ModelOpt on the CPU; what is not quantized becomes ``spec.rest``."""
    stage("load")
    try:
        from modelopt.onnx.quantization import quantize  # type: ignore[import-not-found]
    except ImportError as problem:
        raise UnavailableError(
            "NVIDIA ModelOpt is not installed in this interpreter",
            facts={"reason": problem},
            fix=f"{MAKE_MODELOPT}, then --python modelopt/bin/python, or runtimes.modelopt.python "
            "in trtbench.toml",
        ) from None
    stage("calibrate")
    feeds = _feeds(spec)
    rows = [len(next(iter(feed.values()))) for feed in feeds]
    whole = [feed for feed, own in zip(feeds, rows, strict=True) if own == rows[0]]  # it cuts again
    raw = folder / "quantized.onnx"
    try:
        quantize(
            onnx_path=spec.model.path,
            quantize_mode=spec.precision,
            calibration_data={name: np.concatenate([f[name] for f in whole]) for name in feeds[0]},
            calibration_shapes=",".join(
                f"{name}:{'x'.join(map(str, a.shape))}" for name, a in feeds[0].items()
            ),
            calibration_method={"minmax": "max", "entropy": "entropy"}[spec.method],
            calibration_eps=["cpu"],
            op_types_to_quantize=list(spec.operators) or None,
            nodes_to_exclude=[re.escape(name).replace(r"\*", ".*") for name in spec.keep] or None,
            high_precision_dtype=spec.rest,
            output_path=str(raw),
        )
    except Exception as problem:  # it raises whatever the libraries below it raise
        raise InputError(
            "ModelOpt could not quantize the model",
            facts={"reason": f"{type(problem).__name__}: {first_line(problem)}"},
            fix="look at the end of the log",
        ) from problem
    stage("save")
    model = load_onnx(raw)
    changed = quantized_operators(model)
    if not changed:
        raise InputError(
            "ModelOpt quantized nothing of the model",
            facts={"operators": " ".join(spec.operators) or "those of its own choice"},
            fix="--precision fp16: it leaves small convolutions and products alone",
        )
    _finish(model, spec)
    return QuantOutcome(
        versions=library_versions(_LIBRARIES),
        changed=changed,
        kept=dict.fromkeys(spec.keep, ASKED_FOR),
        facts={"rest": spec.rest},
        notes=(f"what is not quantized is {spec.rest}",),
    )


def quantize_int8(spec: QuantSpec, *, folder: Path, stage: Stage) -> QuantOutcome:
    """Put Q/DQ nodes around the operators, with scales from the calibration data."""
    if spec.precision != "int8":
        raise UsageError(
            f"ONNX Runtime quantizes to int8, not {spec.precision}", fix="--via modelopt"
        )
    quantization = optional_library("onnxruntime.quantization")
    stage("load")
    source, kept = _prepare(spec, folder)
    feeds, raw = _feeds(spec), folder / "quantized.onnx"

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        """Hands the batches to the quantizer, a range of them at a time."""

        rest = iter(range(len(feeds)))

        def __len__(self) -> int:
            return len(feeds)

        def set_range(self, start_index: int, end_index: int) -> None:
            self.rest = iter(range(start_index, end_index))

        def get_next(self) -> FeedArrays | None:
            index = next(self.rest, None)
            return None if index is None else feeds[index]

    stage("calibrate")
    methods = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}
    options = {  # zero points of zero and FP32 biases, as TensorRT wants them
        "ActivationSymmetric": True,
        "WeightSymmetric": True,
        "QuantizeBias": False,
        # One batch at a time: otherwise every activation of every batch is held in memory.
        "CalibStridedMinMax": 1,
        **({"CalibPercentile": spec.percentile} if spec.method == "percentile" else {}),
    }
    _refusing(
        spec,
        quantization.quantize_static,
        str(source),
        str(raw),
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        op_types_to_quantize=list(spec.operators or OPERATORS),
        per_channel=spec.per_channel,
        activation_type=quantization.QuantType.QInt8,
        weight_type=quantization.QuantType.QInt8,
        nodes_to_exclude=sorted(kept),
        use_external_data_format=source.stat().st_size > ONE_FILE_BYTES // 2,
        calibrate_method=getattr(quantization.CalibrationMethod, methods[spec.method]),
        extra_options=options,
    )
    stage("save")
    model = load_onnx(raw)
    # The quantizer rounds behind every node it quantizes, also for readers it must leave alone:
    # these read what was there before.
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        for index, name in enumerate(node.input if kept.get(node.name) == ASKED_FOR else ()):
            back = makers.get(name)
            if back is None or back.op_type != "DequantizeLinear":
                continue
            forth = makers.get(back.input[0])
            if forth is not None and forth.op_type == "QuantizeLinear":
                node.input[index] = forth.input[0]
    sort_nodes(model.graph)  # the quantizer does not see what bodies of control flow read
    changed = quantized_operators(model)
    if not changed:
        raise InputError(
            "nothing was quantized",
            facts={"operators": " ".join(spec.operators or OPERATORS)},
            fix="--op MatMul and the like name the operators to quantize",
        )
    _finish(model, spec)
    return QuantOutcome(versions=library_versions(_LIBRARIES), changed=changed, kept=kept)


def _refusing(
    spec: QuantSpec, call: Callable[..., object], *given: object, **named: object
) -> None:
    """Call ONNX Runtime's quantizer; whatever it raises becomes one error."""
    try:
        call(*given, **named)
    except MemoryError:
        raise
    except Exception as problem:  # its exceptions share no base class of their own
        raise InputError(
            "ONNX Runtime could not quantize the model",
            facts={
                "reason": f"{type(problem).__name__}: {first_line(problem)}",
                "method": spec.method,
                **library_versions(("onnxruntime",)),
            },
            fix="other data with --calibration, or --exclude the node it cannot handle",
        ) from problem


def _prepare(spec: QuantSpec, folder: Path) -> tuple[Path, dict[str, str]]:
    """The model, named, inferred and with batch norms folded; and nodes to leave alone, and why."""
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
    stored = {tensor.name for tensor in model.graph.initializer if tensor.data_type == FLOAT}
    kept = {  # TensorRT takes such additions only into weighted layers
        node.name: "adds a constant"
        for node in model.graph.node
        if node.op_type == "Add" and stored & set(node.input)
    } | matching_nodes(model, spec.keep)
    named, ready = folder / "named.onnx", folder / "prepared.onnx"
    large = len(save_onnx(model, named)) > 1
    _refusing(
        spec,
        quant_pre_process,
        str(named),
        str(ready),
        skip_symbolic_shape=util.find_spec("sympy") is None,
        save_as_external_data=large,
    )
    return ready, kept
