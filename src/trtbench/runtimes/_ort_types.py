"""In which types ONNX Runtime computed, after its own rewriting: by the trace of one run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.domain.labels import name_of
from trtbench.domain.result import Scalar
from trtbench.domain.spec import ModelRef
from trtbench.models.onnx_outline import outline_of
from trtbench.models.onnx_types import few_bits
from trtbench.runtimes._ort_layers import TraceEvent, end_trace, is_kernel
from trtbench.runtimes._session import Arrays

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_COMPUTES = re.compile(r"Conv|MatMul|Gemm|LSTM|GRU|RNN|Attention|Einsum")
"""Operators that multiply, fused ones too: what is between them goes along."""
_TYPES = {"float": "fp32", "float16": "fp16", "bfloat16": "bf16", "double": "fp64"}


LARGEST_BYTES = 1 << 28
"""A larger model is not loaded a second time only to look at it."""


def computed_elsewise(model: ModelRef, run: Callable[[], list[TraceEvent]]) -> dict[str, Scalar]:
    """Tell what nodes multiplied in, where it is none of the types that a file holds."""
    try:
        held = outline_of(Path(model.path)).held
        small = (model.size_bytes or 0) <= LARGEST_BYTES
        ran = types_of_trace(run(), held) if held and small else frozenset()
    except Exception:  # ONNX Runtime's exceptions share no base class; the number stands without
        return {}
    return {"computes_in": name_of(ran)} if ran and not ran & held else {}


def traced(session: InferenceSession, names: list[str], feed: Arrays) -> list[TraceEvent]:
    """Run a session that was opened with profiling on once."""
    session.run(names, feed)
    return end_trace(session)


def types_of_trace(events: Iterable[TraceEvent], held: frozenset[str]) -> frozenset[str]:
    """Name the types that nodes multiplied in; of packed weights, those that the file holds."""
    found: set[str] = set()
    for event in filter(is_kernel, events):
        arguments = event.get("args", {})
        operator = str(arguments.get("op_name", ""))
        if packed := few_bits(operator):
            found |= {packed} if packed in held else held
        elif _COMPUTES.search(operator):
            kinds = [kind for each in arguments.get("input_type_shape", ()) for kind in each]
            found |= {_TYPES[kind] for kind in kinds if kind in _TYPES}
    return frozenset(found)
