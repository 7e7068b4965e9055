"""``trtbench gate``: rules with an exit status."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from trtbench.cli._options import json_option, pair_options, refuse_unwritable, store_option
from trtbench.errors import EXIT_BROKEN, UsageError


@click.command("gate", short_help="Hold a model to rules: exit status 0 or 3, for CI.")
@click.argument("candidate")
@click.option("--against", metavar="BASELINE", help="A model, a run, or tag:NAME.")
@click.option(
    "--baseline", metavar="WHICH",
    help="last, best or tag:NAME among the stored runs comparable with CANDIDATE.",
)  # fmt: skip
@click.option("--max-slowdown", metavar="PERCENT", help="Slower than BASELINE by this at most.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="RULE",
    help="'p99<5ms' and the like; quoted, or the shell takes the sign.",
)
@click.option(
    "--rules", "rules_files", multiple=True, type=click.Path(path_type=Path, exists=True),
    help="TOML file of rules; MODEL.gate.toml beside the model is read by itself.",
)  # fmt: skip
@click.option(
    "--on-unclear", type=click.Choice(["fail", "pass", "retry"]), default="fail",
    show_default=True, help="When a rule stays unclear; retry measures once more.",
)  # fmt: skip
@click.option(
    "--time-limit", metavar="TIME", default="60s", show_default=True,
    help="Measure no longer than this while unclear.",
)  # fmt: skip
@pair_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("artifacts/gate"),
    show_default=True, help="Folder of gate.json, gate.junit.xml and gate.md.",
)  # fmt: skip
@store_option
@json_option
@click.pass_context
def command(context: click.Context, /, candidate: str, **flags: Any) -> None:
    """Hold CANDIDATE to rules: exit status 0 when all are met, 3 when not.

    \b
    Rules:
      --max-slowdown 3%             against BASELINE, both measured in turn
      --metric 'p99<5ms'            median, mean, min, max, p50 to p99.9; gpu.p99, host.median
      --metric 'throughput>=100/s'  batches per second; items>=... counts items
      --metric 'count(MatMul)==0'   of layers: count, share and time of (precision=int8), (Conv)
    \b
    Examples:
      trtbench gate new.onnx --against old.onnx --max-slowdown 3%
      trtbench gate model.onnx --against tag:release --max-slowdown 3% --metric 'p99<5ms'
      trtbench gate model.onnx --baseline best --max-slowdown 3%
      trtbench gate model.onnx --batch 8 --metric 'items>=2000/s' --on-unclear pass
    """
    from trtbench.analysis.gate import rule_from_text, slowdown_rule
    from trtbench.cli._screen import Talk
    from trtbench.cli._settings import load_config
    from trtbench.cli.compare import asked_from_flags, pair_conduct
    from trtbench.units import fraction_from_text, seconds_from_text
    from trtbench.workflows.compare.gate import (
        append_summary,
        gate,
        rules_from_file,
        write_gate_files,
    )
    from trtbench.workflows.request.config import open_store

    rules = [rule_from_text(text) for text in flags["metrics"]]
    if flags["max_slowdown"]:
        rules.append(slowdown_rule(fraction_from_text(flags["max_slowdown"])))
    for path in flags["rules_files"]:
        rules += rules_from_file(path)
    config = load_config(store=flags["store"])
    store = open_store(config)
    asked = asked_from_flags(flags)
    against = _against(candidate, flags, store, config, asked)
    refuse_unwritable(flags["output"])
    with Talk("gate") as talk:
        found = gate(
            candidate,
            rules,
            store=store,
            config=config,
            against=against,
            on_unclear=flags["on_unclear"],
            time_limit_s=seconds_from_text(flags["time_limit"]),
            asked=asked,
            conduct=pair_conduct(flags, config, talk),
        )
    paths = write_gate_files(found, flags["output"], on_unclear=flags["on_unclear"])
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        append_summary(found, Path(summary))
    _show(found, paths, as_json=flags["as_json"])
    if not found.open:
        context.exit(EXIT_BROKEN)


def _against(candidate: str, flags: dict[str, Any], store: Any, config: Any, asked: Any) -> Any:
    """Name the baseline: as it was given, or chosen from the history of comparable runs."""
    if flags["baseline"] is None:
        return flags["against"]
    if flags["against"] is not None:
        raise UsageError("--against and --baseline both name the baseline", fix="give one of them")
    from trtbench.cli._screen import say
    from trtbench.workflows.stored.history import baseline_run

    chosen = baseline_run(flags["baseline"], candidate, store=store, config=config, asked=asked)
    say(f"baseline {flags['baseline']}: run {chosen}")
    return chosen


def _show(found: Any, paths: list[Path], *, as_json: bool) -> None:
    from trtbench.cli._screen import say, show
    from trtbench.report.documents.gate import document_from_gate

    if as_json:
        click.echo(paths[0].read_text(), nl=False)
    else:
        show(document_from_gate(found))
    say(f"gate {'open' if found.open else 'closed'}; written: {', '.join(map(str, paths))}")
