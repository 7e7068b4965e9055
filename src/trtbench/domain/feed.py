"""Items for a model: where they come from, what a pass over them left, and how layers drift."""

from __future__ import annotations

import shlex
from typing import Any, Literal

from trtbench.domain.conversion import TensorDiff
from trtbench.domain.result import Fact, Scalar
from trtbench.domain.spec import TensorSpec, Value

Distribution = Literal["uniform", "normal"]

LoadedItem = Any
"""An item between a source's ``load`` and ``prepare``: the source alone knows its type."""


class Feed(Value, frozen=True, kw_only=True):
    """Where the items of a pass come from; every side of a comparison gets the same."""

    kind: Literal["random", "arrays", "task"]
    count: int | None = None
    """Of random items, or at most of others."""
    seed: int = 0
    distribution: Distribution = "uniform"
    """Of random floating-point values: uniform from 0 to 1, or normal with deviation 1."""
    ranges: dict[str, tuple[float, float]] = {}
    """By input, the empty name for all others: where uniform values lie; normal ones are around
    the middle, with a sixth of the range as deviation."""
    limits: dict[str, int] = {}
    """By input: numbers that random integers stay below, as a side tells that looks rows up."""
    names: tuple[str, ...] = ()
    """Inputs of the reference: random values and arrays are known by these names."""
    task: str | None = None
    settings: dict[str, Scalar] = {}
    """Of the task."""
    open_batch: int | None = None
    """Batch for models that leave theirs open, where nobody asked for one."""


class Unreadable(Value, frozen=True, kw_only=True):
    """An item that could not be read, and was left out of a pass."""

    place: int
    """Among all items, from 0."""
    name: str
    reason: str


class InferOutcome(Value, frozen=True, kw_only=True):
    """What a pass over all items left beside its chunks of outputs: ``outcome.json``."""

    items: int
    """That were run."""
    unreadable: tuple[Unreadable, ...] = ()
    batch: int
    load_s: float
    """Loading the model."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    inputs_sha256: str
    """Of all items as they were before they took the type of the input, in order."""
    conditions: dict[str, Fact] = {}
    facts: dict[str, Scalar] = {}
    """What the session told of the model."""
    versions: dict[str, str] = {}
    python: str | None = None
    notes: tuple[str, ...] = ()


class LayersSpec(Value, frozen=True, kw_only=True):
    """Two ONNX files whose intermediate tensors shall be compared on ONNX Runtime."""

    reference: str
    candidate: str
    inputs: str
    """An ``.npz`` of arrays by input name."""
    memory_bytes: int = 2**28
    """Of intermediate tensors to hold at a time, for each model."""


class LayerDrift(Value, frozen=True, kw_only=True):
    """How far one intermediate tensor is from the reference's, and what its node added."""

    node: str
    op: str
    position: int
    """Of the node in the reference's graph."""
    diff: TensorDiff
    before: float | None = None
    """The largest relative L2 among the node's own inputs."""
    owner: str | None = None
    """The node it is computed with: of a convolution and the activation after it, the first."""
    added: float | None = None
    """What the node added to that: sqrt(own² - before²)."""


class LayersOutcome(Value, frozen=True, kw_only=True):
    """What comparing two graphs told: ``outcome.json``."""

    drifts: tuple[LayerDrift, ...]
    unmatched: tuple[str, ...] = ()
    """Tensors of the reference that the candidate does not have under the same name."""
    only_candidate: int = 0
    """Tensors that only the candidate has."""
    items: int = 0
    passes: int = 0
    """How often the networks were run, a few tensors at a time."""
    notes: tuple[str, ...] = ()


class LayersChecked(Value, frozen=True, kw_only=True):
    """Drift along a network, and what to do about it."""

    reference: str
    candidate: str
    outcome: LayersOutcome
    keep: tuple[str, ...]
    """Nodes worth keeping in FP32, the one that gains most first."""
    files: tuple[str, ...] = ()

    @property
    def keep_flags(self) -> str:
        """Ready to paste into ``trtbench quantize``."""
        return " ".join(f"--keep {shlex.quote(name)}" for name in self.keep)
