"""Time the layers of a model, or show those of a run or of files.

A model is measured, and its layers are timed in a separate pass. SOURCE may also be a stored run,
or files of trtexec or their folder: a profile, layer information, the ONNX file. Layers are grouped
with --by, checked with --expect, written with -o FILE.csv and drawn with --draw.

Examples:
  trtbench profile model.engine
  trtbench profile model.engine --csv > layers.csv
  trtbench profile last --json
  trtbench profile profile.json graph.json model.onnx --by precision
  trtbench profile net.profile.json --by '/layer3/*,/layer4/*' \\
      --gpu 'NVIDIA H200'
  trtbench profile last --expect 'share(precision=int8)>=80%' \\
      --junit layers.xml
  trtbench profile last --all -o layers.json
  trtbench profile last --draw engine.svg --colour precision
  >>> trtbench.profile("model.engine").layers.layers[0].average_s
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from trtbench.core.errors import EXIT_BROKEN, InputError, UsageError, refuse_unknown
from trtbench.requests import fields
from trtbench.requests.fields import Argument, File, option
from trtbench.requests.measure import BenchRequest, RunFields
from trtbench.verbs._screen import draw, print_json, say, write
from trtbench.verbs._verb import Caller, PlanView, Verb, python_function, refuse_unwritable
from trtbench.verbs.bench import show_plan, spec_from_request
from trtbench.verbs.diff import EngineSourceFields, LayersView

if TYPE_CHECKING:
    from pandas import DataFrame

    from trtbench.core.run import Run
    from trtbench.layers.diff import Row
    from trtbench.layers.table import Group, Layer
    from trtbench.workflows.engines import EngineSource


class ProfileView(LayersView, PlanView):
    """Which layers are shown, drawn and checked."""

    draw: File | None = option(
        None,
        "Draw all layers as FILE.svg for a browser, or the --top as bars in FILE.png.",
        kind=fields.FILE,
    )
    chart: Literal["time", "memory", "mnk"] = option(
        "time", "What bars show: times, bytes of tensors and weights, or M, N and K of products."
    )
    colour: Literal["time", "precision", "roofline"] = option(
        "time", "What colours mean in the drawing."
    )
    expectations: Sequence[str] = option(
        (),
        "'count(Einsum)>=1', 'share(precision=int8)>=80%', 'jitter<5%'; status 3 if not met.",
        ("--expect",),
        metavar="RULE",
    )
    junit: File | None = option(
        None, "Write the results of --expect as JUnit XML.", kind=fields.FILE
    )

    def validate(self) -> None:
        """Refuse what cannot be drawn or expected before anything is measured."""
        if self.draw:
            unknown = f"{self.draw} is no drawing"
            refuse_unknown(Path(self.draw).suffix.lower(), (".svg", ".png"), unknown)
        if self.junit and not self.expectations:
            raise UsageError("--junit has the results of --expect", fix="add --expect RULE")
        for path in (self.draw, self.junit):
            if path:
                refuse_unwritable(Path(path).parent)
        if self.expectations:
            from trtbench.analysis.gate import rule_from_expectation

            _ = [rule_from_expectation(text) for text in self.expectations]


class ProfileRequest(
    RunFields, fields.TagFields, fields.ExecutorFields, fields.StoreFields, kw_only=False
):
    """Time the layers of a model, or show those of a stored run."""

    model: Annotated[
        File, Argument("A file, or the name of a stored run.", "MODEL", travels="model")
    ]


class LayerRowFields(fields.VerbRequest):
    """Which layers are shown, and in which order."""

    by: str | None = option(
        None, "Group by kind, operator, precision, role, node, block, '/a/*'.", metavar="KEY"
    )
    filter: str | None = option(
        None,
        "Only matching layers, nodes or kinds, or conditions: 'kernel=3x3,groups>1'.",
        metavar="PATTERN",
    )
    columns: str | None = option(
        None, "Columns to show: name,kernel,m,n,k,format_out; --csv has all.", metavar="KEYS"
    )
    sort: Literal["time", "order", "roofline"] | None = option(
        None, "Slowest first, as they run, or by roofline (default: time; in Python: order)."
    )

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that were asked for; empty for the usual ones."""
        return tuple(key.strip() for key in (self.columns or "").split(",") if key.strip())

    def validate(self) -> None:
        """Refuse unknown columns, groups and conditions before anything is measured."""
        if self.columns or self.by or self.filter:
            from trtbench.layers.diff import rows_from_layers
            from trtbench.layers.table import LayerTable, conditions_from_text, groups_of

            rows_from_layers((), self.keys)
            groups_of(LayerTable(layers=()), self.by or "kind")
            conditions_from_text(self.filter or "")


class LayersRequest(LayerRowFields, EngineSourceFields, fields.StoreFields, kw_only=False):
    """Show the layers of a run, or of files of trtexec."""

    source: Annotated[
        Sequence[File],
        Argument(
            "A run, or files of trtexec (or their folder): profile, layers, ONNX.", "SOURCE..."
        ),
    ]


class SourceRequest(LayerRowFields, EngineSourceFields, ProfileRequest):
    """A model to profile, or a run or files that have its layers."""

    output: File | None = fields.output_path(
        None, "Folder for the run; or all layers as FILE.csv or .json."
    )

    @property
    def table(self) -> Path | None:
        """The file that all layers are written to, if any."""
        path = Path(self.output) if self.output else None
        if path and (path.suffix in (".csv", ".json") or not is_measured(str(self.model))):
            return path
        return None


def run(request: SourceRequest, caller: Caller) -> EngineSource:
    from trtbench.workflows.engines import engine_from_arguments, engine_from_run

    if request.table:
        refuse_unwritable(request.table.parent)
    if is_measured(str(request.model)):
        return engine_from_run(measured(request, caller))
    read = {each.name for each in fields.fields_of(LayersRequest)}
    read |= {"model", "extra_args", "output"}
    others = [each for each in fields.fields_of(SourceRequest) if each.name not in read]
    if given := [each.flag for each in others if getattr(request, each.name) != each.default]:
        message = f"the layers of {request.model} are read, not measured"
        raise UsageError(message, fix=f"leave out {' '.join(given)}")
    words = (request.model, *request.extra_args)
    store = caller.store(caller.settings(request.store))
    return engine_from_arguments(words, store=store, onnx=request.onnx, gpu=request.gpu)


def measured(request: ProfileRequest, caller: Caller) -> Run:
    """Measure a model and its layers, or read the stored run of that name."""
    from trtbench.convert.steps import with_engines
    from trtbench.measure.bench import demand_layer_times, run_bench
    from trtbench.store.directory import demand_finished

    config = caller.settings(request.store)
    if not is_measured(str(request.model)):
        return demand_layer_times(demand_finished(caller.store(config).load(str(request.model))))
    bench = _bench_request(request)
    spec = spec_from_request(bench, config)
    store = caller.store(config)
    with caller.executing(bench, config, spec.model.name, runtime=spec.runtime) as execution:
        [(spec, _)] = with_engines(
            [(spec, execution.python)], bench.build, store=store, config=config,
            execution=execution,
        )  # fmt: skip
        run = demand_layer_times(run_bench(spec, store=store, execution=execution))
    caller.closing.extend(f"note: {note}" for note in run.record.notes)
    if run.path is not None:
        caller.closing.append(f"run {run.id} in {run.path}")
    return run


def is_measured(name: str) -> bool:
    """Whether a name is a model to measure, not a stored run or a file written by trtexec."""
    from trtbench.importing.files import found_from_path
    from trtbench.models.identity import SUFFIXES
    from trtbench.models.torch_models import is_library_model

    path = Path(name)
    if path.suffix.lower() in SUFFIXES or is_library_model(name):
        return True
    artefacts = (".json", ".log", ".txt", ".csv", ".gz", ".zip", ".tar", ".tgz", ".md", ".ipynb")
    if not path.is_file() or path.suffix.lower() in artefacts:
        return False
    with suppress(InputError):  # files of trtexec may have any name
        return found_from_path(path, named=True).kind == "unknown"
    return True


def _bench_request(request: ProfileRequest) -> BenchRequest:
    table = isinstance(request, SourceRequest) and request.table is not None
    output = None if table else request.output
    return fields.converted(request, BenchRequest, model=request.model, profile=True, output=output)


def plan(request: SourceRequest, view: PlanView, caller: Caller) -> None:
    config = caller.settings(request.store)
    show_plan(spec_from_request(_bench_request(request), config), as_json=view.as_json)


def show(engine: EngineSource, request: SourceRequest, view: ProfileView) -> int | None:
    from trtbench.analysis.gate import Suite, judge_expectations, junit_from_suites, passed
    from trtbench.host.files import write_output
    from trtbench.report.document import document_from_blocks
    from trtbench.report.engine_svg import svg_from_engine
    from trtbench.report.sections.layers import document_from_layers
    from trtbench.report.sections.summary import document_from_run
    from trtbench.report.sections.verdicts import rule_table
    from trtbench.workflows import engines as layers

    results = judge_expectations(view.expectations, engine.table, engine.facts)
    kept, groups, rows = _rows(engine, request, request.sort or "time")
    document = document_from_layers(
        engine.label, engine.table, kept[: view.most], facts=engine.facts,
        groups=groups[: view.most], by=request.by, keys=request.keys, notes=engine.notes,
        created=engine.run.record.created if engine.run else "",
    )  # fmt: skip
    stored = engine.run if engine.run is not None and engine.run.path is not None else None
    if view.as_json:
        of_run = {"run": stored.id, "path": str(stored.path)} if stored else {}
        print_json({**of_run, **document.data})
    elif view.as_csv:
        write(layers.rows_text(rows))
    else:
        draw(document)
        if stored is not None:
            draw(document_from_run(stored))
    if results:
        blocks = [rule_table(results)]
        draw(document_from_blocks("blocks", blocks), err=view.as_json or view.as_csv)
    if request.table:
        text = layers.rows_text(rows, ending=request.table.suffix)
        say(f"wrote {write_output(request.table, text, named=True)}")
    if view.draw and Path(view.draw).suffix.lower() == ".png":
        path, shown = Path(view.draw), kept[: view.most]
        say(f"wrote {layers.draw_layers(engine, path, shown, chart=view.chart)}")
    elif view.draw:
        svg = svg_from_engine(engine.table, title=engine.label, colour=view.colour)
        say(f"wrote {write_output(Path(view.draw), svg, named=True)}")
    if view.junit:
        suite = f"trtbench profile {engine.label}"
        write_output(Path(view.junit), junit_from_suites([Suite(suite, results)]), named=True)
    return None if passed(results) else EXIT_BROKEN


def frame(request: LayersRequest, caller: Caller) -> DataFrame:
    from trtbench.core.plugins import optional_library
    from trtbench.workflows.engines import engine_from_arguments

    store, _ = caller.store_and_settings(request)
    engine = engine_from_arguments(request.source, store=store, onnx=request.onnx, gpu=request.gpu)
    _, _, rows = _rows(engine, request, request.sort or "order")
    return optional_library("pandas").DataFrame(rows)


def _rows(
    engine: EngineSource, request: LayerRowFields, sort: str
) -> tuple[Sequence[Layer], Sequence[Group], list[Row]]:
    """Return the layers that were asked for, their groups if any, and the rows of a file."""
    from trtbench.layers.diff import rows_from_groups, rows_from_layers
    from trtbench.layers.table import groups_of
    from trtbench.workflows.engines import select_layers

    kept = select_layers(engine, pattern=request.filter, sort=sort)
    if request.by is None:
        return kept, (), rows_from_layers(kept, request.keys)
    groups = groups_of(engine.table, request.by, among=kept)
    return kept, groups, rows_from_groups(groups, by=request.by)


verb = Verb(SourceRequest, run, show, ProfileView, plan=plan, task="images")
profile = python_function(ProfileRequest, measured)
layers = python_function(LayersRequest, frame)
