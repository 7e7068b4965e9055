"""``trtbench gate``: rules with an exit status."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._flags import command_line, flags
from trtbench.cli._options import json_option, refuse_unwritable
from trtbench.errors import EXIT_BROKEN, UsageError
from trtbench.workflows.request.comparing import GateRequest

if TYPE_CHECKING:
    from trtbench.store.store import Store
    from trtbench.workflows.compare.gate import Gate
    from trtbench.workflows.request.config import Config


@click.command("gate", short_help="Hold a model to rules: exit status 0 or 3, for CI.")
@flags(GateRequest)
@json_option
@click.pass_context
def command(context: click.Context, /, request: GateRequest, as_json: bool) -> None:
    """Hold CANDIDATE to rules: exit status 0 when all are met, 3 when not.

    \b
    Rules:
      --max-slowdown 3%             against BASELINE, both measured in turn
      --metric 'p99<5ms'            median, mean, min, max, p50 to p99.9; gpu.p99
      --metric 'throughput>=100/s'  batches per second; items>=... counts items
      --metric 'count(MatMul)==0'   of layers: also share, time; (precision=int8)
    \b
    Examples:
      trtbench gate new.onnx --against old.onnx --max-slowdown 3%
      trtbench gate model.onnx --against tag:release --max-slowdown 3% \\
          --metric 'p99<5ms'
      trtbench gate model.onnx --baseline best --max-slowdown 3%
      trtbench gate model.onnx --batch 8 --metric 'items>=2000/s' \\
          --on-unclear pass
    """
    from trtbench.cli._screen import Talk
    from trtbench.cli._settings import load_config, open_store
    from trtbench.workflows.compare.gate import (
        append_summary,
        gate,
        rules_from_request,
        write_gate_files,
    )
    from trtbench.workflows.request.conduct import conduct_from_request

    rules_from_request(request)  # what cannot be read is said before anything is opened
    config = load_config(store=request.store)
    store = open_store(config)
    against = _baseline(request, store, config)
    refuse_unwritable(Path(request.output))
    with Talk("gate") as talk:
        conduct = conduct_from_request(request, config, command=command_line(), listen=talk)
        found = gate(request, store=store, config=config, against=against, conduct=conduct)
    paths = write_gate_files(found, Path(request.output), on_unclear=request.on_unclear)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        append_summary(found, Path(summary))
    _show(found, paths, as_json=as_json)
    if not found.open:
        context.exit(EXIT_BROKEN)


def _baseline(request: GateRequest, store: Store, config: Config) -> str | None:
    """Choose the baseline from the history of comparable runs, where that is asked for."""
    if request.baseline is None:
        return None
    if request.against is not None:
        raise UsageError("--against and --baseline both name the baseline", fix="give one of them")
    from trtbench.cli._screen import say
    from trtbench.workflows.stored.history import baseline_run

    chosen = baseline_run(request, store=store, config=config)
    say(f"baseline {request.baseline}: run {chosen}")
    return chosen


def _show(found: Gate, paths: list[Path], *, as_json: bool) -> None:
    from trtbench.cli._screen import say, show
    from trtbench.report.documents.gate import document_from_gate

    if as_json:
        click.echo(paths[0].read_text(), nl=False)
    else:
        show(document_from_gate(found))
    say(f"gate {'open' if found.open else 'closed'}; written: {', '.join(map(str, paths))}")
