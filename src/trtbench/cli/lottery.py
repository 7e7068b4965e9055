"""``trtbench lottery``: the same engine built several times, and in what the builds differ."""

from __future__ import annotations

import click

from trtbench.cli._commands import BuildCommand
from trtbench.cli._flags import flags
from trtbench.cli._options import json_option
from trtbench.workflows.request.rebuilding import LotteryRequest


@click.command(
    "lottery", short_help="Build an engine several times: what differs.", cls=BuildCommand
)
@flags(LotteryRequest)
@json_option
def command(request: LotteryRequest, as_json: bool) -> None:
    """Build MODEL, an ONNX file, several times with the same flags, and compare the engines.

    A builder times kernels while it chooses them, so each build is a draw. Bytes, layers, kernels,
    outputs and latency are each the same or different; the spread between builds says how many
    builds a claim needs. With --timing-cache all builds share one set of timings.

    \b
    Examples:
      trtbench lottery model.onnx --precision fp16
      trtbench lottery model.onnx --builds 10 --timing-cache model.cache
      trtbench build model.onnx --times 5
    """
    play(request, as_json=as_json)


def play(request: LotteryRequest, *, as_json: bool) -> None:
    """Build, measure and show; ``build --times`` does the same."""
    from trtbench.cli._screen import show_value
    from trtbench.cli._settings import conducting, load_config, open_store
    from trtbench.report.documents.builds import document_from_lottery
    from trtbench.workflows.builds.draws import run_lottery
    from trtbench.workflows.request.choice import refuse_without_builder

    config = load_config(store=request.store)
    if request.runtime is None and request.python is None:
        refuse_without_builder(config, request.options)
    store = open_store(config)
    with conducting(request, config, "lottery") as conduct:
        found = run_lottery(request, store=store, config=config, conduct=conduct)
    show_value(found, document_from_lottery, as_json=as_json)
