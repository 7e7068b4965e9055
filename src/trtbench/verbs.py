"""What each verb does with its request, for Python: settings, store and workflow put together.

``api.py`` offers these with typed arguments and is made from the requests by ``tools/make_api.py``.
Knows no screens; a verb's workflow, and the libraries it needs, are imported when it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.verbs_of_runs import open_store_of
from trtbench.workflows.request.choice import first_choice
from trtbench.workflows.request.comparing import CompareRequest, GateRequest
from trtbench.workflows.request.conduct import conduct_from_request
from trtbench.workflows.request.config import load_config
from trtbench.workflows.request.fields import converted
from trtbench.workflows.request.judging import CheckRequest, EvalRequest, LocalizeRequest
from trtbench.workflows.request.making import BuildRequest, ExportRequest, QuantizeRequest
from trtbench.workflows.request.measuring import BenchRequest, ProfileRequest
from trtbench.workflows.request.progress import Listener, silent
from trtbench.workflows.request.rebuilding import LotteryRequest, UpgradeRequest
from trtbench.workflows.request.sweeping import SweepRequest

if TYPE_CHECKING:
    from trtbench.analysis.builds import Lottery
    from trtbench.domain.artefact import Artefact
    from trtbench.domain.comparison import Comparison
    from trtbench.domain.conversion import Sidecar
    from trtbench.domain.localize import Localization
    from trtbench.domain.result import Run
    from trtbench.workflows.builds.upgrade import Upgrade
    from trtbench.workflows.check.evaluate import Evaluation
    from trtbench.workflows.check.values import Checked
    from trtbench.workflows.compare.gate import Gate
    from trtbench.workflows.sweep.result import Results


def bench(request: BenchRequest) -> Run:
    """Measure a model in fresh processes and keep the run.

    Durations are seconds or text with a unit (``"500ms"``). Raises ``TrtbenchError``; a launch
    that breaks leaves a ``FailedRun`` in the store. With ``slo`` it is the run at the highest
    rate that keeps the bound, and ``run.load`` the search.

    >>> run = trtbench.bench("model.onnx", batch=8, launches=5)
    >>> run.times.host                  # seconds, one row per iteration
    >>> print(run)
    """
    from trtbench.workflows.measure.load import measured
    from trtbench.workflows.measure.remote import executor_for
    from trtbench.workflows.request.spec import run_spec

    store, config = open_store_of(request)
    spec = run_spec(request, config)
    conduct = conduct_from_request(request, config, runtime=spec.runtime)
    with executor_for(request, conduct) as conduct:
        run = measured(spec, store=store, conduct=conduct, slo=request.slo)
    if request.keep_model:
        from trtbench.workflows.measure.kept_models import keep_model

        keep_model(store, spec.model)
    return run


def profile(request: ProfileRequest) -> Run:
    """Time the layers of a model, or read the run of that name; ``.layers`` has them.

    >>> trtbench.profile("model.engine").layers.layers[0].average_s
    """
    from trtbench.workflows.measure.profile import is_model_file, profile_model, stored_profile
    from trtbench.workflows.measure.remote import executor_for
    from trtbench.workflows.request.spec import run_spec

    store, config = open_store_of(request)
    if not is_model_file(str(request.model)):
        return stored_profile(str(request.model), store=store)
    spec = run_spec(converted(request, BenchRequest, model=request.model, profile=True), config)
    conduct = conduct_from_request(request, config, runtime=spec.runtime)
    with executor_for(request, conduct) as conduct:
        return profile_model(spec, store=store, conduct=conduct)


def compare(request: CompareRequest) -> Comparison:
    """Compare two models, engines or stored runs; files are measured in turn with each other.

    >>> trtbench.compare("model.onnx", "model.int8.onnx", batch=8).verdicts[0].kind
    """
    from trtbench.workflows.compare.compare import compare as compare_sides
    from trtbench.workflows.measure.remote import executor_for

    store, config = open_store_of(request)
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
    from trtbench.workflows.measure.remote import executor_for
    from trtbench.workflows.stored.history import baseline_run

    store, config = open_store_of(request)
    against = baseline_run(request, store=store, config=config) if request.baseline else None
    conduct = conduct_from_request(request, config)
    with executor_for(request, conduct) as conduct:
        return hold_to_rules(request, store=store, config=config, against=against, conduct=conduct)


def check(request: CheckRequest, *, listen: Listener = silent) -> Checked:
    """Run every side on the same inputs and compare each candidate with the reference.

    Inputs are random, rows of a file, or ``images`` with the preprocessing of a task and its
    ``settings``. Tables and the worst inputs are written to ``output``.

    >>> checked = trtbench.check("model.onnx", "model.int8.onnx", random=500)
    >>> checked.candidates[0].checks[0].sqnr_db
    """
    from trtbench.workflows.check.check import run_check
    from trtbench.workflows.check.check_files import join_checks, write_check

    store, config = open_store_of(request)
    conduct = conduct_from_request(request, config, listen=listen)
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

    store, config = open_store_of(request)
    conduct = conduct_from_request(request, config)
    return run_localize(request, store=store, config=config, conduct=conduct)


def evaluate(request: EvalRequest, *, listen: Listener = silent) -> Evaluation:
    """Evaluate models on data with known answers; runs of the same bytes carry the scores.

    ``settings`` are the flags of the task, with underscores: ``{"gt": "truth", "align": "none"}``.

    >>> found = trtbench.evaluate("model.onnx", task="classification", data="val", batch=8)
    >>> found.models[0].score("top1").value
    """
    from trtbench.workflows.check.evaluate import run_evaluation
    from trtbench.workflows.check.evaluate_files import join, write_evaluation

    store, config = open_store_of(request)
    conduct = conduct_from_request(request, config, listen=listen)
    found = run_evaluation(request, store=store, config=config, conduct=conduct)
    found = join(found, store, runs=request.join)
    write_evaluation(found, Path(request.output))
    return found


def build(request: BuildRequest, *, listen: Listener = silent) -> Artefact:
    """Build an engine from an ONNX file in a fresh process.

    >>> trtbench.build("model.onnx", precision="fp16", workspace="4GiB").path
    """
    from trtbench.workflows.make.build import build_spec, run_build
    from trtbench.workflows.make.remote import build_elsewhere

    config = load_config()
    if request.executor is not None:
        conduct = conduct_from_request(request, config, listen=listen)
        return build_elsewhere(request, config=config, conduct=conduct)
    spec = build_spec(request, config)
    conduct = conduct_from_request(request, config, runtime=spec.runtime, listen=listen)
    return run_build(spec, conduct=conduct)


def lottery(request: LotteryRequest) -> Lottery:
    """Build the same engine several times; ``.aspects`` tell in what the builds differ.

    >>> trtbench.lottery("model.onnx", precision="fp16", builds=5).spread.between
    """
    from trtbench.workflows.builds.draws import run_lottery

    store, config = open_store_of(request)
    conduct = conduct_from_request(request, config)
    return run_lottery(request, store=store, config=config, conduct=conduct)


def upgrade(request: UpgradeRequest) -> Upgrade:
    """Build one network with two versions of TensorRT and hold the engines against each other.

    >>> trtbench.upgrade("8.6=/opt/trt86/bin/python", "10=/opt/trt10/bin/python", "model.onnx")
    """
    from trtbench.workflows.builds.upgrade import run_upgrade

    store, config = open_store_of(request)
    conduct = conduct_from_request(request, config)
    return run_upgrade(request, store=store, config=config, conduct=conduct)


def export(request: ExportRequest) -> Sidecar:
    """Export a PyTorch model to ONNX, check it, and compare it with PyTorch.

    >>> trtbench.export("torchvision:resnet18", output="resnet18.onnx").difference
    """
    from trtbench.workflows.make.export import export_spec, run_export

    conduct = conduct_from_request(request, load_config(), runtime=first_choice("torch"))
    return run_export(export_spec(request), target=request.target, conduct=conduct)


def quantize(request: QuantizeRequest, *, listen: Listener = silent) -> Sidecar:
    """Cast or quantize an ONNX file, and compare the result with it on other inputs.

    >>> trtbench.quantize("model.onnx", precision="int8", calibration="data.npz").difference
    """
    from trtbench.workflows.make.quantize import quant_spec, quantized

    config, spec = load_config(), quant_spec(request)
    conduct = conduct_from_request(request, config, runtime=spec.via, listen=listen)
    return quantized(request, spec, config=config, conduct=conduct)


def sweep(request: SweepRequest) -> Results:
    """Measure every case of a matrix: models and axes, a file, or a mapping of the same keys.

    With a folder as ``output`` that a sweep has begun in, it goes on where that ended.

    >>> trtbench.sweep("model.onnx", batch=[1, 8], output="sweep").rows
    """
    from trtbench.workflows.measure.remote import executor_for
    from trtbench.workflows.request.conduct import is_elsewhere
    from trtbench.workflows.sweep.journal import SWEEP
    from trtbench.workflows.sweep.request import check_plan, matrix_from_request, sweep_folder
    from trtbench.workflows.sweep.result import results_from_sweep
    from trtbench.workflows.sweep.run import carry_out, start_sweep

    store, config = open_store_of(request)
    given = request.resume or request.output
    folder = Path(given) if given is not None else None
    if folder is None or not (folder / SWEEP).is_file():
        matrix = matrix_from_request(request)
        check_plan(matrix, config=config, elsewhere=is_elsewhere(request))
        folder = sweep_folder(request, matrix)
        start_sweep(matrix, folder, store=store)
    conduct = conduct_from_request(request, config)
    with executor_for(request, conduct) as conduct:
        done = carry_out(
            folder, store=store, config=config, conduct=conduct, retry_failed=request.retry_failed
        )
    return results_from_sweep(done, store=store)
