"""Loads, checks, saves and inspects ONNX files with the onnx library.

The shape inference of onnx stops at arithmetic with dimensions: exporters write ``x.chunk(2)`` as
Shape, Gather, Add, Div and Slice. With fixed input shapes these nodes are constant, so they are
computed here and inference continues after them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trtbench.analysis.onnx_graph import BITS, Attribute, OnnxModel, OnnxNode, OnnxTensor
from trtbench.core import safety as boundary
from trtbench.core.errors import InputError, first_line, writing
from trtbench.core.plugins import optional_library
from trtbench.core.samples import AnyArray
from trtbench.core.spec import NO_TENSORS, TensorSpec
from trtbench.host.files import utf8_path
from trtbench.host.process import guarded
from trtbench.models.identity import external_files
from trtbench.models.inputs import refuse_unknown_inputs, with_assumed_shapes, with_given_shapes

if TYPE_CHECKING:
    from google.protobuf.message import Message  # type: ignore[import-untyped]
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

ONE_FILE_BYTES = 2**31 - 2**24
"""Protobuf messages are limited to 2 GiB; 16 MiB are left for everything but weights."""
SMALL_BYTES = 4096  # tensors up to this size are always loaded, because shapes may depend on them
SECONDS, SECONDS_PER_NODE = 20.0, 0.01
"""How long shape inference may take; functions within functions can make it endless."""
_QDQ = ("QuantizeLinear", "DequantizeLinear")
_ARITHMETIC = frozenset((
    "Add", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Floor",
    "Gather", "Identity", "Max", "Min", "Mod", "Mul", "Neg", "Range", "ReduceProd", "Reshape",
    "Slice", "Squeeze", "Sub", "Unsqueeze", "Where",
))  # fmt: skip

_UNPARSED = frozenset((
    "AffineGrid", "Bernoulli", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor",
    "CenterCropPad", "Col2Im", "Compress", "ConcatFromSequence", "ConvInteger", "DFT", "Det",
    "DynamicQuantizeLinear", "ImageDecoder", "MatMulInteger", "MaxRoiPool", "MaxUnpool",
    "MelWeightMatrix", "Multinomial", "NegativeLogLikelihoodLoss", "Optional",
    "OptionalGetElement", "OptionalHasElement", "QLinearConv", "QLinearMatMul", "RegexFullMatch",
    "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
    "SequenceLength", "SequenceMap", "SoftmaxCrossEntropyLoss", "SplitToSequence", "StringConcat",
    "StringNormalizer", "StringSplit", "TfIdfVectorizer", "Unique",
))  # fmt: skip
"""Operators of ONNX that no version of TensorRT parses (onnx-tensorrt operators.md, 10.15)."""
_UNPARSED_TYPES = ("str", "uint16", "uint32", "uint64", "int16", "complex64", "complex128")

Shapes = Mapping[str, tuple[int, ...]]


def load_onnx(path: Path, *, weights: bool = True) -> ModelProto:
    """Return the model in an ONNX file; without weights, only small external tensors are loaded."""
    onnx = optional_library("onnx")
    from google.protobuf.message import DecodeError

    def damaged(reason: object) -> InputError:
        message = f"{path.name} is not an ONNX file, or it is damaged"
        return InputError(message, facts={"reason": reason}, fix="copy or export the model again")

    try:
        model: ModelProto = onnx.load(str(path), load_external_data=False)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except OSError as problem:
        raise InputError(f"{path} cannot be read", facts={"reason": problem.strerror}) from None
    except (DecodeError, ValueError) as problem:
        raise damaged(problem) from None
    if not all(isinstance(each, str) for each in _strings(model)):  # bytes are invalid UTF-8
        raise damaged("a name in it is not UTF-8")
    if not model.graph.node and not model.graph.output:
        raise damaged("it has no graph")
    try:
        _load_external_tensors(model, path.parent, everything=weights)
    except (ValueError, OverflowError, OSError) as problem:  # weights that are at no place
        raise damaged(boundary.shown(str(problem), most=200)) from None
    return model


def _strings(message: Message) -> Iterator[object]:
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            yield from [value] if isinstance(value, str | bytes) else value
        elif field.type == field.TYPE_MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from _strings(inner)


def _load_external_tensors(model: ModelProto, folder: Path, *, everything: bool) -> None:
    """Load tensors from external files: all of them, or only the small ones."""
    from onnx import external_data_helper as helper

    for tensor in filter(helper.uses_external_data, stored_tensors(model.graph)):
        info = helper.ExternalDataInfo(tensor)
        if not (everything or (info.length or SMALL_BYTES + 1) <= SMALL_BYTES):
            continue
        if not boundary.inside(folder, info.location, what="file of weights").is_file():
            if not everything:
                continue
            missing = folder / info.location
            fix = f"put {missing.name} next to the model"
            what = "the file with the weights of the model is missing"
            raise InputError(what, facts={"missing": missing}, fix=fix)
        helper.load_external_data_for_tensor(tensor, str(folder))
        tensor.ClearField("data_location")
        del tensor.external_data[:]


def save_onnx(model: ModelProto, path: Path) -> tuple[Path, ...]:
    """Write a model to one file, or with a separate ``.data`` file if it is too large."""
    import onnx

    large = stored_bytes(model) > ONE_FILE_BYTES
    data = path.with_name(path.name + ".data")
    with writing(path):
        data.unlink(missing_ok=True)  # onnx would append to it
        onnx.save_model(model, str(path), save_as_external_data=large, location=data.name)
    return (path, data) if large else (path,)


def stored_bytes(model: ModelProto) -> int:
    """Return the size of all tensors; protobuf cannot compute a size over 2 GiB itself."""
    return sum(each.ByteSize() for each in stored_tensors(model.graph))


def check_onnx(path: Path, *, shapes: bool = True, source: Path | None = None) -> None:
    """Raise an error if a model is not valid ONNX or its shapes contradict each other.

    Unknown operators are allowed: they may be TensorRT plugins, which can be in any domain. So are
    contradictions if the ``source``, of which the model was made, has some, too.
    """
    import onnx

    try:
        onnx.checker.check_model(str(utf8_path(path)), full_check=shapes)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as problem:
        if source is not None:
            try:
                check_onnx(source)
            except InputError:
                return check_onnx(path, shapes=False)
        reason = " ".join(str(problem).split()).split(" ==> ")[0]  # without the context, a dump
        if not reason.startswith("No Op registered for "):
            message, facts = f"{path.name} is not a valid ONNX model", {"reason": reason}
            raise InputError(message, facts=facts, fix="export the model again") from None


def parser_obstacle(path: Path, model: OnnxModel) -> str | None:
    """Name an operator, tensor or fault of a model that TensorRT's parser refuses, if any."""
    import onnx

    types: dict[str, str | None] = {x.name: x.dtype for x in (*model.inputs, *model.outputs)}
    types |= {x.name: x.dtype for node in model.nodes for x in (*node.inputs, *node.outputs)}
    for name, dtype in types.items():
        if dtype in (*_UNPARSED_TYPES, *NO_TENSORS):
            return f"the tensor {name} holds {dtype}, which TensorRT has no type for"
    proto = load_onnx(path, weights=False)
    own = {each.name for each in onnx.defs.get_all_schemas() if not each.domain}
    own |= {each.name for each in proto.functions}
    waiting = [*proto.graph.node, *(node for each in proto.functions for node in each.node)]
    for node in waiting:  # grows by the bodies of If, Loop and Scan
        waiting += [inner for body in subgraphs(node) for inner in body.node]
        named = f"{node.op_type} (node {node.name})" if node.name else node.op_type
        if node.op_type in _UNPARSED:
            return f"TensorRT's parser does not support the operator {named}"
        if node.op_type not in own and not node.op_type.startswith("TRT_"):
            return f"{named} is no operator of ONNX: it needs a plug-in of that name"
    try:
        guarded(lambda: check_onnx(path, shapes=False), what="the model", seconds=SECONDS)
    except InputError as problem:
        return f"the model is not valid: {problem.facts.get('reason') or problem.message}"
    return None


def opset_of(model: ModelProto, domain: str = "") -> int | None:
    """Return the opset of a domain, by default of the standard operators."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    return versions.get(domain if domain != "ai.onnx" else "")


def stored_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """Yield every tensor stored in a graph and its subgraphs."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for each in subgraphs(node):
            yield from stored_tensors(each)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the subgraphs of If, Loop and Scan nodes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def names_read(node: NodeProto) -> set[str]:
    found = {name for name in node.input if name}
    for body in subgraphs(node):
        found |= {name for inner in body.node for name in names_read(inner)}
        found |= {value.name for value in body.output}
    return found


def sort_nodes(graph: GraphProto) -> None:
    """Sort the nodes of a graph topologically, in place."""
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    read = enumerate(map(names_read, graph.node))
    needs = {index: {makers[name] for name in names if name in makers} for index, names in read}
    if any(index <= each for index, found in needs.items() for each in found):
        with suppress(CycleError):  # an invalid model, reported elsewhere
            order = [*TopologicalSorter(needs).static_order()]
            keep_nodes(graph, [graph.node[index] for index in order])


def keep_nodes(graph: GraphProto, nodes: list[NodeProto]) -> None:
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def dtype_name(kind: int) -> str:
    """Return numpy's name of an ONNX type, or ONNX's name if numpy lacks the type."""
    from onnx import TensorProto

    if kind not in TensorProto.DataType.values():
        raise InputError(f"the model holds a tensor of the unknown type {kind}")
    name = str(TensorProto.DataType.Name(kind)).lower()
    return {"float": "float32", "double": "float64", "string": "str"}.get(name, name)


def spec_from_value(value: ValueInfoProto) -> TensorSpec:
    kind = (value.type.WhichOneof("value") or "").removesuffix("_type").replace("_", " ")
    if kind in NO_TENSORS:
        return TensorSpec(name=value.name, dtype=kind, shape=())
    dtype = dtype_name(value.type.tensor_type.elem_type)
    return TensorSpec(name=value.name, dtype=dtype, shape=_shape(value) or ())


def input_specs(model: ModelProto) -> tuple[TensorSpec, ...]:
    """Return the inputs that a caller must feed."""
    return tuple(map(spec_from_value, _real_inputs(model)))


def _shape(value: ValueInfoProto) -> tuple[int | str | None, ...] | None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    known = ((dim.HasField("dim_value"), dim) for dim in tensor.shape.dim)
    return tuple(dim.dim_value if fixed else (dim.dim_param or None) for fixed, dim in known)


def _real_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """Return the inputs without weights, which old files list as inputs."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in stored]


def read_onnx(path: Path, *, shapes: Shapes | None = None, batch: int | None = None) -> OnnxModel:
    """Return a model with the shape of every tensor; dynamic dimensions get a size.

    Without given shapes, a dynamic first dimension is the batch; others get a size by their
    name, or 1. ``assumed`` has the sizes.
    """

    def shown(value: ValueInfoProto) -> TensorSpec:  # an unknown shape is not a scalar
        spec = spec_from_value(value)
        known = spec.dtype in NO_TENSORS or _shape(value) is not None
        return spec if known else spec.having(shape=("unknown shape",))

    model = load_onnx(path, weights=False)
    specs, outputs = tuple(map(shown, _real_inputs(model))), tuple(map(shown, model.graph.output))
    counts = _count_stored(model)
    for tensor in model.graph.initializer:  # inference copies the model, and needs no weights
        if len(tensor.raw_data) > SMALL_BYTES:
            tensor.ClearField("raw_data")
        if len(tensor.float_data) * 4 > SMALL_BYTES:
            tensor.ClearField("float_data")
    assumed = _set_dynamic_dimensions(model, shapes or {}, batch=batch or 1)
    notes: tuple[str, ...] = ()
    values: list[ValueInfoProto] = []
    try:
        values = inferred_tensors(model)
    except Exception as problem:  # onnx raises several types; the model is returned without shapes
        notes = (f"shapes could not be inferred: {first_line(problem)}",)
    return OnnxModel(
        inputs=specs,
        outputs=outputs,
        nodes=_nodes(model, values),
        opsets={entry.domain: entry.version for entry in model.opset_import},
        ir_version=model.ir_version,
        producer=" ".join(filter(None, (model.producer_name, model.producer_version))) or None,
        metadata={entry.key: entry.value for entry in model.metadata_props},
        external_files=external_files(path),
        assumed=assumed,
        notes=notes,
        **counts,
    )


def count_parameters(path: Path) -> int:
    """Return the number of parameters as in ``read_onnx``, without shape inference."""
    return int(_count_stored(load_onnx(path, weights=False))["parameters"])


def _count_stored(model: ModelProto) -> dict[str, Any]:
    """Return parameters and bytes; scales and zero points do not count as parameters."""
    helpers = {name for node in model.graph.node if node.op_type in _QDQ for name in node.input[1:]}
    parameters: dict[str, int] = {}
    total = 0
    for tensor in stored_tensors(model.graph):
        dtype, elements = dtype_name(tensor.data_type), math.prod(tensor.dims)
        total += -(-elements * BITS.get(dtype, 0) // 8)
        indices = dtype in ("int64", "int32", "uint64", "uint32", "bool", "str")
        if not indices and tensor.name not in helpers:
            parameters[dtype] = parameters.get(dtype, 0) + elements
    count = sum(parameters.values())
    return {"parameters": count, "weight_bytes": total, "weights_by_type": parameters}


def _set_dynamic_dimensions(model: ModelProto, shapes: Shapes, *, batch: int) -> dict[str, int]:
    """Set the dynamic dimensions of the inputs, and return their sizes by name."""
    declared = input_specs(model)
    refuse_unknown_inputs(shapes, [each.name for each in declared])
    assumed: dict[str, int] = {}
    settled = with_assumed_shapes(with_given_shapes(declared, shapes, batch=batch))
    for value, known in zip(_real_inputs(model), settled, strict=True):
        dims = value.type.tensor_type.shape.dim
        for axis, (dim, size) in enumerate(zip(dims, known.shape, strict=False)):
            assert isinstance(size, int)
            if not dim.HasField("dim_value"):
                assumed[dim.dim_param or f"{value.name}[{axis}]"] = size
            dim.dim_value = size
    # Shapes inferred with dynamic dimensions may contradict the sizes.
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return assumed


def _nodes(model: ModelProto, values: list[ValueInfoProto]) -> tuple[OnnxNode, ...]:
    from onnx import AttributeProto, helper

    graph, kinds = model.graph, AttributeProto.AttributeType
    tensors: dict[str, OnnxTensor] = {}
    for value in (*graph.input, *graph.output, *values):
        known = value.type.HasField("tensor_type") and value.type.tensor_type.elem_type != 0
        tensors[value.name] = OnnxTensor(
            name=value.name,
            dtype=dtype_name(value.type.tensor_type.elem_type) if known else None,
            shape=_shape(value) if known else None,
        )
    for tensor in graph.initializer:
        dtype, dims = dtype_name(tensor.data_type), tuple(tensor.dims)
        tensors[tensor.name] = OnnxTensor(name=tensor.name, dtype=dtype, shape=dims, weight=True)
    for node in graph.node:
        stored = node.op_type == "DequantizeLinear" and tensors.get(node.input[0])
        if stored and stored.weight:
            made = tensors.get(node.output[0], OnnxTensor(name=node.output[0]))
            tensors[node.output[0]] = made.having(weight=True)
    sources = {name: node for node in graph.node for name in node.output}
    found = []
    for index, node in enumerate(graph.node):
        attributes: dict[str, Attribute] = {}
        for each in node.attribute:  # numbers and strings; tensors and graphs are skipped
            if each.type == kinds.STRING:
                attributes[each.name] = str(each.s.decode("utf-8", "replace"))
            elif each.type in (kinds.INT, kinds.FLOAT, kinds.INTS, kinds.FLOATS):
                value = helper.get_attribute_value(each)
                number = isinstance(value, int | float)
                attributes[each.name] = value if number else tuple(value)
        found.append(
            OnnxNode(
                name=node.name or f"{node.op_type}_{index}",
                op=node.op_type,
                domain=node.domain,
                inputs=tuple(tensors.get(name, OnnxTensor(name=name)) for name in node.input),
                outputs=tuple(tensors.get(name, OnnxTensor(name=name)) for name in node.output),
                attributes=attributes,
                quantized=_quantized_type(node, tensors, sources),
            )
        )
    return tuple(found)


def _quantized_type(
    node: NodeProto, tensors: Mapping[str, OnnxTensor], sources: Mapping[str, NodeProto]
) -> str | None:
    """Return the quantized type of an operator whose data and weights are all dequantized."""
    kinds = set()
    weighted = node.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul")
    for name in list(node.input)[: 2 if weighted else 0]:
        maker = sources.get(name)
        while maker is not None and maker.op_type in ("Transpose", "Reshape", "Identity", "Cast"):
            maker = sources.get(maker.input[0])
        if maker is None or maker.op_type != "DequantizeLinear":
            return None
        if maker.input[0] in tensors:
            kinds.add(tensors[maker.input[0]].dtype)
    return kinds.pop() if len(kinds) == 1 else None


def inferred_tensors(model: ModelProto) -> list[ValueInfoProto]:
    """Return type and shape of every tensor, as far as known; the model is not changed."""
    import onnx

    def infer() -> bytes:
        work = onnx.ModelProto()
        work.CopyFrom(model)
        for _ in range(100):  # each gets past one more stage of a network
            inferred = onnx.shape_inference.infer_shapes(work, data_prop=True)
            if not _fold_dimensions(inferred):
                break
            work = inferred
            del work.graph.value_info[:]
        for tensor in inferred.graph.initializer:
            tensor.ClearField("raw_data")
        return bytes(inferred.SerializeToString())

    seconds = SECONDS + len(model.graph.node) * SECONDS_PER_NODE
    graph = onnx.ModelProto.FromString(guarded(infer, what="the model", seconds=seconds)).graph
    make = onnx.helper.make_tensor_value_info
    stored = [make(each.name, each.data_type, list(each.dims)) for each in graph.initializer]
    return [*stored, *graph.value_info, *graph.input, *graph.output]


def _fold_dimensions(model: ModelProto) -> bool:
    """Replace nodes that only compute dimensions by constants; return whether there were any."""
    from onnx import numpy_helper

    graph = model.graph
    shapes = {}
    for value in (*graph.value_info, *graph.input):
        tensor = value.type.tensor_type
        dims = tensor.shape.dim
        if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
            shapes[value.name] = [dim.dim_value for dim in dims]
    shapes |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    known = {  # larger tensors may not be loaded
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in graph.initializer
        if math.prod(tensor.dims) * 8 <= SMALL_BYTES and not tensor.external_data
    }
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constant = numpy_helper.to_array(node.attribute[0].t)
            if constant.nbytes <= SMALL_BYTES:
                known[node.output[0]] = constant
    outputs = {value.name for value in graph.output}
    folded: list[NodeProto] = []
    for node in graph.node:
        result = _constant_output(node, shapes, known, model)
        if result is None or result.nbytes > SMALL_BYTES or node.output[0] in outputs:
            continue
        known[node.output[0]] = result
        graph.initializer.append(numpy_helper.from_array(result, node.output[0]))
        folded.append(node)
    for node in folded:
        graph.node.remove(node)
    return bool(folded)


def _constant_output(
    node: NodeProto,
    shapes: Mapping[str, list[int]],
    known: Mapping[str, AnyArray],
    model: ModelProto,
) -> AnyArray | None:
    """Return the output of a node, by the reference of ONNX; ``None`` if it is not constant."""
    from onnx.reference import ReferenceEvaluator

    if node.op_type == "Shape" and node.input[0] in shapes:
        dims = np.array(shapes[node.input[0]], np.int64)
        ends: dict[str, int] = {str(each.name): int(each.i) for each in node.attribute}
        return dims[ends.get("start", 0) : ends.get("end", len(dims))]
    names = [name for name in node.input if name]
    if node.op_type not in _ARITHMETIC or not names or not all(name in known for name in names):
        return None
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    try:
        evaluator = ReferenceEvaluator(node, opsets=opsets)
        results: Any = evaluator.run(None, {name: known[name] for name in names})
    except Exception:  # what cannot be computed stays unknown
        return None
    return np.asarray(results[0])
