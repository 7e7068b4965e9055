"""``trtbench bench``: measure a model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from trtbench.cli._commands import ImageCommand
from trtbench.cli._flags import command_line, flags
from trtbench.cli._options import dry_run_option, json_option
from trtbench.workflows.request.measuring import BenchRequest

if TYPE_CHECKING:
    from trtbench.domain.result import Run
    from trtbench.domain.spec import RunSpec
    from trtbench.workflows.request.config import Config


@click.command(
    "bench", short_help="Measure a model in a fresh process and keep the run.", cls=ImageCommand
)
@flags(BenchRequest)
@click.option("--explain", is_flag=True, help="Say what every finding means and what to do.")
@json_option
@dry_run_option
def command(request: BenchRequest, explain: bool, as_json: bool, dry_run: bool) -> None:
    """Measure MODEL in a fresh process and keep the run; several models are measured one by one.

    What follows ``--`` is passed on to runtimes that are programs (trtexec).

    \b
    Examples:
      trtbench bench model.onnx --batch 8
      trtbench bench small.onnx large.onnx --launches 5
      trtbench bench model.onnx --shape input:8x3x224x224 --duration 10s \\
          --launches 5
      trtbench bench model.onnx --protocol server --rate 200/s
      trtbench bench model.onnx --protocol server --slo 'p99<10ms'
      trtbench bench model.onnx --protocol server --arrivals trace.csv
      trtbench bench model.engine --cuda-graph --telemetry 50ms --lock-clocks
      trtbench bench model.engine --protocol pipeline --streams 2
      trtbench bench model.onnx --device cuda:0 --opt providers=tensorrt,cuda
      trtbench bench torchvision:resnet18 -r torch --batch 8 --precision fp16
      trtbench bench model.onnx --inputs data.npz --threads 2 --tag nightly --json
      trtbench bench depth.engine --inputs photo.jpg --task depth
      trtbench bench model.onnx --python ~/envs/ort-1.20/bin/python
      trtbench bench model.engine -r trtexec --cuda-graph on -- --useManagedMemory
      trtbench bench model.onnx --executor ssh --hosts hosts.toml --need gpu=Orin
    """
    asked = requests_of(request, single=as_json or request.output is not None)
    for one in asked[1:]:
        _refuse_missing(str(one.model))
    for one in asked:
        _measure(one, explain=explain, as_json=as_json, dry_run=dry_run)


def requests_of(request: BenchRequest, *, single: bool) -> list[BenchRequest]:
    """Take further models for what they are; arguments for a program stay with the first."""
    from trtbench.cli import is_model
    from trtbench.errors import UsageError

    more = [word for word in request.extra_args if is_model(word) and word[0] != "-"]
    if not more or len(more) < len(request.extra_args):
        return [request]
    if single:
        raise UsageError(
            "several models have several runs",
            facts={"models": ", ".join([str(request.model), *more])},
            fix="leave --json and -o out; trtbench runs --json lists them",
        )
    return [replace(request, model=model, extra_args=()) for model in (request.model, *more)]


def _refuse_missing(model: str) -> None:
    """Refuse a further model that is not there before the first is measured."""
    from pathlib import Path

    from trtbench.models.identity import model_ref

    if ":" not in model and not Path(model).exists():
        model_ref(Path(model))


def _measure(request: BenchRequest, *, explain: bool, as_json: bool, dry_run: bool) -> None:
    from trtbench.cli._settings import load_config, open_store
    from trtbench.workflows.measure.load import check_search, measured
    from trtbench.workflows.measure.remote import executor_for
    from trtbench.workflows.request.conduct import conduct_from_request

    config = load_config(store=request.store)
    spec = spec_from_request(request, config)
    if request.slo is not None:
        check_search(spec, request.slo, output=request.output)
    from trtbench.cli._screen import Talk, say

    if dry_run:
        show_plan(spec, as_json=as_json, checked=request.slo is not None)
        if request.slo is not None:
            say("note: this is one window of a search; its rates are chosen as they are measured")
        return

    store = open_store(config)
    conduct = conduct_from_request(request, config, runtime=spec.runtime, command=command_line())
    with executor_for(request, conduct) as conduct, Talk(spec.model.name) as talk:
        heard = replace(conduct, listen=talk)
        run = measured(spec, store=store, conduct=heard, slo=request.slo)
    if request.keep_model:
        from trtbench.workflows.measure.kept_models import keep_model

        say(f"model kept as {keep_model(store, spec.model)}")
    _show(run, explain=explain, as_json=as_json)
    for note in run.record.notes:
        say(f"note: {note}")
    if request.executor is not None:
        say(f"measured on {run.record.environment.label}")
    say(f"run {run.id} in {run.path}")


def spec_from_request(request: BenchRequest, config: Config) -> RunSpec:
    """Settle the run; a wrong name of a runtime is said before a missing file is."""
    from trtbench.runtimes import RUNTIMES
    from trtbench.workflows.request.spec import run_spec

    if request.runtime is not None:
        RUNTIMES.load(request.runtime)
    return run_spec(request, config)


def show_plan(spec: RunSpec, *, as_json: bool, checked: bool = False) -> None:
    """Print the job, and the commands it would run where there are any."""
    from trtbench.cli._screen import say, show_job
    from trtbench.domain.job import BenchJob
    from trtbench.runtimes import RUNTIMES
    from trtbench.workflows.measure.model_notes import assumed_of_model

    runtime = RUNTIMES.load(spec.runtime)
    if runtime.check is not None and not checked:
        runtime.check(spec)
    assumed = assumed_of_model(spec)
    describe = runtime.command_lines
    show_job(BenchJob(spec=spec), describe(spec) if describe else [], as_json=as_json)
    if assumed:
        say(f"note: {assumed}")


def _show(run: Run, *, explain: bool, as_json: bool) -> None:
    from trtbench.cli._screen import print_json, show

    if as_json:
        from trtbench.cli._outputs import run_output

        print_json(run_output(run))
        return
    if run.load is not None:
        from trtbench.report.documents.load import document_from_load

        show(document_from_load(run.load, run))
        return
    from trtbench.report.documents.run import document_from_run

    show(document_from_run(run, explain=explain))
