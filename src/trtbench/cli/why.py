"""``trtbench why``: why an engine is not faster than another."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.cli._flags import flags
from trtbench.cli._options import json_option
from trtbench.workflows.request.explaining import WhyRequest


@click.command("why", short_help="Why an engine is not faster: causes, evidence, what to try.")
@flags(WhyRequest)
@click.option("--all", "show_all", is_flag=True, help="Show causes that explain little, too.")
@json_option
def command(request: WhyRequest, show_all: bool, as_json: bool) -> None:
    """Explain why CANDIDATE is not faster than BASELINE: runs, or files of trtexec or folders.

    Both need layer times. Causes are ranked by what they explain of the time that is missing, and
    never explain more than there is.

    \b
    Examples:
      trtbench why tag:fp16 tag:int8
      trtbench why fp16/ int8/
      trtbench why fp16.profile.json int8.profile.json --gpu 'NVIDIA H200'
    """
    from trtbench.cli._screen import show
    from trtbench.cli._settings import open_store_of
    from trtbench.workflows.explain.engines import labels_of, two_engines, why_document, why_of

    store, _ = open_store_of(request)
    baseline, candidate = str(request.baseline), str(request.candidate)
    onnx = Path(request.onnx) if request.onnx else None
    engines = two_engines(baseline, candidate, store=store, onnx=onnx, gpu=request.gpu)
    found = why_of(*engines)
    labels = labels_of(baseline, candidate)
    document = why_document(*engines, found, show_all=show_all, labels=labels)
    show(document, as_json=as_json)
