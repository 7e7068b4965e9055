"""Engines named by runs or by files of trtexec: layers, differences, causes, drawings.

Why two numbers of one model differ: a ladder of what is stated.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trtbench.core.errors import InputError, UsageError
from trtbench.core.run import Run
from trtbench.core.samples import EngineGraph
from trtbench.host.files import write_output
from trtbench.importing.files import (
    FoundFile,
    TimesShelf,
    data_of,
    found_from_path,
    parts_from_file,
    plain,
)
from trtbench.importing.make import Stated, run_from_draft
from trtbench.importing.match import Draft, drafts_from_parts
from trtbench.layers.cost import costs_from_model, peak_of, with_rates
from trtbench.layers.diff import (
    EngineDiff,
    Row,
    Why,
    reconcile,
    rows_from_groups,
    rows_from_layers,
    why,
)
from trtbench.layers.join import join_layers
from trtbench.layers.table import (
    EngineFacts,
    Layer,
    LayerTable,
    facts_from_run,
    groups_of,
    matching,
    precision_truth,
)
from trtbench.measure.bench import way_to_layers
from trtbench.models.identity import source_of
from trtbench.models.onnx_model import read_onnx
from trtbench.report.document import Document
from trtbench.report.renderers.csv import csv_from_lines
from trtbench.report.sections.layers import (
    document_from_layers,
)
from trtbench.requests.fields import File
from trtbench.store.directory import RECORD, demand_finished, read_run
from trtbench.store.store import Store
from trtbench.trtexec.exports import graph_from_json

NOT_KEPT = "(files)"
USED = ("profile", "layers", "log", "times", "metadata", "device", "toolkit-layers")
"""Kinds of files that tell something of layers or of the whole around them."""
_EXPORT = (
    "trtexec --exportProfile=profile.json --exportLayerInfo=graph.json "
    "--profilingVerbosity=detailed"
)


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
    found: list[FoundFile] = []
    names: list[str] = []
    for path in map(Path, source):
        if path.is_file():
            found.append(found_from_path(path, named=True))
        elif path.is_dir() and not (path / RECORD).is_file():
            found += _readable(path)
        else:
            names.append(str(path))
    models = [each.path for each in found if each.kind == "onnx"]
    model = Path(onnx) if onnx else next(iter(models), None)
    others = [each for each in found if each.kind != "onnx"]
    if not names:
        folders = [path for path in map(Path, source) if path.is_dir()]
        first = next(iter([*folders, *(each.path for each in others)]), Path())
        return _from_files(others, model, gpu, label=plain(first.absolute().name))
    if others or len(names) > 1:
        raise UsageError(
            f"layers are of one engine, and {names[0]} is not the only name",
            fix="name one run, or the files of one; trtbench diff A B compares two",
        )
    run = named_run(names[0], store)
    if run.layers is None and run.graph is None:
        raise UsageError(
            f"the run {run.id} has neither layer times nor layer information",
            fix=way_to_layers(run),
        )
    return engine_from_run(run, model=model, gpu=gpu)


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


def engine_from_run(run: Run, *, model: Path | None = None, gpu: str | None = None) -> EngineSource:
    """Read an engine from a run; its ONNX file is used where it is still the same."""
    source = source_of(run.record.spec.model) if model is None else None
    return _engine(run.id, run, run.graph, Path(source.path) if source else model, gpu)


def _from_files(
    found: Sequence[FoundFile], model: Path | None, gpu: str | None, *, label: str
) -> EngineSource:
    beside = _beside(found[0]) if len(found) == 1 else []
    drafts = sorted(_drafts([*found, *beside]), key=lambda draft: not draft.measured)
    measured = [draft for draft in drafts if draft.measured]
    if len(measured) > 1:
        names = {next(iter(each.parts.values())).file.path.name for each in measured}
        raise UsageError(
            f"the files are of {len(measured)} runs, not of one",
            facts={"files": ", ".join(sorted(names))},
            fix="name the files of one run, or import them all: trtbench import FILES",
        )
    # Layer information of another engine too: joining says that it does not fit.
    part = next((draft.parts["graph"] for draft in drafts if "graph" in draft.parts), None)
    graph = graph_from_json(data_of(part.file), where=plain(part.file.path)) if part else None
    run = run_from_draft(measured[0], Stated(), run_id=NOT_KEPT) if measured else None
    if graph is None and (run is None or run.layers is None):
        raise InputError(
            "the files hold no layers of an engine",
            facts={"files": ", ".join(plain(each.path) for each in found) or "none that is known"},
            fix=f"trtbench profile MODEL.engine, or {_EXPORT}",
        )
    engine = _engine(label, run, graph, model, gpu)
    if not beside:
        return engine
    ends = (plain(each.path.name).removeprefix(f"{found[0].key}.") for each in beside)
    return replace(engine, notes=(f"read together with {', '.join(ends)}",))


def _drafts(found: Sequence[FoundFile]) -> list[Draft]:
    shelf = TimesShelf()
    parts = [part for each in found for part in parts_from_file(each, shelf)]
    return drafts_from_parts(parts, shelf)


def _readable(folder: Path) -> Iterator[FoundFile]:
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        try:
            found = found_from_path(path, named=False)
        except InputError:
            continue
        if found.kind in (*USED, "onnx"):
            yield found


def _beside(found: FoundFile) -> list[FoundFile]:
    """Find the files in the same folder that bear the same name."""
    return [
        each
        for each in _readable(found.folder)
        if each.kind in USED
        and each.kind != found.kind
        and each.key == found.key
        and each.path.resolve() != found.path.resolve()
    ]


def _engine(
    label: str, run: Run | None, graph: EngineGraph | None, model: Path | None, gpu: str | None
) -> EngineSource:
    facts, costs = facts_from_run(run) if run else EngineFacts(), None
    if model is not None:
        shapes = {
            each.name: tuple(dim for dim in each.shape if isinstance(dim, int))
            for each in (run.record.inputs if run else ())
            if each.is_static
        }
        batch = run.record.batch if run else None
        try:
            network = read_onnx(model, shapes=shapes, batch=batch)
        except UsageError:  # inputs of another name: estimate with the model's own shapes
            network = read_onnx(model, batch=batch)
        costs = costs_from_model(network, graph)
    table = join_layers(run.layers if run else None, graph, costs=costs)
    peak = peak_of(gpu or facts.gpu, sm_count=facts.sm_count)
    if gpu and peak is None:
        raise UsageError(
            f"{gpu!r} is not in the table of GPUs", fix="write it as nvidia-smi does: 'NVIDIA H200'"
        )
    return EngineSource(label=label, table=with_rates(table, peak), facts=facts, run=run)


def two_engines(
    a: File, b: File, *, store: Store | None, onnx: File | None = None, gpu: str | None = None
) -> tuple[EngineSource, EngineSource]:
    """Read both sides; several files of one side are joined by commas."""

    def read(side: str) -> EngineSource:
        words = [side] if Path(side).exists() else [part for part in side.split(",") if part]
        return engine_from_words(words, store=store, onnx=onnx, gpu=gpu)

    return read(str(a)), read(str(b))


def why_of(a: EngineSource, b: EngineSource) -> Why:
    """Find causes; both sides must have been profiled."""
    found = why(a.table, b.table, baseline=a.facts, candidate=b.facts)
    if found is None:
        missing = a if not a.table.timed else b
        raise InputError(
            f"{missing.label} has no layer times, and causes are in seconds",
            fix="trtbench profile MODEL.engine, or trtexec --exportProfile=profile.json",
        )
    return found


def labels_of(a: File, b: File) -> tuple[str, str]:
    """Name both sides as a user would type them, shorter where that is enough."""
    heads = ((str(word), Path(str(word).split(",")[0])) for word in (a, b))
    one, other = (path.name if path.exists() else word for word, path in heads)
    return (one, other) if one != other else (shlex.quote(str(a)), shlex.quote(str(b)))


def notes_of(
    a: EngineSource, b: EngineSource, diff: EngineDiff, names: tuple[str, str]
) -> tuple[str, ...]:
    """The remarks on two engines and on what was compared of them."""
    own = [f"{name}: {x}" for name, side in zip(names, (a, b), strict=True) for x in side.notes]
    gpus = (a.facts.gpu, b.facts.gpu)
    if all(gpus) and gpus[0] != gpus[1]:
        return (*own, *diff.notes, f"the sides ran on different GPUs: {gpus[0]} and {gpus[1]}")
    return (*own, *diff.notes)


TOP = 20


def chosen_layers(
    engine: EngineSource, *, pattern: str | None = None, sort: str = "time", top: int | None = TOP
) -> tuple[Layer, ...]:
    """Choose layers by pattern, put them in order and keep the first so many."""
    layers = matching(engine.table.layers, pattern) if pattern else engine.table.layers
    if pattern and not layers:
        raise UsageError(
            f"no layer and no node fits {pattern!r}", fix="patterns take * and ?: '/layer3/*'"
        )
    keys = {
        "time": lambda layer: -layer.seconds,
        "order": lambda layer: layer.index,
        "roofline": lambda layer: 1.0 if layer.roofline is None else layer.roofline,
    }
    return tuple(sorted(layers, key=keys[sort])[:top])


def layers_document(
    engine: EngineSource,
    *,
    by: str | None = None,
    pattern: str | None = None,
    sort: str = "time",
    top: int | None = TOP,
) -> Document:
    """Describe the layers of an engine."""
    facts, table = engine.facts, engine.table
    return document_from_layers(
        engine.label,
        table,
        chosen_layers(engine, pattern=pattern, sort=sort, top=top),
        facts=facts,
        truth=precision_truth(table, asked=facts.asked),
        sums=reconcile(
            table,
            facts.gpu_s,
            profiled_gpu_s=facts.profiled_gpu_s,
            cuda_graph=facts.cuda_graph,
            host_s=facts.host_s,
        ),
        groups=groups_of(table, by, top=top) if by else (),
        by=by,
        notes=engine.notes,
        created=engine.run.record.created if engine.run else "",
    )


def layer_rows(
    engine: EngineSource, *, by: str | None = None, pattern: str | None = None, sort: str = "order"
) -> list[Row]:
    """List all layers, or groups of them, as plain rows."""
    if by is not None:
        return rows_from_groups(groups_of(engine.table, by), by=by)
    return rows_from_layers(chosen_layers(engine, pattern=pattern, sort=sort, top=None))


def csv_of(rows: Sequence[Row]) -> str:
    """Write rows as CSV."""
    names = list(rows[0]) if rows else []
    return csv_from_lines(names, ([row[name] for name in names] for row in rows))


def write_rows(rows: Sequence[Row], path: Path) -> Path:
    """Write rows to a file; its ending says how."""
    ending = path.suffix.lower()
    if ending == ".csv":
        return write_output(path, csv_of(rows))
    if ending == ".json":
        from trtbench.core.codec import json_from_value

        return write_output(path, json_from_value(list(rows)))
    raise UsageError(f"{path.name} does not say how to write it", fix="end it in .csv or .json")


def write_drawing(svg: str, path: Path) -> Path:
    """Write an SVG to a file."""
    if path.suffix.lower() != ".svg":
        raise UsageError(f"{path.name} is no name for a drawing", fix=f"{path.stem}.svg")
    return write_output(path, svg)


def named_run(name: str, store: Store | None) -> Run:
    """Read a run by its name or folder, or make one of trtexec's files, joined by commas."""
    words = [part for part in name.split(",") if part]
    if words and all(Path(word).is_file() for word in words):
        return run_from_files(words)
    if (Path(name) / RECORD).is_file():
        return demand_finished(read_run(Path(name)))
    if store is None or Path(name).suffix in (".json", ".log", ".txt", ".csv"):
        raise InputError(
            f"there is no file {name}", fix="give a file, or a run: trtbench runs lists them"
        )
    return demand_finished(store.load(name))
