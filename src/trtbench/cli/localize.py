"""``trtbench localize``: which layers cost a low-precision model its accuracy, and the repair."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.cli._flags import flags
from trtbench.cli._options import json_option, refuse_unwritable
from trtbench.cli.check import CheckCommand
from trtbench.errors import BrokenRuleError
from trtbench.workflows.request.judging import LocalizeRequest


class LocalizeCommand(CheckCommand):
    preprocessing_only = False


@click.command(
    "localize",
    short_help="Which layers cost a low-precision model its accuracy, and the repair.",
    cls=LocalizeCommand,
)
@flags(LocalizeRequest)
@json_option
def command(request: LocalizeRequest, as_json: bool) -> None:
    """Find the layers of CANDIDATE that cost it most of what REFERENCE gets right.

    Both are of one network; CANDIDATE is an ONNX file in INT8, FP8, FP16 or BF16. Groups of nodes
    are restored to the reference's precision and ranked by what that gains: by the metric of
    --task where --data is given, else by the outputs. --repair keeps the fewest that meet --where;
    status 3 says that none do. An engine is compared where its layers meet.

    \b
    Examples:
      trtbench localize model.onnx model.int8.onnx
      trtbench localize model.onnx model.fp16.onnx --repair
      trtbench localize model.onnx model.int8.onnx --task classification \\
          --data val --repair --where 'top1>=baseline-0.5'
      trtbench localize model.onnx model.int8.onnx --inputs data.npz \\
          --repair --where 'sqnr>=30dB' --max-time 10min
      trtbench localize model.onnx model.int8.engine -r onnxruntime \\
          -r tensorrt --batch 8
    """
    from trtbench.cli._screen import say, show_value
    from trtbench.cli._settings import conducting, open_store_of
    from trtbench.report.documents.localize import document_from_localized
    from trtbench.workflows.explain.localize import run_localize

    store, config = open_store_of(request)
    refuse_unwritable(Path(request.output))
    with conducting(request, config, "localize") as conduct:
        result = run_localize(request, store=store, config=config, conduct=conduct)
    show_value(result, document_from_localized, as_json=as_json)
    made = (result.repaired,) if result.repaired else ()
    say(f"written {', '.join((*made, *result.files))}")
    if result.found.met is False:
        raise BrokenRuleError(
            "no repair meets the condition", facts={"condition": result.found.where}
        )
