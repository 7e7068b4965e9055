"""From an ONNX file to a TensorRT network: creation flags, parsing, what the parser objects to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.domain.spec import TensorSpec, Value
from trtbench.errors import InputError
from trtbench.host.tensorrt import Abilities, version_numbers

if TYPE_CHECKING:
    from tensorrt import (
        IBuilder,
        ILayer,
        ILogger,
        INetworkDefinition,
        ITensor,
        OnnxParser,
        ParserError,
    )

DTYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
    "FP8": "float8_e4m3fn",
    "INT4": "int4",
    "FP4": "float4_e2m1fn",
}
"""Members of ``DataType`` by numpy's and ONNX's names."""

_PRINTED = {"FLOAT": "Float", "HALF": "Half", "INT8": "Int8", "INT32": "Int32", "BOOL": "Bool"}
"""As the engine inspector words them."""


class ParserProblem(Value, frozen=True, kw_only=True):
    """One objection of the ONNX parser."""

    text: str
    code: str
    index: int
    """Number of the node in the file; below zero when it is about none."""
    node: str = ""
    operator: str = ""
    """Empty where the version does not tell."""


def create_network(
    trt: ModuleType, builder: IBuilder, *, abilities: Abilities, strong: bool
) -> INetworkDefinition:
    """Create a network whose batch is explicit, and which holds to its types if asked to.

    TensorRT 8 needs a flag for the first and 10 one for the second; 11 knows nothing else.
    """
    flags = 0
    kind = trt.NetworkDefinitionCreationFlag
    if abilities.weak and version_numbers(abilities.version) < (10,):
        flags |= 1 << int(kind.EXPLICIT_BATCH)
    if strong and abilities.strong:
        flags |= 1 << int(kind.STRONGLY_TYPED)
    return builder.create_network(flags)


def parse_onnx(parser: OnnxParser, *, path: Path) -> tuple[ParserProblem, ...]:
    """Parse a file into the parser's network; weights beside it are found from any folder.

    The parser holds weights that the network refers to: it must live as long as that one.
    """
    if parser.parse_from_file(os.fspath(path.absolute())):
        return ()
    problems = tuple(_problem(parser.get_error(index)) for index in range(parser.num_errors))
    return problems or (ParserProblem(text="the parser gave no reason", code="", index=-1),)


def _problem(problem: ParserError) -> ParserProblem:
    named = hasattr(problem, "node_name")
    return ParserProblem(
        text=str(problem.desc()),
        code=str(getattr(problem.code(), "name", problem.code())),
        index=int(problem.node()),
        node=str(problem.node_name() or "") if named else "",
        operator=str(problem.node_operator() or "") if named else "",
    )


def load_plugins(trt: ModuleType, logger: ILogger, paths: Sequence[str]) -> None:
    """Register NVIDIA's plugins and load the libraries of others."""
    trt.init_libnvinfer_plugins(logger, "")
    registry = trt.get_plugin_registry()
    for path in paths:
        if not Path(path).is_file():
            raise InputError(f"there is no plugin library {path}")
        if registry.load_library(os.fspath(Path(path).absolute())) is None:
            raise InputError(f"the plugin library {path} cannot be loaded")


def inputs_of(network: INetworkDefinition) -> tuple[TensorSpec, ...]:
    """Describe the inputs; a dimension of -1 may change."""
    return tuple(tensor_spec(network.get_input(index)) for index in range(network.num_inputs))


def outputs_of(network: INetworkDefinition) -> tuple[TensorSpec, ...]:
    return tuple(tensor_spec(network.get_output(index)) for index in range(network.num_outputs))


def tensor_spec(tensor: ITensor) -> TensorSpec:
    name = str(getattr(tensor.dtype, "name", tensor.dtype))
    shape = tuple(dim if dim >= 0 else None for dim in _dims(tensor))
    return TensorSpec(name=tensor.name, dtype=DTYPES.get(name, name.lower()), shape=shape)


def layers_of(network: INetworkDefinition) -> dict[str, object]:
    """Write the network's layers in the manner of the engine inspector, before any is fused."""
    layers = [_layer(network.get_layer(index)) for index in range(network.num_layers)]
    tensors = [each.name for each in (*inputs_of(network), *outputs_of(network))]
    return {"Layers": layers, "Bindings": tensors, "Source": "network before optimization"}


def _layer(layer: ILayer) -> dict[str, object]:
    inputs = [layer.get_input(index) for index in range(layer.num_inputs)]
    outputs = [layer.get_output(index) for index in range(layer.num_outputs)]
    return {
        "Name": layer.name,
        "LayerType": str(getattr(layer.type, "name", layer.type)),
        "Inputs": [_edge(tensor) for tensor in inputs if tensor is not None],
        "Outputs": [_edge(tensor) for tensor in outputs if tensor is not None],
        "Metadata": layer.metadata,
    }


def _edge(tensor: ITensor) -> dict[str, object]:
    name = str(getattr(tensor.dtype, "name", tensor.dtype))
    return {
        "Name": tensor.name,
        "Dimensions": list(_dims(tensor)),
        "Format/Datatype": _PRINTED.get(name, name),
    }


def _dims(tensor: ITensor) -> tuple[int, ...]:
    try:
        return tuple(int(dim) for dim in tensor.shape)
    except ValueError:  # what pybind11 raises for a rank that is not known yet
        return ()
