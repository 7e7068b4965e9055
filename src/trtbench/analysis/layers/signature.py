"""What a layer must have in common with another to be taken for it: family, shape, operators."""

from __future__ import annotations

import re

from trtbench.analysis.layers.layer import Layer

_FAMILIES = {
    "convolution": "product", "convactpool": "product", "deconvolution": "product",
    "gemm": "product", "fusion": "product", "matrixmultiply": "product",
    "fullyconnected": "product", "gemmconvolution": "product",
    "pooling": "pooling", "pointwise": "pointwise", "elementwise": "pointwise",
}  # fmt: skip
_CLAMPS = ("Relu", "Clip", "LeakyRelu")
"""Operators that a kernel takes in without a word, so that names may lack them."""


def family_of(layer: Layer) -> str | None:
    """Name the family: a convolution, a product of matrices and their fusions are one."""
    kind = (layer.kind or "").lower()
    return _FAMILIES.get(kind, kind) or None


def signature_of(layer: Layer) -> tuple[object, ...]:
    """Tell what two layers must agree in: family and output without batch, else their names."""
    if layer.shape_out is None:
        return (re.sub(r"\d+", "#", layer.name),)
    dims = tuple(dim for dim in layer.shape_out.split("x")[1:] if dim != "1")
    return family_of(layer), dims


def operators_of(layer: Layer) -> tuple[str, ...]:
    """List the operators of a layer that make it what it is: without Q/DQ and clamps."""
    return tuple(
        name for name in layer.operators if "QuantizeLinear" not in name and name not in _CLAMPS
    )
