"""What to try against each cause, and the command for it."""

from __future__ import annotations

import shlex

from trtbench.analysis.layers.layer import Layer
from trtbench.analysis.layers.signature import operators_of

_REMEDIES = {
    "precision": (
        "see which nodes have no Q/DQ around them, and quantize them too",
        "trtbench quantize MODEL.onnx --precision {asked}",
    ),
    "reformat": (
        "let neighbours agree in type: quantize both inputs of every Add and Concat, or leave "
        "small islands out",
        "trtbench quantize MODEL.onnx --precision {asked} --exclude 'NODE*'",
    ),
    "fusion": (
        "give the builder more time to find the fusion, or move the Q/DQ that splits it",
        "trtbench build MODEL.onnx --optimization-level 5",
    ),
    "memory": (
        "no narrower arithmetic helps: fuse with neighbours, or store narrower tensors",
        "trtbench layers CANDIDATE --by bound",
    ),
    "dominant": (
        "look at this layer first: the rest cannot make up for it",
        "trtbench layers CANDIDATE --filter {name}",
    ),
    "kernel": (
        "let the builder time more kernels, and time them anew",
        "trtbench build MODEL.onnx --optimization-level 5 --no-timing-cache",
    ),
    "rest": (
        "compare their kernels one by one",
        "trtbench diff BASELINE CANDIDATE --all",
    ),
    "added": (
        "see what they are for; Q/DQ that was not folded shows as layers of its own",
        "trtbench diff BASELINE CANDIDATE",
    ),
    "clocks": (
        "measure both at one clock",
        "trtbench profile CANDIDATE --lock-clocks base",
    ),
    "enqueue": (
        "launch as a CUDA graph",
        "trtbench bench CANDIDATE --cuda-graph on",
    ),
    "transfers": (
        "keep tensors on the GPU, or let inputs have the narrower type",
        "trtbench bench CANDIDATE --no-transfers",
    ),
    "batch": (
        "more items per query, or several queries at a time",
        "trtbench bench CANDIDATE --batch 8",
    ),
    "interruption": (
        "quantize this node too, take it out, or leave its neighbours unquantized",
        "trtbench quantize MODEL.onnx --precision {asked} --op Conv --op Gemm --op {op}",
    ),
}


def remedy_for(code: str, layer: Layer | None, asked: str | None) -> tuple[str, str]:
    """Write words and a command; names are quoted for a shell."""
    words, command = _REMEDIES[code]
    operators = operators_of(layer) if layer else ()
    filled = command.format(
        asked=asked if asked in ("int8", "fp8", "fp16", "bf16") else "int8",
        op=operators[0] if operators else "KIND",
        name=shlex.quote(layer.name if layer else "NAME"),
    )
    return words, filled
