"""An ONNX model as plain values: nodes with the shapes and types that inference found.

Knows nothing of the onnx library; whoever reads a file makes these.
"""

from __future__ import annotations

import math
from collections import Counter

from trtbench.domain.spec import TensorSpec, Value

BITS = {
    "float64": 64, "int64": 64, "uint64": 64, "complex64": 64, "complex128": 128,
    "float32": 32, "int32": 32, "uint32": 32,
    "float16": 16, "bfloat16": 16, "int16": 16, "uint16": 16,
    "int8": 8, "uint8": 8, "bool": 8,
    "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8, "float8e5m2fnuz": 8, "float8e8m0": 8,
    "int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2, "uint2": 2,
}  # fmt: skip
SHORT = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
    "float8e4m3fn": "fp8", "float8e4m3fnuz": "fp8", "float8e5m2": "fp8", "float8e5m2fnuz": "fp8",
    "float4e2m1": "fp4",
}  # fmt: skip
"""What people call a type."""

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...]


class OnnxTensor(Value, frozen=True, kw_only=True):
    """A tensor at the edge of a node."""

    name: str
    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None
    """``None`` when inference could not even tell the rank."""
    weight: bool = False
    """Whether its values are stored in the file."""

    @property
    def dims(self) -> tuple[int, ...] | None:
        """The shape when every dimension is known."""
        if self.shape is None or not all(isinstance(dim, int) for dim in self.shape):
            return None
        return tuple(int(dim) for dim in self.shape if isinstance(dim, int))

    @property
    def elements(self) -> int | None:
        return None if self.dims is None else math.prod(self.dims)

    @property
    def size_bytes(self) -> int | None:
        bits = BITS.get(self.dtype or "")
        return None if bits is None or self.elements is None else -(-self.elements * bits // 8)


class OnnxNode(Value, frozen=True, kw_only=True):
    """One operator."""

    name: str
    op: str
    domain: str = ""
    inputs: tuple[OnnxTensor, ...] = ()
    """An optional input that is left out has the empty name."""
    outputs: tuple[OnnxTensor, ...] = ()
    attributes: dict[str, Attribute] = {}
    quantized: str | None = None
    """Type of its data inputs behind DequantizeLinear, where all of them are."""

    @property
    def precision(self) -> str:
        """What it is computed in, as far as the file tells: ``fp16``, ``int8 (Q/DQ)``, ..."""
        if self.quantized is not None:
            return f"{short_dtype(self.quantized)} (Q/DQ)"
        edges = [*self.inputs, *self.outputs]
        floats = [each.dtype for each in edges if each.dtype in SHORT]
        known = floats or [each.dtype for each in edges if each.dtype]
        return short_dtype(known[0]) if known else "unknown"


class OnnxModel(Value, frozen=True, kw_only=True):
    """What an ONNX file holds."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    nodes: tuple[OnnxNode, ...]
    opsets: dict[str, int]
    ir_version: int
    producer: str | None
    metadata: dict[str, str]
    parameters: int
    """Elements of all stored weights; scales, zero points, indices and shapes are not counted."""
    weight_bytes: int
    """Of everything that is stored, parameter or not."""
    weights_by_type: dict[str, int]
    """Parameters, by the type they are stored in."""
    external_files: tuple[str, ...] = ()
    assumed: dict[str, int] = {}
    """Values that open dimensions were given for the estimates."""
    notes: tuple[str, ...] = ()

    @property
    def opset(self) -> int | None:
        return self.opsets.get("")

    def operators(self) -> dict[tuple[str, str], int]:
        """Count nodes by kind and precision, the most frequent first."""
        return dict(Counter((node.op, node.precision) for node in self.nodes).most_common())


def short_dtype(dtype: str) -> str:
    """Name a type as precisions are: ``float16`` is ``fp16``; integers keep their names."""
    return SHORT.get(dtype, dtype)
