"""Sessions of ONNX Runtime that compute what a file says, on every processor."""

from __future__ import annotations

import platform
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trtbench.core.errors import InputError
from trtbench.core.plugins import optional_library
from trtbench.core.safety import read_text
from trtbench.host.files import temporary_folder
from trtbench.models.onnx_outline import outline_of

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession, SessionOptions

CPU = "CPUExecutionProvider"
_SHARED = "AddInitializerWithOrtValue"
"""In the message of 1.31 for 8-bit weights that several nodes share, on x86 without VNNI."""


def open_onnx(source: str | bytes, options: SessionOptions, **more: Any) -> InferenceSession:
    """Open an ONNX file, or its bytes, in ONNX Runtime; ``more`` goes to the session.

    Avoids results that depend on the processor, and a crash of 1.31.
    """
    if sums_overflow():  # elsewhere exact products take the longer way for nothing
        options.add_session_config_entry("session.x64quantprecision", "1")
    make = partial(optional_library("onnxruntime").InferenceSession, **more)
    if more.get("providers") == [CPU]:
        held = frozenset({"fp16"})
        with suppress(InputError):  # a file that cannot be read is reported by ONNX Runtime
            held = held if isinstance(source, bytes) else outline_of(Path(source)).held
        if "fp16" in held:  # FP16 products of transposed inputs crash in 1.31
            make = partial(make, disabled_optimizers=["MatmulTransposeFusion"])
    try:
        return make(source, options)
    except Exception as problem:  # ONNX Runtime's exceptions have no common base class
        if _SHARED not in str(problem):
            raise
    import onnx

    from trtbench.models.onnx_model import load_onnx, save_onnx

    if isinstance(source, bytes):
        model = onnx.load_model_from_string(source)
    else:
        model = load_onnx(Path(source))
    _give_own_weights(model)
    with temporary_folder() as folder:
        return make(str(save_onnx(model, folder / "model.onnx")[0]), options)


def sums_overflow() -> bool:
    """Say whether sums of products of uint8 and int8 overflow here: on x86 without VNNI."""
    with suppress(OSError, InputError):
        return "x86" in platform.machine() and "vnni" not in read_text(Path("/proc/cpuinfo"))
    return True


def _give_own_weights(model: ModelProto) -> None:
    """Give every node 8-bit weights, and a ``DequantizeLinear`` of them, of its own."""
    from onnx import NodeProto, TensorProto

    from trtbench.models.onnx_model import keep_nodes

    graph, nodes, used = model.graph, list[NodeProto](), Counter[str]()
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].t.data_type == TensorProto.INT8:
            graph.initializer.append(node.attribute[0].t)
            graph.initializer[-1].name = node.output[0]
        else:
            nodes.append(node)
    held = {x.name: x for x in graph.initializer if x.data_type == TensorProto.INT8}
    weights = {name for name, tensor in held.items() if tensor.dims}
    unpacking = (node for node in nodes if node.op_type == "DequantizeLinear")
    makers = {node.output[0]: node for node in unpacking if node.input[0] in weights}
    whole = list[NodeProto]()
    for node in nodes:
        for place, name in enumerate(node.input):
            used[name] += 1
            if name in makers and used[name] > 1:
                own = NodeProto.FromString(makers[name].SerializeToString())
                own.name = own.output[0] = node.input[place] = f"{name}/{used[name]}"
                whole.append(own)
        whole.append(node)
    for number, node in enumerate(whole):
        for place, name in enumerate(node.input if weights.intersection(node.input) else ()):
            if name in held:  # a weight, or its zero point
                graph.initializer.append(held[name])
                graph.initializer[-1].name = node.input[place] = f"{name}/{number}/{place}"
    keep_nodes(graph, whole)
