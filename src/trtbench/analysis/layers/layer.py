"""One layer of an engine with all that is known of it, and the table of all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from trtbench.domain.spec import Value

Role = Literal["compute", "reformat", "cast", "quantize", "copy", "constant", "nothing"]
"""What a layer is there for.

compute   does work of the network
reformat  changes the layout of a tensor, not its type
cast      changes between floating-point types
quantize  changes to or from INT8, FP8, INT4 or FP4
copy      moves a tensor, as DLA does to and from its own memory
constant  holds weights
nothing   runs no kernel (NoOp, shape calls)
"""

CONVERSIONS: tuple[Role, ...] = ("reformat", "cast", "quantize", "copy")
"""Roles that do nothing for the network but make tensors fit."""

QUANTIZED = ("int8", "fp8", "int4", "fp4", "uint8")
"""Types that a network has to be quantized for."""

Basis = Literal["tactic", "weights", "inputs", "outputs"]
"""What tells the type that computes, the surest first."""

Bound = Literal["compute", "memory"]


class Layer(Value, frozen=True, kw_only=True):
    """One layer; what no source tells is ``None`` or empty."""

    index: int
    """Place in the order of execution, from 0."""
    name: str
    kind: str | None = None
    """What it is, in the inspector's words: ``Convolution``, ``gemm``, ``Reformat``."""
    role: Role = "compute"
    precision: str | None = None
    """The type that computes: an INT8 convolution with an FP32 output computes in INT8."""
    precision_basis: Basis | None = None
    precision_in: str | None = None
    precision_out: str | None = None
    shape_in: str | None = None
    shape_out: str | None = None
    time_s: float | None = None
    """Average per inference; ``None`` where the layer was not timed."""
    median_s: float | None = None
    min_s: float | None = None
    max_s: float | None = None
    share: float | None = None
    """Of the sum over all layers, from 0 to 1."""
    tactic: str | None = None
    stream: int | None = None
    weights: int | None = None
    """Parameters it holds."""
    nodes: tuple[str, ...] = ()
    """ONNX nodes it came from."""
    operators: tuple[str, ...] = ()
    """Kinds of these nodes: ``Conv``, ``MatMul``; from their names where the model is not there."""
    asked: str | None = None
    """Type that the model asks for, where Q/DQ or typed nodes say so."""
    flops: int | None = None
    traffic_bytes: int | None = None
    """What it must at least read and write."""
    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    roofline: float | None = None
    """Achieved share of what the GPU allows at this intensity, from 0 to 1."""
    bound: Bound | None = None
    region: str | None = None
    """Myelin's region, where the layer is one kernel of it."""
    reads: tuple[str, ...] = ()
    """Names of the tensors it takes."""
    writes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Its time, nothing where it was not timed."""
        return self.time_s or 0.0

    @property
    def converts(self) -> bool:
        return self.role in CONVERSIONS


class LayerTable(Value, frozen=True, kw_only=True):
    """The layers of one engine in the order of execution."""

    layers: tuple[Layer, ...]
    count: int | None = None
    """Inferences that the times are averages over; ``None`` when nobody says."""
    timed: bool = False
    detailed: bool = False
    """Whether more than names is known of the layers."""
    gpu: str | None = None
    """The GPU in the table of GPUs, where it is known."""
    tensors: dict[str, str] = {}
    """Types of the tensors between layers, by name."""
    notes: tuple[str, ...] = ()
    """What the reader must know: sources that do not fit, guesses."""

    @property
    def total_s(self) -> float | None:
        """Sum of all layer times; ``None`` where nothing was timed."""
        return total_s(self.layers) if self.timed else None


def total_s(layers: Iterable[Layer]) -> float:
    """Add up layer times; what was not timed adds nothing."""
    return math.fsum(layer.seconds for layer in layers)
