"""Facts about a model that are recorded with its runs: precision, calibration, amount of work.

Also keeps copies of models in the store, to compare later models with them.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from trtbench.analysis.onnx_graph import RANDOM_DATA, cost_from_model
from trtbench.core import run as records
from trtbench.core.errors import InputError, StoreError, TrtbenchError, writing
from trtbench.core.safety import why_untrusted
from trtbench.core.samples import EngineGraph
from trtbench.core.spec import ModelRef, RunSpec, TensorSpec
from trtbench.host.files import scratch_directory
from trtbench.layers.join import computing_types, contradicting_types
from trtbench.models import identity
from trtbench.models.inputs import random_inputs
from trtbench.models.onnx_model import read_onnx
from trtbench.models.onnx_outline import outline_of
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes._session import resolve_shapes
from trtbench.store.store import Store

LARGEST_COUNTED_BYTES = 1 << 30  # a larger file is not read just to count its operations


def build_of_engine(model: ModelRef) -> tuple[tuple[str, ...], dict[str, records.Scalar]]:
    """Return notes and facts on the build of an engine, from the record beside it."""
    record = identity.record_of_engine(model)
    if record is None:
        return (), {}
    assumed = record.spec.assumed
    notes = tuple(note for note in record.notes if RANDOM_DATA in note or note == assumed)
    return notes, {"built_from": record.spec.model.path, "build_s": record.wall_s}


def assumed_of_model(spec: RunSpec) -> str | None:
    """Return what a run assumes for open dimensions of an ONNX file; raises where the run would."""
    if spec.model.format != "onnx" or spec.inputs.source is not None:
        return None
    tensors = outline_of(Path(spec.model.path)).inputs
    assumed = resolve_shapes(tensors, spec).note
    random_inputs([each.having(shape=(0,) * len(each.shape)) for each in tensors])
    return assumed


def planned_inputs(spec: RunSpec) -> tuple[TensorSpec, ...]:
    """Return the inputs that an ONNX file will run on; empty if they are not known yet."""
    if spec.model.format != "onnx" or spec.inputs.source is not None:
        return ()
    try:
        return resolve_shapes(outline_of(Path(spec.model.path)).inputs, spec).tensors
    except TrtbenchError:  # the run says what is wrong
        return ()


def conditions_of_model(model: ModelRef) -> dict[str, records.Fact]:
    """Return the known conditions of a model: an engine's by its record, ONNX by its types."""
    if model.format == "onnx":  # the precision that a conversion recorded, if the types fit it
        recorded = recorded_precision(model)
        try:
            held = outline_of(Path(model.path)).held or frozenset({"fp32"})
        except InputError:
            return {"precision": records.Fact(value=recorded)} if recorded else {}
        if recorded is not None and records.matches_precision(recorded, held):
            return {"precision": records.Fact(value=recorded)}
        return {"precision": records.Fact(value=records.name_from_types(held), source="implied")}
    record = identity.record_of_engine(model)
    if record is None:
        return {}
    known = record.conditions
    precision = known["precision"].value if "precision" in known else None
    # TF32 matters only where FP16 is not allowed.
    kept = ("precision", "typing", *(("tf32",) if precision in ("fp32", "tf32") else ()))
    found = {key: known[key] for key in kept if key in known}
    sure = [key for key in kept if records.known_value(known.get(key)) is not None]
    return found | {key: known[key].having(source="recorded") for key in sure}


def recorded_precision(model: ModelRef) -> str | None:
    """Return the precision that a conversion recorded for this ONNX file, if it is unchanged."""
    sidecar = identity.read_sidecar(Path(model.path)) if model.format == "onnx" else None
    return sidecar.precision if sidecar and sidecar.sha256 == model.sha256 else None


def check_precision_against_layers(
    record: records.RunRecord, graph: EngineGraph | None
) -> records.RunRecord:
    """Return the record with the precision of the layers, unless it has the same."""
    label, types = records.precision_of(record), computing_types(graph)
    ran, known = contradicting_types(label, types), record.conditions.get("precision")
    if types and label is None:
        told = records.Fact(value=records.name_from_types(types), source="implied")
        return record.having(conditions={**record.conditions, "precision": told})
    if not types or known is None or (ran is None and known.source == "implied"):
        return record
    implied, claimed = records.Fact(value=ran, source="implied"), {"claimed_precision": label}
    fact = known.having(source="stated") if ran is None else implied  # confirmed, or contradicted
    facts = record.facts if ran is None else {**record.facts, **claimed}
    return record.having(conditions={**record.conditions, "precision": fact}, facts=facts)


def precision_of_pass(spec: RunSpec, stated: dict[str, records.Fact]) -> str | None:
    """Return the precision in which a model was run over data; ``None`` if unknown."""
    known = joined_conditions(conditions_of_model(spec.model), stated)
    return records.precision_in(known, asked=spec.precision)


def joined_conditions(
    known: dict[str, records.Fact], stated: dict[str, records.Fact]
) -> dict[str, records.Fact]:
    """Update the known conditions of a model with those of a session; unknown ones are skipped."""
    sure = {key for key, fact in stated.items() if records.known_value(fact) is not None}
    fresh = {key: fact for key, fact in stated.items() if key in sure or key not in known}
    return {**known, **fresh}


def work_of_model(model: ModelRef, inputs: Sequence[TensorSpec]) -> dict[str, records.Scalar]:
    """Count the operations and bytes of weights of one query; empty if the ONNX file is missing.

    The ONNX file of an engine is the one that its record names, if that is unchanged.
    """
    source = identity.source_of(model)
    path = Path(source.path if source is not None else "")
    if source is None or path.stat().st_size > LARGEST_COUNTED_BYTES:
        return {}
    shapes = {
        each.name: dims
        for each in inputs
        if len(dims := tuple(dim for dim in each.shape if isinstance(dim, int) and dim > 0))
        == len(each.shape)
    }
    try:
        graph = read_onnx(path, shapes=shapes)
    except TrtbenchError:  # an engine's inputs may have other names; the count is optional
        return {}
    found = {"flops": cost_from_model(graph).flops, "weight_bytes": graph.weight_bytes}
    return {name: value for name, value in found.items() if value}


CODE = frozenset(("engine", "torch"))  # formats of models that can contain code
LARGEST_COPIED_BYTES = 512 << 20  # a larger model is copied into the store only on request


def keep_model(store: Store, model: ModelRef) -> Path:
    """Copy a model and its external files into the store; an existing copy is not replaced."""
    source = Path(model.path)
    if model.sha256 is None or not source.is_file():
        raise StoreError(
            f"{model.name} is not a file, and cannot be copied into the store",
            fix="leave out --keep-model, or export the model to an ONNX file first",
        )
    target = _path_in_store(store, model, code=model.format in CODE)
    if target.is_file():
        return target
    with writing(target), scratch_directory(target.parent.parent) as folder:
        work = folder / "model"
        work.mkdir()
        for name in (source.name, *identity.external_files(source)):
            place = work / (target.name if name == source.name else name)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.parent / name, place)
        if not target.parent.exists():
            work.replace(target.parent)
    return target


def kept_model(store: Store, spec: RunSpec) -> ModelRef | None:
    """Return a run's model if its bytes still exist; one with code, if nobody else can write it."""
    model, path = spec.model, Path(spec.model.path)
    if model.sha256 is None or not model.sha256.isalnum():
        return None
    formats = RUNTIMES.load(spec.runtime).FORMATS if spec.runtime in RUNTIMES.names() else ()
    code = not CODE.isdisjoint(formats)
    if path.is_file() and not (code and why_untrusted(path)) and not identity.changed(model):
        return model
    copy = _path_in_store(store, model, code=code)
    if not copy.is_file():
        return None
    own = identity.model_ref(copy, whole=False)
    kept = identity.with_parts(own, identity.files_elsewhere(model), made_with=model.made_with)
    return kept if kept.sha256 == model.sha256 else None


def _path_in_store(store: Store, model: ModelRef, *, code: bool) -> Path:
    # The hash identifies the model; its name is there for people.
    folder = store.code_folder("models") if code else store.root / "models"
    return folder / str(model.sha256) / Path(model.name).name
