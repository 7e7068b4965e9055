"""Changes the precision of an ONNX file: a cast, or a quantization by one of two libraries.

INT8 is made by ONNX Runtime's quantizer with options that TensorRT's parser accepts, or by NVIDIA
ModelOpt, which also makes FP8. ModelOpt pins old releases of onnx and onnxruntime, so it runs in a
separate interpreter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trtbench.analysis.onnx_graph import PREFIX, PREPARATION, text_from_preparation
from trtbench.convert import cast as casts
from trtbench.convert.calibration import FeedArrays, FeedFile
from trtbench.convert.verify import refuse_unloadable, run_session, session_of
from trtbench.core.errors import InputError, UnavailableError, UsageError, first_line
from trtbench.core.jobs import Stage
from trtbench.core.plugins import MAKE_MODELOPT, optional_library
from trtbench.core.results import QuantOutcome, QuantSpec
from trtbench.core.run import Scalar
from trtbench.host.machine import library_versions
from trtbench.models import onnx_model

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

STAND_IN, QUANTIZED = "stand-in.onnx", "quantized.onnx"
OPERATORS = (
    "Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "AveragePool", "GlobalAveragePool", "MaxPool",
)  # fmt: skip
"""Operators with INT8 kernels in TensorRT; others would only get conversions."""
_QUANTIZED = re.compile("QuantizeLinear|^QLinear|Integer$")
"""Operators of a model that is quantized already."""
_WITHOUT_BODIES = "export it without If, Loop and Scan: their bodies are left as they are"
_LIBRARIES = ("trtbench", "onnx", "onnxruntime", "numpy", "nvidia-modelopt", "torch")


def quantize(spec: QuantSpec, *, folder: Path, stage: Stage) -> QuantOutcome:
    """Cast or quantize to the file ``spec.output`` in the folder of the job."""
    if spec.via == "cast":
        return _cast(spec, folder=folder, stage=stage)
    assert spec.calibration is not None  # refused before the job
    feeds = FeedFile(Path(str(spec.calibration.file)))
    make = quantize_int8 if spec.via == "onnxruntime" else quantize_modelopt
    outcome = make(spec, feeds, folder=folder, stage=stage)
    stage("save")
    model = onnx_model.load_onnx(folder / QUANTIZED)
    if spec.via == "onnxruntime":
        _restore_inputs(model, [n for n, why in outcome.kept.items() if why == casts.ASKED_FOR])
    changed = quantized_operators(model)
    if not changed:
        raise _nothing_quantized(model, spec)
    _finish(model, spec.having(method=outcome.facts.get("method", spec.method)))
    return outcome.having(changed=changed)


def _nothing_quantized(model: ModelProto, spec: QuantSpec) -> InputError:
    asked = spec.operators or (OPERATORS if spec.via == "onnxruntime" else ())
    own = Counter(node.op_type for node in model.graph.node)
    facts = {
        "looked for": " ".join(asked) or "chosen by the quantizer",
        "operators": ", ".join(f"{count} {name}" for name, count in own.most_common(8)),
    }
    fix = "name the operators to quantize, such as --op Gemm"
    if _control_flow(model):
        fix = _WITHOUT_BODIES
    elif spec.via == "modelopt":
        fix += "; ModelOpt does not quantize small convolutions and products"
    elif own.keys() & set(asked):  # their tensors have other types, or are constants
        fix = "export it in FP32, with weights: trtbench inspect shows its types"
    return InputError("nothing was quantized", facts={**facts, **_control_flow(model)}, fix=fix)


def _rename_numbered(graph: GraphProto) -> None:
    """Rename weights that would get another tensor's name: the quantizer numbers copies of them."""
    stored = {tensor.name for tensor in graph.initializer}
    every = stored.union(*(node.output for node in graph.node))
    ends = {each: len(each.rstrip("0123456789")) for each in every}
    numbered = {each[:at] for each, end in ends.items() for at in range(end, len(each))} & stored
    renamed = {name: f"{name}_weight" for name in numbered if f"{name}_weight" not in every}
    for tensor in (*graph.initializer, *graph.input):
        tensor.name = renamed.get(tensor.name, tensor.name)
    casts.rename_reads(graph, lambda name: renamed.get(name, name), own=False)


def _cast(spec: QuantSpec, *, folder: Path, stage: Stage) -> QuantOutcome:
    stage("load")
    model = onnx_model.load_onnx(Path(spec.model.path))
    stage("cast")
    low, before = spec.precision, onnx_model.opset_of(model)
    made = casts.cast(model, precision=low, keep_io=spec.keep_io, keep=spec.keep)  # type: ignore[arg-type]
    if not made.changed:
        flow = _control_flow(made.model)
        reason, kept = "no node outside of control flow computes in FP32", {}
        if made.kept and not flow:
            reason = f"no node that computes in FP32 can do so in {low}"
            kept = dict([*made.kept.items()][:4])
        facts = {"model": spec.model.path, **flow, **kept}
        fix = _WITHOUT_BODIES if flow else "use it as it is; trtbench inspect shows its types"
        raise InputError(f"there is nothing to cast: {reason}", facts=facts, fix=fix)
    stage("save")
    _finish(made.model, spec)
    onnx_model.save_onnx(made.stand_in, folder / STAND_IN)
    after = onnx_model.opset_of(made.model)
    raised = f"raised from opset {before} to {after}, which {low} needs"
    return QuantOutcome(
        versions=library_versions(_LIBRARIES),
        changed=made.changed,
        kept=made.kept,
        notes=(raised,) if after != before else (),
        stand_in=STAND_IN,
    )


def _control_flow(model: ModelProto) -> dict[str, str]:
    found = {n.op_type for n in model.graph.node if any(True for _ in onnx_model.subgraphs(n))}
    return {"left as it is": f"the body of {' and '.join(sorted(found))}"} if found else {}


def _finish(model: ModelProto, spec: QuantSpec) -> None:
    """Record in a model how it was made, save it, and check that it is valid ONNX."""
    facts = {
        "step": "cast" if spec.via == "cast" else "quantize",
        "precision": spec.precision,
        "source_sha256": spec.model.sha256,
    }
    if spec.calibration is not None:
        facts["method"] = f"{spec.via} {spec.method}"
        facts["calibration"] = Path(spec.calibration.source).name  # the same bytes in any folder
        facts["calibration_sha256"] = spec.calibration.sha256
        if spec.calibration.preprocessing:
            facts[PREPARATION] = text_from_preparation(spec.calibration.preprocessing)
    known = {entry.key: entry for entry in model.metadata_props}
    for key, value in facts.items():
        if value is not None:
            entry = known.get(PREFIX + key) or model.metadata_props.add()
            entry.key, entry.value = PREFIX + key, value
    # Quantizers list every operator domain they know; a subgraph may use one that others do not.
    used = {node.domain for node in model.graph.node} | {""}
    if not any(a.HasField("g") for node in model.graph.node for a in node.attribute):
        for entry in [each for each in model.opset_import if each.domain not in used]:
            model.opset_import.remove(entry)
    onnx_model.save_onnx(model, Path(spec.output))
    onnx_model.check_onnx(Path(spec.output), source=Path(spec.model.path))
    if spec.precision != "fp8":  # which ONNX Runtime may not know on a CPU
        refuse_unloadable(Path(spec.output), Path(spec.model.path))


def quantized_operators(model: ModelProto) -> dict[str, int]:
    """Count the nodes that read from a DequantizeLinear, by type, without control flow."""
    sources = {name: node.op_type for node in model.graph.node for name in node.output}
    kinds = Counter(
        node.op_type
        for node in model.graph.node
        if node.op_type != "QuantizeLinear"
        and not any(True for _ in onnx_model.subgraphs(node))
        and any(sources.get(name) == "DequantizeLinear" for name in node.input)
    )
    return dict(kinds.most_common())


def quantize_modelopt(
    spec: QuantSpec, feeds: FeedFile, *, folder: Path, stage: Stage
) -> QuantOutcome:
    """Quantize with ModelOpt on the CPU; other nodes get the type ``spec.rest``."""
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
    rows = [len(next(iter(feed.values()))) for feed in feeds]
    whole = [feed for feed, own in zip(feeds, rows, strict=True) if own == rows[0]]
    copy = folder / "source.onnx"  # ModelOpt may write to the file that it is given
    onnx_model.save_onnx(onnx_model.load_onnx(Path(spec.model.path)), copy)
    with _errors_of("ModelOpt", fix="look at the end of the log"):
        quantize(
            onnx_path=str(copy),
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
            output_path=str(folder / QUANTIZED),
        )
    return QuantOutcome(
        versions=library_versions(_LIBRARIES),
        kept=dict.fromkeys(spec.keep, casts.ASKED_FOR),
        facts={"rest": spec.rest},
        notes=(f"nodes that are not quantized are {spec.rest}",),
    )


def quantize_int8(spec: QuantSpec, feeds: FeedFile, *, folder: Path, stage: Stage) -> QuantOutcome:
    """Insert Q/DQ nodes around the operators, with scales from the calibration data."""
    if spec.precision != "int8":
        message = f"ONNX Runtime quantizes to int8, not {spec.precision}"
        raise UsageError(message, fix="--via modelopt")
    quantization = optional_library("onnxruntime.quantization")
    stage("load")
    source, kept, notes, opset = _prepare(spec, folder)

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        """Gives the batches to the quantizer, a range of them at a time."""

        rest = iter(range(len(feeds)))

        def __len__(self) -> int:
            return len(feeds)

        def set_range(self, start_index: int, end_index: int) -> None:
            self.rest = iter(range(start_index, end_index))

        def get_next(self) -> FeedArrays | None:
            index = next(self.rest, None)
            if index is not None:
                text = f"calibrating, batch {index + 1} of {len(feeds)}"
                stage.progress(index / len(feeds), text)
            return None if index is None else feeds[index]

    stage("calibrate")
    methods = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}
    options = {  # zero points of zero and FP32 biases, as TensorRT requires
        "ActivationSymmetric": True,
        "WeightSymmetric": True,
        "QuantizeBias": False,
        # One batch at a time: otherwise all activations of all batches are kept in memory.
        "CalibStridedMinMax": 1,
        **({"CalibPercentile": spec.percentile} if spec.method == "percentile" else {}),
    }

    def make(method: str, per_channel: bool) -> None:
        with _errors_of("ONNX Runtime", method):
            quantization.quantize_static(
                str(source), str(folder / QUANTIZED), Reader(), per_channel=per_channel,
                quant_format=quantization.QuantFormat.QDQ, extra_options=options,
                op_types_to_quantize=list(spec.operators or OPERATORS),
                activation_type=quantization.QuantType.QInt8,
                weight_type=quantization.QuantType.QInt8, nodes_to_exclude=sorted(kept),
                use_external_data_format=source.stat().st_size > onnx_model.ONE_FILE_BYTES // 2,
                calibrate_method=getattr(quantization.CalibrationMethod, methods[method]),
            )  # fmt: skip

    by_channel = spec.per_channel and opset >= casts.AXIS_OPSET
    ways = [(how, each) for each in (by_channel, False) for how in (spec.method, "minmax")]
    failed: list[InputError] = []
    for method, per_channel in dict.fromkeys(ways):
        try:
            make(method, per_channel)
            break
        except InputError as problem:
            if not failed:
                kept |= _infinite_nodes(source, spec.operators or OPERATORS, feeds[0])
            failed.append(problem)
    else:
        raise failed[0]
    if failed:
        way = f"{method}, per {'channel' if per_channel else 'tensor'}"
        notes.append(f"quantized by {way}; {spec.method} failed: {failed[0].facts['reason']}")
    facts: dict[str, Scalar] = {"method": method, "per_channel": per_channel}
    versions = library_versions(_LIBRARIES)
    return QuantOutcome(versions=versions, kept=kept, notes=tuple(notes), facts=facts)


def _infinite_nodes(path: Path, operators: Collection[str], feed: FeedArrays) -> dict[str, str]:
    """Return the nodes to quantize that read or write infinite values: no scale fits them."""
    model = onnx_model.load_onnx(path)
    nodes = [node for node in model.graph.node if node.op_type in operators]
    made = {name for node in model.graph.node for name in node.output if name}
    wanted = sorted({name for n in nodes for name in (*n.input, *n.output)} & made)
    found = run_session(session_of(model, wanted), wanted, feed) if wanted else {}
    lost = {name for name, array in found.items() if not np.isfinite(array).all()}
    why = "has infinite values"
    return {n.name: why for n in nodes if lost & {*n.input, *n.output}}


def _restore_inputs(model: ModelProto, exact: Collection[str]) -> None:
    """Let nodes that must stay FP32 read tensors before ONNX Runtime's quantizer rounds them."""
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        for index, name in enumerate(node.input if node.name in exact else ()):
            back = makers.get(name)
            forth = makers.get(back.input[0]) if back is not None else None
            kinds = [each.op_type for each in (forth, back) if each is not None]
            if forth is not None and kinds == ["QuantizeLinear", "DequantizeLinear"]:
                node.input[index] = forth.input[0]
    onnx_model.sort_nodes(model.graph)  # it does not see what subgraphs of control flow read


@contextmanager
def _errors_of(
    library: str,
    method: str | None = None,
    fix: str = "other data with --data, or --exclude the node it cannot handle",
) -> Iterator[None]:
    """Turn any exception of a quantizer into an InputError; they share no base class."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as problem:
        facts = {"reason": f"{type(problem).__name__}: {first_line(problem)}"}
        if method is not None:
            facts |= {"method": method, **library_versions(("onnxruntime",))}
        message = f"{library} could not quantize the model"
        raise InputError(message, facts=facts, fix=fix) from problem


def _prepare(spec: QuantSpec, folder: Path) -> tuple[Path, dict[str, str], list[str], int]:
    """Prepare the model; returns its file, why nodes are excluded, notes, and its opset."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model = casts.prepared(onnx_model.load_onnx(Path(spec.model.path)))
    if any(_QUANTIZED.search(node.op_type) for node in model.graph.node):
        message = "the model is already quantized"
        facts = {"model": spec.model.path}
        raise InputError(message, facts=facts, fix="start from the model in FP32")
    before = onnx_model.opset_of(model)
    if any(tensor.data_type == casts.FLOAT16 for tensor in model.graph.initializer):
        model = casts.at_opset(model, casts.QDQ_OPSET, what="int8 in an FP16 model")
    with suppress(InputError):  # else its scales are per tensor
        model = casts.at_opset(model, casts.AXIS_OPSET, what="int8") if spec.per_channel else model
    opset = onnx_model.opset_of(model) or 0
    notes = [f"raised from opset {before} to {opset}, which int8 needs"] * (opset != before)
    stored = {tensor.name for tensor in model.graph.initializer if tensor.data_type == casts.FLOAT}
    kept = {  # TensorRT fuses such additions only into layers with weights
        node.name: "adds a constant"
        for node in model.graph.node
        if node.op_type == "Add" and stored & set(node.input)
    }
    scores = set[str]()  # a mask of -3e38 would leave no steps for them
    for node in reversed(model.graph.node):
        passes = node.op_type in ("Add", "Cast", "Identity", "Max", "Reshape")
        if "Softmax" in node.op_type or (passes and scores & {*node.output}):
            scores.update(node.input)
            if node.op_type == "Add":
                kept.setdefault(node.name, "adds a mask before Softmax")
    kept |= casts.matching_nodes(model, spec.keep)
    if not any(n.op_type in (spec.operators or OPERATORS) and n.name not in kept
               for n in model.graph.node):  # fmt: skip
        raise _nothing_quantized(model, spec)
    _rename_numbered(model.graph)
    named, ready = folder / "named.onnx", folder / "prepared.onnx"
    large = len(onnx_model.save_onnx(model, named)) > 1
    with _errors_of("ONNX Runtime", spec.method):
        # Its symbolic inference needs sympy, fails on many networks, and adds nothing to the types.
        way = {"skip_symbolic_shape": True, "save_as_external_data": large}
        quant_pre_process(str(named), str(ready), **way)
    return ready, kept, notes, opset
