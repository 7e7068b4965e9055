"""``trtbench why``: why an engine is not faster than another."""

from __future__ import annotations

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
    a, b = request.baseline, request.candidate
    engines = two_engines(a, b, store=store, onnx=request.onnx, gpu=request.gpu)
    found, labels = why_of(*engines), labels_of(a, b)
    document = why_document(*engines, found, show_all=show_all, labels=labels)
    show(document, as_json=as_json)
