"""Reads engines from runs or files of trtexec, and shows their layers and differences."""

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, UsageError
from trtbench.core.run import Run
from trtbench.core.samples import EngineGraph
from trtbench.host.files import write_output
from trtbench.importing import files
from trtbench.importing.make import Stated, run_from_draft
from trtbench.layers import diff
from trtbench.layers import table as tables
from trtbench.layers.cost import costs_from_model, gpu_peaks, peak_of, with_rates
from trtbench.layers.join import join_layers
from trtbench.measure.bench import command_for_layer_times
from trtbench.models.identity import source_of
from trtbench.models.onnx_model import read_onnx
from trtbench.report.renderers.csv import csv_from_lines
from trtbench.report.renderers.png import png_bytes
from trtbench.report.sections.layers import LayerChart, layers_figure
from trtbench.requests.fields import File
from trtbench.requests.stored import ImportRequest
from trtbench.store.directory import RECORD, demand_finished, read_run
from trtbench.store.store import Store
from trtbench.trtexec.exports import graph_from_json

NOT_KEPT = "(files)"
NOTHING_STATED = Stated(request=ImportRequest(()))
USED_KINDS = ("profile", "layers", "log", "times", "metadata", "device", "toolkit-layers")
"""Kinds of files with facts on layers or on the whole engine."""


@dataclass(frozen=True, kw_only=True)
class EngineSource:
    """The layers of one engine, and the run in which they were timed, if any."""

    label: str
    table: tables.LayerTable
    facts: tables.EngineFacts
    run: Run | None = None
    notes: tuple[str, ...] = ()  # which files were read


def engine_from_arguments(
    source: Sequence[File], *, store: Store | None, onnx: File | None = None, gpu: str | None = None
) -> EngineSource:
    """Read an engine from a run, a folder, or files, which may include an ONNX file."""
    found: list[files.FoundFile] = []
    names: list[str] = []
    folders: list[Path] = []
    for path in map(Path, source):
        if path.is_file():
            found.append(files.found_from_path(path, named=True))
        elif path.is_dir() and not (path / RECORD).is_file():
            folders.append(path)
            found += _known_files(path)
        else:
            names.append(str(path))
    models = [Path(onnx)] if onnx else [each.path for each in found if each.kind == "onnx"]
    model = models[0] if models else None
    others = [each for each in found if each.kind != "onnx"]
    if names and (others or len(names) > 1):
        raise UsageError(
            f"only one engine can be shown, but {names[0]} is not the only one given",
            fix="give one run, or the files of one; trtbench diff A B compares two",
        )
    if names:
        run = load_run(names[0], store)
        if run.layers is None and run.graph is None:
            missing = f"the run {run.id} has neither layer times nor layer information"
            raise UsageError(missing, fix=command_for_layer_times(run))
        return engine_from_run(run, model=model, gpu=gpu)
    drafts, beside = _drafts(others)
    # Joining reports layer information that belongs to another engine.
    part = next((draft.parts["graph"] for draft in drafts if "graph" in draft.parts), None)
    graph = None
    if part is not None:
        graph = graph_from_json(files.data_of(part.file), where=files.plain(part.file.path))
    is_measured = bool(drafts) and drafts[0].measured
    made = run_from_draft(drafts[0], NOTHING_STATED, run_id=NOT_KEPT) if is_measured else None
    if graph is None and (made is None or made.layers is None):
        known = ", ".join(files.plain(each.path) for each in others) or "none of a known kind"
        message = "the files contain no layers of an engine"
        fix = "trtbench profile MODEL.engine, or trtexec --exportProfile=profile.json "
        fix += "--exportLayerInfo=graph.json --profilingVerbosity=detailed"
        if any(each.kind == "own-table" for each in others):
            message = "a table of layers that trtbench profile wrote has no times of the engine"
            fix = "give the run instead: trtbench runs lists them"
        raise InputError(message, facts={"files": known}, fix=fix)
    first = [*folders, *(each.path for each in others)][0]
    engine = _engine(files.plain(first.absolute().name), made, graph, model, gpu)
    if not beside:
        return engine
    ends = (files.plain(each.path.name).removeprefix(f"{others[0].key}.") for each in beside)
    return replace(engine, notes=(f"read together with {', '.join(ends)}",))


def engine_from_run(run: Run, *, model: Path | None = None, gpu: str | None = None) -> EngineSource:
    """Read an engine from a run; its ONNX file is used if it is unchanged."""
    source = source_of(run.record.spec.model) if model is None else None
    return _engine(run.id, run, run.graph, Path(source.path) if source else model, gpu)


def draw_layers(
    engine: EngineSource, path: Path, shown: Sequence[tables.Layer], *, chart: LayerChart = "time"
) -> Path:
    """Draw times, bytes or sizes of layers as bars in a PNG file."""
    figure = layers_figure(engine.table, shown, chart=chart)
    if figure is None and chart == "time":
        run, fix = engine.run, "add the file of --exportProfile"
        fix = command_for_layer_times(run) if run else fix
        raise UsageError("there are no layer times to draw", fix=fix)
    if figure is None:
        fix = "add the file of trtexec --exportLayerInfo=graph.json --profilingVerbosity=detailed"
        raise UsageError("the sizes of these layers are unknown", fix=fix)
    return write_output(path, png_bytes(figure), named=True)


def _drafts(found: Sequence[files.FoundFile]) -> tuple[list[files.Draft], list[files.FoundFile]]:
    """Return contents of files, measured first, and other files with the name of a single one."""
    beside = []
    if len(found) == 1:
        (one,) = found
        others = (x for x in _known_files(one.path.parent) if x.kind in USED_KINDS)
        beside = [x for x in others if x.kind != one.kind and x.key == one.key]
        beside = [x for x in beside if x.path.resolve() != one.path.resolve()]
    rows = files.times_reader()
    parts = [part for each in (*found, *beside) for part in files.parts_from_file(each, rows)]
    drafts = sorted(files.drafts_from_parts(parts), key=lambda draft: not draft.measured)
    measured = [draft for draft in drafts if draft.measured]
    if len(measured) > 1:
        names = {next(iter(each.parts.values())).file.path.name for each in measured}
        message = f"the files belong to {len(measured)} runs"
        fix = "give the files of one run, or import them all: trtbench import FILES"
        raise UsageError(message, facts={"files": ", ".join(sorted(names))}, fix=fix)
    return drafts, beside


def _known_files(folder: Path) -> Iterator[files.FoundFile]:
    for path in sorted(filter(Path.is_file, folder.iterdir())):
        with suppress(InputError):
            found = files.found_from_path(path, named=False)
            if found.kind in (*USED_KINDS, "onnx"):
                yield found


def _engine(
    label: str, run: Run | None, graph: EngineGraph | None, model: Path | None, gpu: str | None
) -> EngineSource:
    facts, costs = tables.facts_from_run(run) if run else tables.EngineFacts(), None
    if model is not None:
        static = [each for each in (run.record.inputs if run else ()) if each.is_static]
        shapes = {x.name: tuple(dim for dim in x.shape if isinstance(dim, int)) for x in static}
        batch = run.record.batch if run else None
        try:
            network = read_onnx(model, shapes=shapes, batch=batch)
        except (InputError, UsageError):  # other input names: use the shapes of the model
            network = read_onnx(model, batch=batch)
        costs = costs_from_model(network, graph)
    table = join_layers(run.layers if run else None, graph, costs=costs)
    peak = peak_of(gpu or facts.gpu, sm_count=facts.sm_count)
    if gpu and peak is None:
        word, peaks = gpu.lower().rpartition(" ")[2], gpu_peaks()
        alike = [each.name for each in peaks if word in each.name.lower()] or ["NVIDIA H200"]
        fix = f"write it as nvidia-smi does: {' or '.join(map(repr, alike))}"
        raise UsageError(f"{gpu!r} is not a known GPU", fix=fix)
    table = with_rates(table, peak, energy_j=facts.energy_j)
    return EngineSource(label=label, table=table, facts=facts, run=run)


def find_causes(a: EngineSource, b: EngineSource, words: tuple[File, File]) -> diff.Why:
    """Find the causes why B is not faster; both engines must have been profiled.

    Commands name the two engines by ``words``, as they were given, and the files of B if known.
    """
    found = diff.why(a.table, b.table, baseline=a.facts, candidate=b.facts)
    if found is None:
        missing = a if not a.table.timed else b
        raise InputError(
            f"{missing.label} has no layer times, which are needed to find causes",
            fix="trtbench profile MODEL.engine, or trtexec --exportProfile=profile.json",
        )
    known = {"BASELINE": str(words[0]), "CANDIDATE": str(words[1])}
    if b.run is not None:
        model, source = b.run.record.spec.model, source_of(b.run.record.spec.model)
        known |= {"MODEL.engine": model.path} if model.format == "engine" else {}
        known |= {"MODEL.onnx": source.path} if source is not None else {}
    causes = []
    for each in found.causes:
        parts = re.split(r"(BASELINE|CANDIDATE|MODEL\.\w+)", each.command or "")
        named = "".join(shlex.quote(known[part]) if part in known else part for part in parts)
        causes.append(each.having(command=named or None))
    return found.having(causes=tuple(causes))


def engine_labels(*words: File) -> tuple[str, ...]:
    """Return labels of engines: file names if these differ, else the full arguments."""
    heads = ((str(word), Path(str(word).split(",")[0])) for word in words)
    names = tuple(path.name if path.exists() else word for word, path in heads)
    differ = len(set(names)) == len(names)
    return names if differ else tuple(shlex.quote(str(word)) for word in words)


def line_up(engines: Sequence[EngineSource], by: str | None) -> diff.Lineup:
    """Align several engines, or group the layers of each by a key."""
    return diff.line_up([x.table for x in engines], [x.facts for x in engines], by)


def diff_notes(
    engines: Sequence[EngineSource], found: Sequence[str], names: Sequence[str]
) -> tuple[str, ...]:
    """Return notes on engines and on their comparison."""
    own = [f"{name}: {x}" for name, side in zip(names, engines, strict=True) for x in side.notes]
    sides: dict[str, list[object]] = {
        "GPUs": [each.facts.gpu for each in engines],
        "batch sizes": [each.facts.batch for each in engines],
    }
    known = {what: dict.fromkeys(str(x) for x in values if x) for what, values in sides.items()}
    apart = ((what, " and ".join(values)) for what, values in known.items() if len(values) > 1)
    return (*own, *found, *(f"the sides have different {w}: {values}" for w, values in apart))


def select_layers(
    engine: EngineSource, *, pattern: str | None, sort: str
) -> tuple[tables.Layer, ...]:
    """Return the layers that match a pattern or meet conditions, sorted."""
    low = (pattern or "").lower()  # a part of a kind or operator is enough, in any case
    conditions = tables.conditions_from_text(pattern or "")
    every = ((x, " ".join((x.kind or "", *x.operators)).lower()) for x in engine.table.layers)
    layers = tuple(x for x, kinds in every if low in kinds or tables.matches(x, pattern or "*"))
    if conditions is not None:
        every_layer = engine.table.layers
        layers = tuple(x for x in every_layer if all(tables.meets(x, *y) for y in conditions))
    if pattern and not layers:
        fix = "patterns can use * and ?, or be conditions: '/layer3/*', 'kernel=3x3,groups>1'"
        raise UsageError(f"no layer or node matches {pattern!r}", fix=fix)
    keys = {
        "time": lambda layer: -layer.seconds,
        "order": lambda layer: layer.index,
        "roofline": lambda layer: 1.0 if layer.roofline is None else layer.roofline,
    }
    return tuple(sorted(layers, key=keys[sort]))


def rows_text(rows: Sequence[diff.Row], *, ending: str = ".csv") -> str | bytes:
    if ending.lower() == ".json":
        return json_from_value(list(rows))
    if ending.lower() != ".csv":
        raise UsageError(f"rows can be written as .csv or .json, not {ending!r}", fix="-o FILE.csv")
    names = list(rows[0]) if rows else []
    return csv_from_lines(names, ([row[name] for name in names] for row in rows))


def load_run(name: str, store: Store | None) -> Run:
    """Read a run by name or folder, or from files of trtexec separated by commas."""
    words = [part for part in name.split(",") if part]
    if words and all(Path(word).is_file() for word in words):
        drafts, _ = _drafts([files.found_from_path(Path(word), named=True) for word in words])
        if not drafts or not drafts[0].measured:
            raise UsageError("the files contain no run", fix="give the files of one run")
        return run_from_draft(drafts[0], NOTHING_STATED, run_id=NOT_KEPT)
    if (Path(name) / RECORD).is_file():
        return demand_finished(read_run(Path(name)))
    if store is None or Path(name).suffix in (".json", ".log", ".txt", ".csv"):
        message = f"there is no file {name}"
        raise InputError(message, fix="give a file, or a run: trtbench runs lists them")
    return demand_finished(store.load(name))
