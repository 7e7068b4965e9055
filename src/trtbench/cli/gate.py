"""``trtbench gate``: rules with an exit status."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._flags import flags
from trtbench.cli._options import json_option, refuse_unwritable
from trtbench.errors import EXIT_BROKEN, UsageError
from trtbench.workflows.request.comparing import GateRequest

if TYPE_CHECKING:
    from trtbench.domain.comparison import GateRule
    from trtbench.store.store import Store
    from trtbench.workflows.compare.gate import Gate
    from trtbench.workflows.measure.failure import Failed
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
      trtbench gate gates.toml      # several models, a table of rules each
    """
    from trtbench.cli._settings import open_store_of
    from trtbench.workflows.compare.gate import requests_from_file, rules_from_request
    from trtbench.workflows.compare.gate_files import append_summary, write_gate_files
    from trtbench.workflows.measure.failure import Failures, refuse_failed

    rules_from_request(request)  # what cannot be read is said before anything is opened
    asked = requests_from_file(request)
    store, config = open_store_of(request)
    refuse_unwritable(Path(request.output))
    found, failed = [], Failures(len(asked))
    for one, rules in asked:
        with failed.collecting(str(one.candidate)):
            found.append(_judge(one, rules, store, config))
    told = failed.told
    paths = write_gate_files(
        found, Path(request.output), on_unclear=request.on_unclear, failed=told
    )
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        append_summary(found, Path(summary), failed=told)
    _show(found, told, paths, as_json=as_json)
    if not all(each.open for each in found):
        context.exit(EXIT_BROKEN)
    refuse_failed(told, what="some models could not be held to their rules")


def _judge(request: GateRequest, rules: Sequence[GateRule], store: Store, config: Config) -> Gate:
    from trtbench.cli._settings import conducting
    from trtbench.workflows.compare.gate import gate
    from trtbench.workflows.measure.remote import executor_for

    against = _baseline(request, store, config)
    with conducting(request, config, "gate") as told, executor_for(request, told) as conduct:
        return gate(
            request, store=store, config=config, against=against, conduct=conduct, further=rules
        )


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


def _show(
    found: Sequence[Gate], failed: Sequence[Failed], paths: list[Path], *, as_json: bool
) -> None:
    from trtbench.cli._screen import say, show
    from trtbench.report.documents.gate import document_from_gates

    if as_json:
        click.echo(paths[0].read_text(), nl=False)
    else:
        show(document_from_gates(found, failed))
    state = "open" if not failed and all(each.open for each in found) else "closed"
    say(f"gate {state}; written: {', '.join(map(str, paths))}")
