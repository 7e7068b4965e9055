"""Measure a model in fresh processes and keep the run.

What follows ``--`` is passed on to runtimes that are programs (trtexec). A launch that fails
leaves a failed run in the store; Ctrl-C keeps the launches that are complete. An ONNX file on
TensorRT is built first; the engine is kept in the store. With --slo, keeps the run at the highest
rate that meets it.

Examples:
  trtbench bench model.onnx --batch 8
  trtbench bench model.onnx --shape input:8x3x224x224 --duration 10s \\
      --launches 5
  trtbench bench model.onnx --protocol server --rate 200/s
  trtbench bench model.onnx --slo 'p99<10ms'
  trtbench bench model.onnx -r tensorrt --precision fp16
  trtbench bench model.engine --cuda-graph --telemetry 50ms --lock-clocks
  trtbench bench model.engine --protocol pipeline --streams 2
  trtbench bench model.onnx --device cuda:0 --opt providers=tensorrt,cuda
  trtbench bench torchvision:resnet18 -r torch --batch 8 --precision fp16
  trtbench bench model.onnx --data data.npz --threads 2 --tag nightly --json
  trtbench bench depth.engine --data photo.jpg --task depth
  trtbench bench model.onnx --python ~/envs/ort-1.20/bin/python
  trtbench bench model.engine -r trtexec --cuda-graph on -- --useManagedMemory
  trtbench bench model.onnx --executor ssh --hosts hosts.toml --need gpu=Orin
  >>> run = trtbench.bench("model.onnx", batch=8, launches=5)
  >>> run.times.host                  # seconds, one row per iteration
  >>> print(run)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trtbench.core.errors import UsageError
from trtbench.requests.fields import option, seconds
from trtbench.requests.measure import BenchRequest
from trtbench.verbs._screen import draw, print_json, say, show_job
from trtbench.verbs._verb import Caller, PlanView, Verb, python_function

if TYPE_CHECKING:
    from trtbench.core.run import LoadSearch, Run
    from trtbench.core.spec import RunSpec
    from trtbench.requests.settings import Config


class BenchView(PlanView):
    """What is printed of a run."""

    explain: bool = option(False, "Explain every finding: its meaning, evidence and remedy.")
    verbose: bool = option(
        False, "Also print all statistics, start-up and memory.", ("-v", "--verbose")
    )


def run(request: BenchRequest, caller: Caller) -> Run:
    from trtbench.convert.steps import with_engines
    from trtbench.core.plugins import optional_library
    from trtbench.measure.bench import run_bench

    if request.top is not None:
        optional_library("matplotlib")  # refused before anything is measured
    config = caller.settings(request.store)
    spec, search = spec_from_request(request, config), None
    if request.slo is not None:
        if request.profile or request.top or request.telemetry is not None:
            text = "a search ignores --profile, --top and --telemetry: bench at the rate it finds"
            caller.say(f"note: {text}")
        spec, search = _plan_search(request, spec)
    store = caller.store(config)
    with caller.executing(request, config, spec.model.name, runtime=spec.runtime) as execution:
        [(spec, _)] = with_engines(
            [(spec, execution.python)], request.build, store=store, config=config,
            execution=execution, rest_s=search.budget_s if search else None,
        )  # fmt: skip
        found = run_bench(spec, store=store, execution=execution, search=search)
    if request.keep_model:
        from trtbench.measure.model_facts import keep_model

        with caller.writing_result():
            caller.closing.append(f"model kept as {keep_model(store, spec.model)}")
    if request.top is not None and request.slo is None and found.path is not None:
        from trtbench.workflows.engines import draw_layers, engine_from_run, select_layers

        engine, path = engine_from_run(found), found.path / "per_layer_time.png"
        slowest = select_layers(engine, pattern=None, sort="time")[: request.top]
        with caller.writing_result():
            caller.closing.append(f"wrote {draw_layers(engine, path, slowest)}")
    return found


def _plan_search(request: BenchRequest, spec: RunSpec) -> tuple[RunSpec, LoadSearch]:
    from trtbench.analysis.load import slo_from_text
    from trtbench.core.run import LoadSearch
    from trtbench.core.spec import Length

    slo = request.slo or ""
    if spec.protocol != "server":
        raise UsageError("--slo needs --protocol server", fix="leave --protocol out")
    if spec.gap_s:
        raise UsageError("--slo has its own arrival times, without --gap", fix="leave out --gap")
    search = LoadSearch(
        slo=slo_from_text(slo),
        budget_s=seconds(request.time_limit or "30s"),
        probe_s=None if request.duration is None else seconds(request.duration),
        most_hz=spec.rate_hz,
    )
    bare = spec.having(stop=Length(iterations=1), profile=False, telemetry_s=None)
    return bare.having(rate_hz=spec.rate_hz or 1.0), search


def show(run: Run, request: BenchRequest, view: BenchView) -> None:
    show_run(run, as_json=view.as_json, brief=not view.verbose, explain=view.explain)
    for note in run.record.notes:
        say(f"note: {note}")
    if request.executor is not None:
        say(f"measured on {run.record.environment.label}")
    if run.path is not None:
        say(f"run {run.id} in {run.path}")


def show_run(run: Run, *, as_json: bool, brief: bool = False, explain: bool = False) -> None:
    """Print a run; a search for the highest rate is printed before it, or ``brief`` alone."""
    if as_json:
        from trtbench.analysis.summary import summary_from_run

        path = None if run.path is None else str(run.path)
        found = {"run": run.record, "path": path, "summary": summary_from_run(run)}
        print_json({**found, "load": run.load})
        return
    if run.load is not None:
        from trtbench.report.sections.sweep import document_from_load

        draw(document_from_load(run.load, run))
        if brief:
            return
    from trtbench.report.sections.summary import document_from_run

    draw(document_from_run(run, brief=brief, explain=explain))


def plan(request: BenchRequest, view: PlanView, caller: Caller) -> None:
    spec = spec_from_request(request, caller.settings(request.store))
    if request.slo is not None:
        spec, _ = _plan_search(request, spec)
    show_plan(spec, as_json=view.as_json)
    if request.slo is not None:
        say("note: this is one step of the search; it chooses rates from what it measures")


def spec_from_request(request: BenchRequest, config: Config) -> RunSpec:
    """Return the RunSpec of a request; an unknown runtime is reported before a missing file."""
    from trtbench.requests.run_spec import run_spec
    from trtbench.runtimes import RUNTIMES

    if request.runtime is not None:
        RUNTIMES.load(request.runtime)
    return run_spec(request, config)


def show_plan(spec: RunSpec, *, as_json: bool) -> None:
    """Print the job, and the commands it would run if there are any."""
    from trtbench.convert.steps import is_built
    from trtbench.core.jobs import BenchJob
    from trtbench.measure.model_facts import assumed_of_model
    from trtbench.runtimes import RUNTIMES

    assumed, describe = assumed_of_model(spec), RUNTIMES.load(spec.runtime).command_lines
    show_job(BenchJob(spec=spec), describe(spec) if describe else [], as_json=as_json)
    if assumed:
        say(f"note: {assumed}")
    if is_built(spec):
        say("note: the engine is built first, and kept; trtbench build --dry-run shows how")


verb = Verb(BenchRequest, run, show, BenchView, plan=plan, task="images")
bench = python_function(BenchRequest, run)
