"""What each verb does with its request, for Python: settings, store and workflow put together.

``api.py`` offers these with typed arguments and is made from the requests by ``tools/make_api.py``.
Knows no screens; a verb's workflow, and the libraries it needs, are imported when it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.workflows.request.choice import first_choice
from trtbench.workflows.request.comparing import CompareRequest, GateRequest
from trtbench.workflows.request.conduct import Conduct, conduct_from_request
from trtbench.workflows.request.config import Config, load_config, open_store
from trtbench.workflows.request.explaining import (
    DiffRequest,
    ExplainRequest,
    LayersRequest,
    WhyRequest,
)
from trtbench.workflows.request.fields import converted
from trtbench.workflows.request.groups import StoreFields
from trtbench.workflows.request.judging import CheckRequest, EvalRequest, LocalizeRequest
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
from trtbench.workflows.request.making import BuildRequest, ExportRequest, QuantizeRequest
from trtbench.workflows.request.measuring import BenchRequest, ProfileRequest
from trtbench.workflows.request.rebuilding import LotteryRequest, UpgradeRequest
from trtbench.workflows.request.sweeping import SweepRequest

if TYPE_CHECKING:
    from pandas import DataFrame

    from trtbench.analysis.builds import Lottery
    from trtbench.analysis.inspection import Inspection
    from trtbench.analysis.layers.why import Why
    from trtbench.domain.artefact import Artefact
    from trtbench.domain.comparison import Comparison
    from trtbench.domain.conversion import Sidecar
    from trtbench.domain.result import Run
    from trtbench.store.store import Store
    from trtbench.workflows.builds.upgrade import Upgrade
    from trtbench.workflows.check.evaluate import Evaluation
    from trtbench.workflows.check.values import Checked
    from trtbench.workflows.compare.gate import Gate
    from trtbench.workflows.explain.ladder import Explanation
    from trtbench.workflows.explain.localize import Localization
    from trtbench.workflows.explain.source import EngineSource
    from trtbench.workflows.importing.run import ImportResult
    from trtbench.workflows.look.doctor import Diagnosis
    from trtbench.workflows.stored.export import Exported
    from trtbench.workflows.stored.history import History
    from trtbench.workflows.stored.listing import Entries
    from trtbench.workflows.stored.site import SiteMade
    from trtbench.workflows.sweep.result import Results


def bench(request: BenchRequest) -> Run:
    """Measure a model in fresh processes and keep the run.

    Durations are seconds or text with a unit (``"500ms"``). Raises ``TrtbenchError``; a launch
    that breaks leaves a ``FailedRun`` in the store.

    >>> run = trtbench.bench("model.onnx", batch=8, launches=5)
    >>> run.times.host                  # seconds, one row per iteration
    >>> print(run)
    """
    from trtbench.workflows.measure.bench import run_bench
    from trtbench.workflows.measure.remote import executor_for
    from trtbench.workflows.request.spec import run_spec

    store, config = _open(request)
    spec = run_spec(request, config)
    conduct = conduct_from_request(request, config, runtime=spec.runtime)
    with executor_for(request, conduct) as conduct:
        return run_bench(spec, store=store, conduct=conduct)


def profile(request: ProfileRequest) -> Run:
    """Time the layers of a model, or read the run of that name; ``.layers`` has them.

    >>> trtbench.profile("model.engine").layers.layers[0].average_s
    """
    from trtbench.workflows.measure.profile import is_model_file, profile_model, stored_profile
    from trtbench.workflows.request.spec import run_spec

    store, config = _open(request)
    if not is_model_file(str(request.model)):
        return stored_profile(str(request.model), store=store)
    spec = run_spec(converted(request, BenchRequest, model=request.model, profile=True), config)
    conduct = conduct_from_request(request, config, runtime=spec.runtime)
    return profile_model(spec, store=store, conduct=conduct)


def compare(request: CompareRequest) -> Comparison:
    """Compare two models, engines or stored runs; files are measured in turn with each other.

    >>> trtbench.compare("model.onnx", "model.int8.onnx", batch=8).verdicts[0].kind
    """
    from trtbench.workflows.compare.compare import compare as compare_sides
    from trtbench.workflows.measure.remote import executor_for

    store, config = _open(request)
    conduct = conduct_from_request(request, config)
    if request.builds is not None:
        from trtbench.workflows.builds.networks import compare_networks

        found = compare_networks(request, store=store, config=config, conduct=conduct)
        return found[0].comparison
    with executor_for(request, conduct) as conduct:
        return compare_sides(request, store=store, config=config, conduct=conduct)[0].comparison


def gate(request: GateRequest) -> Gate:
    """Hold a candidate to rules such as ``p99<5ms``; ``.open`` tells whether all are met.

    >>> trtbench.gate("new.onnx", against="old.onnx", max_slowdown="3%").open
    """
    from trtbench.workflows.compare.gate import gate as hold_to_rules
    from trtbench.workflows.stored.history import baseline_run

    store, config = _open(request)
    against = baseline_run(request, store=store, config=config) if request.baseline else None
    conduct = conduct_from_request(request, config)
    return hold_to_rules(request, store=store, config=config, against=against, conduct=conduct)


def check(request: CheckRequest) -> Checked:
    """Run every side on the same inputs and compare each candidate with the reference.

    Inputs are random, rows of a file, or ``images`` with the preprocessing of a task and its
    ``settings``. Tables and the worst inputs are written to ``output``.

    >>> checked = trtbench.check("model.onnx", "model.int8.onnx", random=500)
    >>> checked.candidates[0].checks[0].sqnr_db
    """
    from trtbench.workflows.check.check import run_check
    from trtbench.workflows.check.check_files import join_checks, write_check

    store, config = _open(request)
    conduct = conduct_from_request(request, config)
    checked = run_check(request, store=store, config=config, conduct=conduct)
    write_check(checked, Path(request.output))
    join_checks(checked, store)
    return checked


def localize(request: LocalizeRequest) -> Localization:
    """Find the layers that cost a low-precision model its accuracy, and the fewest to keep.

    >>> found = trtbench.localize("model.onnx", "model.int8.onnx", repair=True, where="sqnr>=30dB")
    >>> found.found.groups[0].node, found.repaired
    """
    from trtbench.workflows.explain.localize import run_localize

    store, config = _open(request)
    conduct = conduct_from_request(request, config)
    return run_localize(request, store=store, config=config, conduct=conduct)


def evaluate(request: EvalRequest) -> Evaluation:
    """Evaluate models on data with known answers; runs of the same bytes carry the scores.

    ``settings`` are the flags of the task, with underscores: ``{"gt": "truth", "align": "none"}``.

    >>> found = trtbench.evaluate("model.onnx", task="classification", data="val", batch=8)
    >>> found.models[0].score("top1").value
    """
    from trtbench.workflows.check.evaluate import run_evaluation
    from trtbench.workflows.check.evaluate_files import join, write_evaluation

    store, config = _open(request)
    conduct = conduct_from_request(request, config)
    found = run_evaluation(request, store=store, config=config, conduct=conduct)
    found = join(found, store, runs=request.join)
    write_evaluation(found, Path(request.output))
    return found


def build(request: BuildRequest) -> Artefact:
    """Build an engine from an ONNX file in a fresh process.

    >>> trtbench.build("model.onnx", precision="fp16", workspace="4GiB").path
    """
    from trtbench.workflows.make.build import build_spec, run_build

    config = load_config()
    spec = build_spec(request, config)
    return run_build(spec, conduct=conduct_from_request(request, config, runtime=spec.runtime))


def lottery(request: LotteryRequest) -> Lottery:
    """Build the same engine several times; ``.aspects`` tell in what the builds differ.

    >>> trtbench.lottery("model.onnx", precision="fp16", builds=5).spread.between
    """
    from trtbench.workflows.builds.draws import run_lottery
    from trtbench.workflows.request.conduct import conduct_from_request

    store, config = _open(request)
    conduct = conduct_from_request(request, config)
    return run_lottery(request, store=store, config=config, conduct=conduct)


def upgrade(request: UpgradeRequest) -> Upgrade:
    """Build one network with two versions of TensorRT and hold the engines against each other.

    >>> trtbench.upgrade("8.6=/opt/trt86/bin/python", "10=/opt/trt10/bin/python", "model.onnx")
    """
    from trtbench.workflows.builds.upgrade import run_upgrade
    from trtbench.workflows.request.conduct import conduct_from_request

    store, config = _open(request)
    conduct = conduct_from_request(request, config)
    return run_upgrade(request, store=store, config=config, conduct=conduct)


def export(request: ExportRequest) -> Sidecar:
    """Export a PyTorch model to ONNX, check it, and compare it with PyTorch.

    >>> trtbench.export("torchvision:resnet18", output="resnet18.onnx").difference
    """
    from trtbench.workflows.make.export import export_spec, run_export

    conduct = conduct_from_request(request, load_config(), runtime=first_choice("torch"))
    return run_export(export_spec(request), target=request.target, conduct=conduct)


def quantize(request: QuantizeRequest) -> Sidecar:
    """Cast or quantize an ONNX file, and compare the result with it on other inputs.

    >>> trtbench.quantize("model.onnx", precision="int8", calibration="data.npz").difference
    """
    from trtbench.workflows.make.quantize import data_from_request, quant_spec, run_quantize

    spec = quant_spec(request)
    conduct = conduct_from_request(request, load_config(), runtime=spec.via)
    return run_quantize(spec, data=data_from_request(request), conduct=conduct)


def sweep(request: SweepRequest) -> Results:
    """Measure every case of a matrix: models and axes, a file, or a mapping of the same keys.

    With a folder as ``output`` that a sweep has begun in, it goes on where that ended.

    >>> trtbench.sweep("model.onnx", batch=[1, 8], output="sweep").rows
    """
    from trtbench.workflows.measure.remote import executor_for
    from trtbench.workflows.sweep.journal import SWEEP
    from trtbench.workflows.sweep.plan import plan_sweep
    from trtbench.workflows.sweep.request import matrix_from_request, sweep_folder
    from trtbench.workflows.sweep.result import results_from_sweep
    from trtbench.workflows.sweep.run import carry_out, start_sweep

    store, config = _open(request)
    given = request.resume or request.output
    folder = Path(given) if given is not None else None
    if folder is None or not (folder / SWEEP).is_file():
        matrix = matrix_from_request(request)
        plan_sweep(matrix, config=config)  # what has no meaning leaves no folder
        folder = sweep_folder(request, matrix)
        start_sweep(matrix, folder, store=store)
    conduct = conduct_from_request(request, config)
    with executor_for(request, conduct) as conduct:
        done = carry_out(
            folder, store=store, config=config, conduct=conduct, retry_failed=request.retry_failed
        )
    return results_from_sweep(done, store=store)


def import_runs(request: ImportRequest) -> ImportResult:
    """Make ordinary runs of what trtexec or the toolkits around it have left behind.

    >>> trtbench.import_runs("results/", gpu="Tesla T4").runs
    """
    from trtbench.workflows.importing.run import import_artefacts

    return import_artefacts(request, store=_open(request)[0])


def runs(request: RunsRequest) -> Entries:
    """List stored runs, newest first; the list shows itself, and has ``to_pandas()``.

    >>> trtbench.runs(model="resnet", since="7d")
    """
    from trtbench.workflows.stored.listing import Entries
    from trtbench.workflows.stored.runs import entries_from_request

    return Entries(entries_from_request(request, store=_open(request)[0]))


def export_runs(request: ExportRunsRequest) -> Exported:
    """Export runs, all or those named, to Parquet files or to MLflow.

    >>> trtbench.export_runs(to="parquet", output="runs-parquet", since="30d")
    """
    from trtbench.workflows.stored.export import export_runs as export_entries
    from trtbench.workflows.stored.runs import chosen_entries

    store = _open(request)[0]
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

    return report_from_request(request, store=_open(request)[0])[2]


def history(request: HistoryRequest) -> History:
    """Group stored runs into series over time and find where they changed.

    >>> trtbench.history("resnet18", since="30d").series
    """
    from trtbench.workflows.stored.history import history_from_request, write_history

    found = history_from_request(request, store=_open(request)[0])
    if request.output is not None and found.series:
        write_history(found, Path(request.output), formats=words_from_text(request.format))
    return found


def site(request: SiteRequest) -> SiteMade:
    """Write a static web site over all runs of a store.

    >>> trtbench.site(output="public").index
    """
    from trtbench.workflows.stored.site import write_site

    return write_site(_open(request)[0], Path(request.output), title=request.title)


def inspect(request: InspectRequest) -> Inspection:
    """Look into a model, an engine, a file of trtexec, or a run.

    >>> trtbench.inspect("model.onnx", batch=8).facts["flops"]
    """
    from trtbench.workflows.look.inspect import inspect as look_into

    there = Path(request.file).exists()  # a file needs no store
    return look_into(
        request.file,
        store=None if there else _open(request)[0],
        shapes={name: tuple(dims) for name, dims in request.shapes.items()},
        batch=request.batch,
        onnx=Path(request.onnx) if request.onnx else None,
    )


def layers(request: LayersRequest) -> DataFrame:
    """Find the layers of a run or of trtexec's files, or groups of them, as a pandas DataFrame.

    >>> trtbench.layers("last", by="precision")
    """
    from trtbench.workflows.explain.layers import frame_of, layer_rows
    from trtbench.workflows.explain.source import engine_from_words

    engine = engine_from_words(
        [str(word) for word in request.source],
        store=_open(request)[0],
        onnx=Path(request.onnx) if request.onnx is not None else None,
        gpu=request.gpu,
    )
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

    store, config = _open(request)
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


def _open(request: StoreFields) -> tuple[Store, Config]:
    config = load_config(store=request.store)
    return open_store(config), config


def _engines(
    request: DiffRequest | WhyRequest, a: File, b: File
) -> tuple[EngineSource, EngineSource]:
    from trtbench.workflows.explain.engines import two_engines

    onnx = Path(request.onnx) if request.onnx is not None else None
    return two_engines(str(a), str(b), store=_open(request)[0], onnx=onnx, gpu=request.gpu)
