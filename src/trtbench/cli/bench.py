"""``trtbench bench``: measure a model."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from trtbench.cli._executor import executor_from_flags, executor_options, needs_from_flags
from trtbench.cli._options import (
    dry_run_option,
    json_option,
    measure_options,
    pairs_from_flags,
    shapes_from_flags,
    store_option,
)
from trtbench.errors import UsageError

_SPEC_FLAGS = (
    "runtime",
    "batch",
    "warmup",
    "warmup_iterations",
    "until_steady",
    "duration",
    "iterations",
    "launches",
    "inputs",
    "seed",
    "threads",
    "device",
    "protocol",
    "cuda_graph",
    "transfers",
    "spin_wait",
    "streams",
    "gap",
    "rate",
    "arrivals",
    "profile_index",
    "telemetry",
    "lock_clocks",
    "precision",
    "profile",
    "separate_profile_run",
)


@click.command("bench", short_help="Measure a model in a fresh process and keep the run.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("extra", nargs=-1, type=click.UNPROCESSED)
@measure_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for this run.")
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="Name to find the run by.")
@executor_options
@store_option
@json_option
@dry_run_option
def command(**flags: Any) -> None:
    """Measure MODEL in a fresh process and keep the run.

    What follows ``--`` is passed on to runtimes that are programs (trtexec).

    \b
    Examples:
      trtbench bench model.onnx --batch 8
      trtbench bench model.onnx --shape input:8x3x224x224 --duration 10s --launches 5
      trtbench bench model.onnx --protocol server --rate 200/s
      trtbench bench model.engine --cuda-graph --telemetry 50ms --lock-clocks
      trtbench bench model.engine --protocol pipeline --streams 2
      trtbench bench model.onnx --device cuda:0 --opt providers=tensorrt,cuda
      trtbench bench torchvision:resnet18 -r torch --batch 8 --precision fp16
      trtbench bench model.onnx --inputs data.npz --threads 2 --tag nightly --json
      trtbench bench model.onnx --python ~/envs/ort-1.20/bin/python
      trtbench bench model.engine -r trtexec --cuda-graph on -- --useManagedMemory
      trtbench bench model.onnx --executor ssh --hosts hosts.toml --need gpu=Orin
    """
    from trtbench.cli._settings import load_config
    from trtbench.workflows.measure.bench import run_bench
    from trtbench.workflows.request.config import open_store

    config = load_config(store=flags["store"])
    spec = spec_from_flags(flags, config)
    if flags["dry_run"]:
        show_plan(spec, as_json=flags["as_json"])
        return
    from trtbench.cli._screen import Talk, say

    store = open_store(config)
    with executor_from_flags(flags) as executor, Talk(spec.model.name) as talk:
        conduct = conduct_from_flags(flags, config, spec, talk)
        if executor is not None:
            conduct = replace(conduct, executor=executor, needs=needs_from_flags(flags["needs"]))
        run = run_bench(spec, store=store, conduct=conduct)
    _show(run, as_json=flags["as_json"])
    for note in run.record.notes:
        say(f"note: {note}")
    say(f"run {run.id} in {run.path}")


def spec_from_flags(flags: dict[str, Any], config: Any) -> Any:
    """Make the spec of a run from the flags of a measuring command."""
    from trtbench.runtimes import RUNTIMES
    from trtbench.workflows.request.spec import run_spec

    if flags["runtime"] is not None:
        RUNTIMES.load(flags["runtime"])  # a wrong name is said before a missing file is
    spec = run_spec(
        flags["model"],
        config=config,
        shapes=shapes_from_flags(flags["shapes"]),
        options=pairs_from_flags(flags["options"]),
        extra_args=tuple(flags.get("extra", ())),
        **{name: flags[name] for name in _SPEC_FLAGS},
    )
    if spec.extra_args and not RUNTIMES.load(spec.runtime).TAKES_ARGUMENTS:
        raise UsageError(
            f"the runtime {spec.runtime} takes no further arguments",
            facts={"given": shlex.join(spec.extra_args)},
            fix="measure one model at a time; compare takes several",
        )
    return spec


def conduct_from_flags(flags: dict[str, Any], config: Any, spec: Any, talk: Any) -> Any:
    """Make, from the same flags, how the job is carried out."""
    from trtbench.units import bytes_from_text, seconds_from_text
    from trtbench.workflows.request.conduct import Conduct

    timeout = flags["timeout"] or config.defaults.timeout
    limit = flags["memory_limit"]
    return Conduct(
        python=flags["python"] or config.python_for(spec.runtime),
        timeout_s=seconds_from_text(timeout) if timeout else None,
        memory_bytes=bytes_from_text(limit) if limit else None,
        wait=not flags["no_wait"],
        command=shlex.join(["trtbench", *sys.argv[1:]]),
        tags=tuple(flags.get("tags", ())),
        output=flags.get("output"),
        listen=talk,
    )


def show_plan(spec: Any, *, as_json: bool) -> None:
    """Print the job, and the commands it would run where there are any."""
    from trtbench.cli._plan import show_job
    from trtbench.domain.job import BenchJob
    from trtbench.runtimes import RUNTIMES

    describe = RUNTIMES.load(spec.runtime).command_lines
    show_job(BenchJob(spec=spec), describe(spec) if describe else [], as_json=as_json)


def _show(run: Any, *, as_json: bool) -> None:
    if as_json:
        from trtbench.analysis.summary import summary_from_run
        from trtbench.domain.codec import json_from_value

        document = {"run": run.record, "path": str(run.path), "summary": summary_from_run(run)}
        click.echo(json_from_value(document).decode(), nl=False)
        return
    from trtbench.cli._screen import show
    from trtbench.report.documents.run import document_from_run

    show(document_from_run(run))
