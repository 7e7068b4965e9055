"""One engine, named by a run or by the files that trtexec left: its layers and what is around them.

A file that is named alone brings those along that bear its name, so that
``trtbench diff a.profile.json b.profile.json`` finds the layer information beside each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trtbench.analysis.layers.cost import NodeCosts, costs_from_model
from trtbench.analysis.layers.engine_facts import EngineFacts, facts_from_run
from trtbench.analysis.layers.gpus import peak_of
from trtbench.analysis.layers.join import join_layers
from trtbench.analysis.layers.layer import LayerTable
from trtbench.analysis.layers.roofline import with_rates
from trtbench.build.onnx_read import read_onnx
from trtbench.domain.result import Run
from trtbench.domain.samples import EngineGraph
from trtbench.errors import InputError, UsageError
from trtbench.models.sidecar import source_of
from trtbench.store.directory import RECORD, demand_finished, read_run
from trtbench.store.store import Store
from trtbench.trtexec.layers import graph_from_json
from trtbench.workflows.importing.find import FoundFile, found_from_path, plain
from trtbench.workflows.importing.look import TimesShelf, data_of, parts_from_file
from trtbench.workflows.importing.make import run_from_draft
from trtbench.workflows.importing.match import Draft, drafts_from_parts
from trtbench.workflows.importing.user_facts import Stated
from trtbench.workflows.measure.profile import way_to_layers
from trtbench.workflows.request.kinds import File

NOT_KEPT = "(files)"
USED = ("profile", "layers", "log", "times", "metadata", "device", "toolkit-layers")
"""Kinds of files that tell something of layers or of the whole around them."""
_TIMED = ("profile", "toolkit-layers")
MOST_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class EngineSource:
    """The layers of one engine, and the run they were timed in where there is one."""

    label: str
    table: LayerTable
    facts: EngineFacts
    run: Run | None = None
    notes: tuple[str, ...] = ()
    """How the files were taken, for the reader to check."""


def engine_from_words(
    source: Sequence[File], *, store: Store | None, onnx: File | None = None, gpu: str | None = None
) -> EngineSource:
    """Read an engine from a run, a folder, or files; an ONNX file may be among them."""
    words = [str(word) for word in source]
    if not words:
        raise UsageError("nothing was named", fix="trtbench layers RUN, or files of trtexec")
    found = [found_from_path(Path(word), named=True) for word in words if Path(word).is_file()]
    folders = [
        word for word in words if (Path(word).is_dir() and not (Path(word) / RECORD).is_file())
    ]
    found += [each for word in folders for each in files_of_engine(Path(word))]
    models = [Path(each.path) for each in found if each.kind == "onnx"]
    model = Path(onnx) if onnx else next(iter(models), None)
    others = [each for each in found if each.kind != "onnx"]
    named = [word for word in words if not Path(word).is_file() and word not in folders]
    if named and others:
        raise UsageError(
            f"{named[0]} is no file, and files were named beside it",
            fix="name one run, or the files of one",
        )
    if len(named) > 1:
        raise UsageError(
            f"{len(named)} runs were named", fix=f"trtbench diff {' '.join(named[:2])}"
        )
    if named:
        run = _stored(named[0], store)
        return _engine(run.id, run, run.graph, model or _model_of(run), gpu, notes=())
    engine = _from_files(others, model, gpu)
    return replace(engine, label=plain(Path(folders[0]).resolve().name)) if folders else engine


def run_from_files(names: Sequence[str]) -> Run:
    """Make the run that files are of, without keeping it."""
    found = [found_from_path(Path(name), named=True) for name in names]
    beside = _beside(found[0]) if len(found) == 1 else []
    drafts = [draft for draft in _drafts([*found, *beside]) if draft.measured]
    if len(drafts) != 1:
        raise UsageError(
            f"the files are of {len(drafts)} runs, not of one", fix="name the files of one run"
        )
    return run_from_draft(drafts[0], Stated(), run_id=NOT_KEPT)


def engine_from_run(run: Run) -> EngineSource:
    """Read an engine from a run at hand."""
    return _engine(run.id, run, run.graph, _model_of(run), None, notes=())


def _stored(name: str, store: Store | None) -> Run:
    folder = Path(name)
    if folder.is_dir():
        found = read_run(folder)
    elif store is None or folder.suffix in (".json", ".log", ".txt", ".csv"):
        raise InputError(
            f"there is no file {name}", fix="give a file, or a run: trtbench runs lists them"
        )
    else:
        found = store.load(name)
    run = demand_finished(found)
    if run.layers is None and run.graph is None:
        raise UsageError(
            f"the run {run.id} has neither layer times nor layer information",
            fix=way_to_layers(run),
        )
    return run


def _from_files(found: Sequence[FoundFile], model: Path | None, gpu: str | None) -> EngineSource:
    if not found:
        raise UsageError(
            "an ONNX file alone has no layers of an engine", fix=f"trtbench inspect {model}"
        )
    _refuse_engine(found)
    beside = _beside(found[0]) if len(found) == 1 else []
    drafts = _drafts([*found, *beside])
    measured = [draft for draft in drafts if draft.measured]
    if len(measured) > 1:
        raise UsageError(
            f"the files are of {len(measured)} runs, not of one",
            facts={"files": ", ".join(sorted({_first(each).path.name for each in measured}))},
            fix="name the files of one run, or import them all: trtbench import FILES",
        )
    graph = _graph(drafts, measured)
    run = run_from_draft(measured[0], Stated(), run_id=NOT_KEPT) if measured else None
    if graph is None and (run is None or run.layers is None):
        raise InputError(
            "the files tell no layers",
            facts={"files": ", ".join(plain(each.path) for each in found)},
            fix="trtexec --exportProfile=profile.json --exportLayerInfo=graph.json "
            "--profilingVerbosity=detailed",
        )
    notes = (f"read with what lies beside it: {_ends(found[0], beside)}",) if beside else ()
    return _engine(plain(found[0].path.name), run, graph, model, gpu, notes=notes)


def _drafts(found: Sequence[FoundFile]) -> list[Draft]:
    shelf = TimesShelf()
    parts = [part for each in found for part in parts_from_file(each, shelf)]
    drafts = [draft for draft in drafts_from_parts(parts, shelf) if draft.parts]
    shelf.clear()
    return drafts


def _ends(found: FoundFile, beside: Sequence[FoundFile]) -> str:
    """Name files by what follows the name they share with the one that was named."""
    names = [plain(each.path.name) for each in beside]
    return ", ".join(name.removeprefix(f"{found.key}.") for name in names)


def _first(draft: Draft) -> FoundFile:
    return next(iter(draft.parts.values())).file


def _refuse_engine(found: Sequence[FoundFile]) -> None:
    engine = next((each for each in found if each.kind == "plan"), None)
    if engine is not None and len(found) == 1:
        raise UsageError(
            f"{engine.path.name} is an engine: nothing in it was timed",
            fix=f"trtbench profile {engine.path}, then trtbench layers last",
        )


def _beside(found: FoundFile) -> list[FoundFile]:
    """Find the files in the same folder that bear the same name."""
    siblings = []
    for path in sorted(found.folder.iterdir()):
        if not path.is_file() or path.resolve() == found.path.resolve():
            continue
        try:
            other = found_from_path(path, named=False)
        except InputError:
            continue
        if other.kind in USED and other.kind != found.kind and other.key == found.key:
            siblings.append(other)
    return siblings


def _graph(drafts: Sequence[Draft], measured: Sequence[Draft]) -> EngineGraph | None:
    """Read layer information, that of another engine too: joining says that it does not fit."""
    ordered = [*measured, *(draft for draft in drafts if draft not in measured)]
    part = next((draft.parts["graph"] for draft in ordered if "graph" in draft.parts), None)
    if part is None:
        return None
    return graph_from_json(data_of(part.file), where=plain(part.file.path))


def _model_of(run: Run) -> Path | None:
    """Find the ONNX file that a run, or its engine, is of, where it is still the same."""
    source = source_of(run.record.spec.model)
    return Path(source.path) if source is not None else None


def _engine(
    label: str,
    run: Run | None,
    graph: EngineGraph | None,
    model: Path | None,
    gpu: str | None,
    *,
    notes: tuple[str, ...],
) -> EngineSource:
    facts = facts_from_run(run) if run else EngineFacts()
    costs = _costs(model, run, graph)
    table = join_layers(run.layers if run else None, graph, costs=costs)
    peak = peak_of(gpu, sm_count=facts.sm_count) if gpu else None
    if gpu and peak is None:
        raise UsageError(
            f"{gpu!r} is not in the table of GPUs", fix="write it as nvidia-smi does: 'NVIDIA H200'"
        )
    peak = peak or peak_of(facts.gpu, sm_count=facts.sm_count)
    return EngineSource(
        label=label, table=with_rates(table, peak), facts=facts, run=run, notes=notes
    )


def _costs(model: Path | None, run: Run | None, graph: EngineGraph | None) -> NodeCosts | None:
    if model is None:
        return None
    shapes = {
        each.name: tuple(dim for dim in each.shape if isinstance(dim, int))
        for each in (run.record.inputs if run else ())
        if each.is_static
    }
    batch = run.record.batch if run else None
    try:
        return costs_from_model(read_onnx(model, shapes=shapes, batch=batch), graph)
    except UsageError:  # inputs of another name: estimate with the model's own shapes
        return costs_from_model(read_onnx(model, batch=batch), graph)


def files_of_engine(folder: Path) -> list[FoundFile]:
    """Find the layer times, the layer information and what bears their name, of one engine."""
    found = list(_readable(folder))
    timed = [each for each in found if each.kind in _TIMED]
    graphs = [each for each in found if each.kind == "layers"]
    leading = timed or graphs
    if not leading:
        raise InputError(
            f"{plain(folder)} holds neither a run nor layer times nor layer information",
            fix="trtexec --exportProfile=profile.json --exportLayerInfo=graph.json "
            "--profilingVerbosity=detailed",
        )
    keys = list(dict.fromkeys(each.key for each in leading))
    if len(keys) > 1:
        names = [plain(each.path.name) for each in leading]
        raise UsageError(
            f"{plain(folder)} holds the layers of {len(keys)} engines",
            facts={"files": ", ".join(names[:MOST_NAMED]) + (", …" if names[MOST_NAMED:] else "")},
            fix=f"name one of them: {plain(leading[0].path)}",
        )
    alone = graphs if timed and len(graphs) == 1 else []
    return [each for each in found if each.key == keys[0] or each in alone]


def _readable(folder: Path) -> list[FoundFile]:
    found = []
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        try:
            each = found_from_path(path, named=False)
        except InputError:
            continue
        if each.kind in (*USED, "onnx"):
            found.append(each)
    return found
