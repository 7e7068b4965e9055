"""The verbs about what is there already: stored runs, files, engines, this machine; for Python.

Knows no screens; a verb's workflow, and the libraries it needs, are imported when it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config, load_config, open_store
from trtbench.workflows.request.explaining import (
    DiffRequest,
    ExplainRequest,
    LayersRequest,
    WhyRequest,
)
from trtbench.workflows.request.groups import StoreFields
from trtbench.workflows.request.keeping import (
    DoctorRequest,
    ExportRunsRequest,
    HistoryRequest,
    ImportRequest,
    InspectRequest,
    ReportRequest,
    RunsRequest,
    SiteRequest,
)
from trtbench.workflows.request.kinds import File, words_from_text

if TYPE_CHECKING:
    from pandas import DataFrame

    from trtbench.analysis.inspection import Inspection
    from trtbench.analysis.layers.why import Why
    from trtbench.store.store import Store
    from trtbench.workflows.explain.ladder import Explanation
    from trtbench.workflows.explain.source import EngineSource
    from trtbench.workflows.importing.run import ImportResult
    from trtbench.workflows.look.doctor import Diagnosis
    from trtbench.workflows.stored.export import Exported
    from trtbench.workflows.stored.history import History
    from trtbench.workflows.stored.listing import Entries
    from trtbench.workflows.stored.site import SiteMade


def import_runs(request: ImportRequest) -> ImportResult:
    """Make ordinary runs of what trtexec or the toolkits around it have left behind.

    >>> trtbench.import_runs("results/", gpu="Tesla T4").runs
    """
    from trtbench.workflows.importing.run import import_artefacts

    return import_artefacts(request, store=open_store_of(request)[0])


def runs(request: RunsRequest) -> Entries:
    """List stored runs, newest first; the list shows itself, and has ``to_pandas()``.

    >>> trtbench.runs(model="resnet", since="7d")
    """
    from trtbench.workflows.stored.listing import Entries
    from trtbench.workflows.stored.runs import entries_from_request

    return Entries(entries_from_request(request, store=open_store_of(request)[0]))


def export_runs(request: ExportRunsRequest) -> Exported:
    """Export runs, all or those named, to Parquet files or to MLflow.

    >>> trtbench.export_runs(to="parquet", output="runs-parquet", since="30d")
    """
    from trtbench.workflows.stored.export import export_runs as export_entries
    from trtbench.workflows.stored.runs import chosen_entries

    store = open_store_of(request)[0]
    return export_entries(
        chosen_entries(request, store=store),
        store=store,
        to=request.to,
        output=str(request.output),
        experiment=request.experiment,
    )


def report(request: ReportRequest) -> list[Path]:
    """Write one document about any number of stored runs, or folders of runs.

    >>> trtbench.report("last", output="report", format="html,md")
    """
    from trtbench.workflows.stored.report import report_from_request

    return report_from_request(request, store=open_store_of(request)[0])[2]


def history(request: HistoryRequest) -> History:
    """Group stored runs into series over time and find where they changed.

    >>> trtbench.history("resnet18", since="30d").series
    """
    from trtbench.workflows.stored.history import read_history, write_history

    found = read_history(request, store=open_store_of(request)[0])
    if request.output is not None and found.series:
        write_history(found, Path(request.output), formats=words_from_text(request.format))
    return found


def site(request: SiteRequest) -> SiteMade:
    """Write a static web site over all runs of a store.

    >>> trtbench.site(output="public").index
    """
    from trtbench.workflows.stored.site import write_site

    return write_site(open_store_of(request)[0], Path(request.output), title=request.title)


def inspect(request: InspectRequest) -> Inspection:
    """Look into a model, an engine, a file of trtexec, or a run.

    >>> trtbench.inspect("model.onnx", batch=8).facts["flops"]
    """
    from trtbench.workflows.look.inspect import inspect as look_into

    there = Path(request.file).exists()  # a file needs no store
    config = load_config(store=request.store)
    return look_into(
        request.file,
        store=None if there else open_store_of(request)[0],
        shapes={name: tuple(dims) for name, dims in request.shapes.items()},
        batch=request.batch,
        onnx=Path(request.onnx) if request.onnx else None,
        load=config if request.load else None,
    )


def layers(request: LayersRequest) -> DataFrame:
    """Find the layers of a run or of trtexec's files, or groups of them, as a pandas DataFrame.

    >>> trtbench.layers("last", by="precision")
    """
    from trtbench.workflows.explain.layers import frame_of, layer_rows
    from trtbench.workflows.explain.source import engine_from_words

    store, _ = open_store_of(request)
    engine = engine_from_words(request.source, store=store, onnx=request.onnx, gpu=request.gpu)
    rows = layer_rows(engine, by=request.by, pattern=request.filter, sort=request.sort or "order")
    return frame_of(rows)


def diff(request: DiffRequest) -> DataFrame:
    """Align the layers of two engines and give what differs as a pandas DataFrame.

    >>> trtbench.diff("tag:fp16", "tag:int8")
    """
    from trtbench.analysis.layers.columns import rows_from_diff
    from trtbench.workflows.explain.engines import diff_of
    from trtbench.workflows.explain.layers import frame_of

    return frame_of(rows_from_diff(diff_of(*_engines(request, request.a, request.b))))


def why(request: WhyRequest) -> Why:
    """Find why a candidate is not faster: causes by what they explain.

    >>> trtbench.why("tag:fp16", "tag:int8").causes
    """
    from trtbench.workflows.explain.engines import why_of

    return why_of(*_engines(request, request.baseline, request.candidate))


def explain(request: ExplainRequest) -> Explanation:
    """Make a ladder of two numbers that differ: from what both runs state, or measured.

    >>> trtbench.explain("last", against="tag:trtexec").ladder
    """
    from trtbench.workflows.explain.ladder import explain_measured, explain_stated, named_run

    store, config = open_store_of(request)
    a, b = (named_run(str(name), store) for name in (request.run, request.against))
    if not request.measure:
        return explain_stated(a, b)
    conduct = Conduct(python=config.python_for(a.record.spec.runtime))
    return explain_measured(a, b, store=store, conduct=conduct, launches=request.launches)


def doctor(request: DoctorRequest) -> Diagnosis:
    """Look at what works here, and what to type to get the rest.

    >>> trtbench.doctor().working_runtimes
    """
    from trtbench.workflows.look.doctor import diagnose

    return diagnose()


def open_store_of(request: StoreFields) -> tuple[Store, Config]:
    """Open the store that is asked for, and the settings."""
    config = load_config(store=request.store)
    return open_store(config), config


def _engines(
    request: DiffRequest | WhyRequest, a: File, b: File
) -> tuple[EngineSource, EngineSource]:
    from trtbench.workflows.explain.engines import two_engines

    store, _ = open_store_of(request)
    return two_engines(a, b, store=store, onnx=request.onnx, gpu=request.gpu)
