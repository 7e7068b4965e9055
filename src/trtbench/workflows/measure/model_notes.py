"""What is known of a model and must be said with its numbers: precision, scales of random data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trtbench.analysis.flops import cost_from_model
from trtbench.analysis.layers.computing import denied_by, types_of_layers
from trtbench.analysis.onnx_stamp import (
    PREPARATION,
    RANDOM_DATA,
    notes_from_metadata,
    preparation_from_text,
    stamp_from_metadata,
)
from trtbench.build.onnx_file import load_onnx
from trtbench.build.onnx_read import read_onnx
from trtbench.domain.labels import fits, name_of
from trtbench.domain.result import Fact, RunRecord, Scalar, precision_in, precision_of
from trtbench.domain.samples import EngineGraph
from trtbench.domain.spec import ModelRef, RunSpec, TensorSpec
from trtbench.errors import InputError, TrtbenchError, UnavailableError
from trtbench.models.onnx_outline import outline_of
from trtbench.models.sidecar import read_sidecar, record_of_engine, source_of
from trtbench.runtimes._session import assumed_of, refuse_undrawn

LARGEST_COUNTED_BYTES = 1 << 30
"""A larger file is not read only to count its operations."""


def stamps_of_engine(model: ModelRef) -> tuple[str, ...]:
    """Read stamps in the record beside an engine."""
    record = record_of_engine(model)
    return tuple(note for note in record.notes if RANDOM_DATA in note) if record else ()


def assumed_of_model(spec: RunSpec) -> str | None:
    """Refuse an ONNX file with open dimensions as its run would; tell what they would become."""
    if spec.model.format != "onnx" or spec.inputs.source is not None:
        return None
    tensors = outline_of(Path(spec.model.path)).inputs
    assumed = assumed_of(tensors, spec)
    refuse_undrawn(tensors, spec)
    return assumed


def conditions_of_model(model: ModelRef) -> dict[str, Fact]:
    """Tell how a file computes: an engine by the record beside it, ONNX by its own types."""
    if model.format == "onnx":
        return _conditions_of_onnx(model)
    record = record_of_engine(model)
    if record is None:
        return {}
    known = record.conditions
    precision = known["precision"].value if "precision" in known else None
    # Where FP16 is allowed too, what little is left to TF32 decides nothing.
    kept = ("precision", "typing", *(("tf32",) if precision in ("fp32", "tf32") else ()))
    return {
        key: known[key].having(source="recorded") if _is_known(known[key]) else known[key]
        for key in kept
        if key in known
    }


def _conditions_of_onnx(model: ModelRef) -> dict[str, Fact]:
    """Take the precision a conversion wrote down for these bytes, else that of their types."""
    path = Path(model.path)
    recorded = _recorded_precision(model)
    try:
        held = outline_of(path).held or frozenset({"fp32"})
    except InputError:
        return {"precision": Fact(value=recorded)} if recorded else {}
    if recorded is not None and fits(recorded, held):
        return {"precision": Fact(value=recorded)}
    return {"precision": Fact(value=name_of(held), source="implied")}


def _recorded_precision(model: ModelRef) -> str | None:
    """Find the precision that a conversion wrote down for these bytes."""
    sidecar = read_sidecar(Path(model.path))
    known = sidecar is not None and sidecar.sha256 == model.sha256
    return sidecar.precision if sidecar is not None and known else None


def claims_of_model(model: ModelRef) -> dict[str, Scalar]:
    """Tell a precision that is on record for a file and that its own types deny."""
    recorded = _recorded_precision(model) if model.format == "onnx" else None
    known = conditions_of_model(model).get("precision") if recorded else None
    denied = known is not None and known.value != recorded
    return {"claimed_precision": recorded} if denied else {}


def held_to_layers(record: RunRecord, graph: EngineGraph | None) -> RunRecord:
    """Name the precision that layers compute in, where they deny the one on record."""
    label, types = precision_of(record), types_of_layers(graph)
    if not types or label is None:
        return record
    ran = denied_by(label, types)
    if ran is None:
        known = record.conditions["precision"].having(source="stated")
        return record.having(conditions={**record.conditions, "precision": known})
    return record.having(
        conditions={**record.conditions, "precision": Fact(value=ran, source="implied")},
        facts={**record.facts, "claimed_precision": label},
    )


def precision_of_pass(spec: RunSpec, told: dict[str, Fact]) -> str | None:
    """Name the precision in which a model was run over data; ``None`` when nobody knows."""
    known = joined_conditions(conditions_of_model(spec.model), told)
    return precision_in(known, asked=spec.precision)


def joined_conditions(known: dict[str, Fact], told: dict[str, Fact]) -> dict[str, Fact]:
    """Put what a session tells over what is known of its model; not knowing overwrites nothing."""
    fresh = {key: fact for key, fact in told.items() if key not in known or _is_known(fact)}
    return {**known, **fresh}


def _is_known(fact: Fact) -> bool:
    return fact.value is not None and fact.source != "unknown"


def stamps_of_onnx(path: Path) -> tuple[str, ...]:
    """Read stamps that an ONNX file carries in itself."""
    return notes_from_metadata(_metadata(path))


def preparation_of_onnx(path: Path) -> dict[str, Scalar]:
    """Tell how images were prepared that scales of an ONNX file come from; empty if unknown."""
    return preparation_from_text(stamp_from_metadata(_metadata(path)).get(PREPARATION))


def preparation_of_model(model: ModelRef) -> dict[str, Scalar]:
    """Tell how images were prepared that a model was calibrated with; empty if nobody says."""
    if model.format == "onnx":
        return preparation_of_onnx(Path(model.path))
    record = record_of_engine(model)
    return preparation_from_text(record.facts.get(PREPARATION)) if record is not None else {}


def _metadata(path: Path) -> dict[str, str]:
    try:
        entries = load_onnx(path, weights=False).metadata_props
    except (InputError, UnavailableError):
        return {}
    return {entry.key: entry.value for entry in entries}


def work_of_model(model: ModelRef, inputs: Sequence[TensorSpec]) -> dict[str, Scalar]:
    """Count what one query takes at least, where the ONNX file is at hand: operations, weights.

    The ONNX file of an engine is the one that its record names, if it is still that file.
    """
    source = source_of(model)
    path = Path(source.path if source is not None else "")
    if source is None or path.stat().st_size > LARGEST_COUNTED_BYTES:
        return {}
    shapes = {each.name: _whole(each) for each in inputs if len(_whole(each)) == len(each.shape)}
    try:
        graph = read_onnx(path, shapes=shapes)
    except TrtbenchError:  # an engine's inputs may be called otherwise; the count is a bonus
        return {}
    cost = cost_from_model(graph)
    found: dict[str, Scalar] = {"flops": cost.flops or None, "weight_bytes": graph.weight_bytes}
    return {name: value for name, value in found.items() if value}


def _whole(tensor: TensorSpec) -> tuple[int, ...]:
    """Find the dimensions that are settled."""
    return tuple(dim for dim in tensor.shape if isinstance(dim, int) and dim > 0)
