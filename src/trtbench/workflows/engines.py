"""Engines named by runs or by files of trtexec: layers, differences, causes, drawings.

Why two numbers of one model differ: a ladder of what is stated, or measured step by step.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trtbench.analysis.stored_comparison import (
    Ladder,
    Rung,
    headline_of,
    ladder_from_runs,
    steps_between,
    title_of_step,
)
from trtbench.analysis.summary import summary_from_run
from trtbench.core.errors import InputError, UsageError, writing
from trtbench.core.plugins import optional_library
from trtbench.core.results import ShortView
from trtbench.core.run import Run
from trtbench.core.samples import EngineGraph
from trtbench.core.units import text_from_seconds
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
from trtbench.measure.bench import run_bench, way_to_layers
from trtbench.models.identity import changed, source_of
from trtbench.models.onnx_model import read_onnx
from trtbench.report.document import Document
from trtbench.report.renderers.csv import csv_from_lines
from trtbench.report.sections.layers import (
    document_from_diff,
    document_from_layers,
    document_from_why,
)
from trtbench.requests.execution import Event, Execution
from trtbench.requests.fields import File
from trtbench.store.directory import RECORD, demand_finished, read_run
from trtbench.store.store import Store
from trtbench.trtexec.exports import graph_from_json

NOT_KEPT = "(files)"
USED = ("profile", "layers", "log", "times", "metadata", "device", "toolkit-layers")
"""Kinds of files that tell something of layers or of the whole around them."""
_TIMED = ("profile", "toolkit-layers")
MOST_NAMED = 4
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
    words = [str(word) for word in source]
    if not words:
        raise UsageError("nothing was named", fix="trtbench profile RUN, or files of trtexec")
    files = [word for word in words if Path(word).is_file()]
    folders = [
        word for word in words if Path(word).is_dir() and not (Path(word) / RECORD).is_file()
    ]
    named = [word for word in words if word not in (*files, *folders)]
    found = [found_from_path(Path(word), named=True) for word in files]
    found += [each for word in folders for each in _files_of_engine(Path(word))]
    models = [each.path for each in found if each.kind == "onnx"]
    model = Path(onnx) if onnx else next(iter(models), None)
    others = [each for each in found if each.kind != "onnx"]
    if named and others:
        raise UsageError(
            f"{named[0]} is no file, and files were named beside it",
            fix="name one run, or the files of one",
        )
    if len(named) > 1:
        raise UsageError(
            f"{len(named)} runs were named", fix=f"trtbench diff {' '.join(named[:2])}"
        )
    if not named:
        engine = _from_files(others, model, gpu)
        return replace(engine, label=plain(Path(folders[0]).resolve().name)) if folders else engine
    folder = Path(named[0])
    if not folder.is_dir() and (
        store is None or folder.suffix in (".json", ".log", ".txt", ".csv")
    ):
        raise InputError(
            f"there is no file {folder}", fix="give a file, or a run: trtbench runs lists them"
        )
    run = demand_finished(
        read_run(folder) if folder.is_dir() or store is None else store.load(named[0])
    )
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


def _from_files(found: Sequence[FoundFile], model: Path | None, gpu: str | None) -> EngineSource:
    if not found:
        raise UsageError(
            "an ONNX file alone has no layers of an engine", fix=f"trtbench inspect {model}"
        )
    first = found[0]
    if first.kind == "plan" and len(found) == 1:
        raise UsageError(
            f"{first.path.name} is an engine: nothing in it was timed",
            fix=f"trtbench profile {first.path}",
        )
    beside = _beside(first) if len(found) == 1 else []
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
            "the files hold no layers",
            facts={"files": ", ".join(plain(each.path) for each in found)},
            fix=_EXPORT,
        )
    engine = _engine(plain(first.path.name), run, graph, model, gpu)
    if not beside:
        return engine
    ends = (plain(each.path.name).removeprefix(f"{first.key}.") for each in beside)
    return replace(engine, notes=(f"read with what lies beside it: {', '.join(ends)}",))


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


def _files_of_engine(folder: Path) -> list[FoundFile]:
    """Find the layer times, the layer information and what bears their name, of one engine."""
    found = list(_readable(folder))
    timed = [each for each in found if each.kind in _TIMED]
    graphs = [each for each in found if each.kind == "layers"]
    leading = timed or graphs
    if not leading:
        raise InputError(
            f"{plain(folder)} holds neither a run nor layer times nor layer information",
            fix=_EXPORT,
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


def two_engines(
    a: File, b: File, *, store: Store | None, onnx: File | None = None, gpu: str | None = None
) -> tuple[EngineSource, EngineSource]:
    """Read both sides; several files of one side are joined by commas."""

    def read(side: str) -> EngineSource:
        words = [side] if Path(side).exists() else [part for part in side.split(",") if part]
        return engine_from_words(words, store=store, onnx=onnx, gpu=gpu)

    return read(str(a)), read(str(b))


def diff_document(
    a: EngineSource, b: EngineSource, diff: EngineDiff, *, top: int | None, labels: tuple[str, str]
) -> Document:
    """Describe the difference of two engines."""
    gpu_s = (a.facts.gpu_s, b.facts.gpu_s)
    notes = _notes(a, b, diff, ("A", "B"))
    return document_from_diff(diff, labels, top=top, gpu_s=gpu_s, notes=notes)


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


def why_document(
    a: EngineSource, b: EngineSource, found: Why, *, show_all: bool, labels: tuple[str, str]
) -> Document:
    """Describe causes."""
    notes = _notes(a, b, found.diff, labels)
    return document_from_why(found, labels, show_all=show_all, notes=notes)


def labels_of(a: File, b: File) -> tuple[str, str]:
    """Name both sides as a user would type them, shorter where that is enough."""
    heads = ((str(word), Path(str(word).split(",")[0])) for word in (a, b))
    one, other = (path.name if path.exists() else word for word, path in heads)
    return (one, other) if one != other else (shlex.quote(str(a)), shlex.quote(str(b)))


def _notes(
    a: EngineSource, b: EngineSource, diff: EngineDiff, names: tuple[str, str]
) -> tuple[str, ...]:
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
    if ending != ".parquet":
        raise UsageError(
            f"{path.name} does not say how to write it", fix="end it in .csv, .json, .parquet"
        )
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        table = optional_library("pyarrow").Table.from_pylist(list(rows))
        optional_library("pyarrow.parquet").write_table(table, path, compression="zstd")
    return path


def write_drawing(svg: str, path: Path) -> Path:
    """Write an SVG to a file."""
    if path.suffix.lower() != ".svg":
        raise UsageError(f"{path.name} is no name for a drawing", fix=f"{path.stem}.svg")
    return write_output(path, svg)


LAUNCHES = 3
"""Fresh processes for each step: their spread says which steps are real."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation(ShortView):
    """Two runs, and the ladder between them."""

    a: Run
    b: Run
    ladder: Ladder
    measured: bool = False
    steps: tuple[Run, ...] = ()
    """The runs that were measured between them."""


def named_run(name: str, store: Store | None) -> Run:
    """Read a run by its name or folder, or make one of trtexec's files, joined by commas."""
    words = [part for part in name.split(",") if part]
    if words and all(Path(word).is_file() for word in words):
        return run_from_files(words)
    if (Path(name) / RECORD).is_file():
        found = read_run(Path(name))
    elif store is not None:
        found = store.load(name)
    else:
        raise InputError(f"there is no run {name}", fix="trtbench runs lists them")
    return demand_finished(found)


def explain_stated(a: Run, b: Run) -> Explanation:
    """Explain by what both runs state."""
    return Explanation(a=a, b=b, ladder=ladder_from_runs(a, b))


def explain_measured(
    a: Run, b: Run, *, store: Store, execution: Execution, launches: int = LAUNCHES
) -> Explanation:
    """Measure the ladder: the first run again, then one thing changed at a time.

    It leads to the other run's conditions on the first run's model, which must be the same file.
    """
    spec, other = a.record.spec, b.record.spec
    if not Path(spec.model.path).is_file():
        raise UsageError(
            f"{spec.model.name} is not there to be measured again",
            facts={"path": spec.model.path},
            fix="leave --measure out, and the ladder is made of what both runs state",
        )
    if changed(spec.model):
        raise UsageError(
            f"{spec.model.name} has changed since the run {a.id}",
            fix=f"trtbench bench {spec.model.path}, then explain that run",
        )
    target = other.having(
        model=spec.model,
        shapes=spec.shapes,
        inputs=spec.inputs,
        device=spec.device,
        batch=other.batch if other.batch is not None else spec.batch,
        options=spec.options,
    )
    wanted = [("again", spec), *steps_between(spec, target)]
    tagged = replace(execution, tags=(*execution.tags, "explain"), run_id=None, output=None)
    rungs: list[Rung] = []
    runs = [a]
    for number, (key, each) in enumerate(wanted):
        words = f"step {number + 1} of {len(wanted)}: {title_of_step(key)}"
        execution.listen(Event(kind="note", text=words))
        wanted_run = each.having(launches=launches, profile=False)
        runs.append(run_bench(wanted_run, store=store, execution=tagged))
        rungs.append(_rung(key, *runs[-2:]))
    metric_a, a_s = headline_of(facts_from_run(a))
    metric_b, b_s = headline_of(facts_from_run(b))
    _, last_s = headline_of(facts_from_run(runs[-1]))
    ladder = Ladder(
        metric_a=metric_a,
        metric_b=metric_b,
        a_s=a_s,
        b_s=b_s,
        rungs=tuple(rungs),
        unexplained_s=None if b_s is None or last_s is None else b_s - last_s,
    )
    return Explanation(a=a, b=b, ladder=ladder, measured=True, steps=tuple(runs[1:]))


def _rung(key: str, before: Run, after: Run) -> Rung:
    (was, before_s), (metric, after_s) = (headline_of(facts_from_run(x)) for x in (before, after))
    seconds = None if before_s is None or after_s is None else after_s - before_s
    title, ends = "the same, measured again", ["then", "now"]
    because = "what machine and moment change; no condition did"
    if key != "again":
        values = [getattr(each.record.spec, key) for each in (before, after)]
        ends = ["on" if x is True else "off" if x is False else str(x) for x in values]
        title, because = title_of_step(key), f"median {metric}"
        if was != metric:
            because = f"median {was} to {metric}"
        found = (summary_from_run(each).interval for each in (before, after))
        widths = [(each.high - each.low) / 2 for each in found if each]
        if seconds is not None and widths:
            relation = "within" if abs(seconds) <= max(widths) else "beyond"
            spread = text_from_seconds(max(widths))
            because += f"; {relation} the spread over launches, ± {spread}"
    return Rung(
        key=key,
        title=title,
        a=ends[0],
        b=ends[1],
        seconds=seconds,
        evidence="measured",
        because=because,
    )
