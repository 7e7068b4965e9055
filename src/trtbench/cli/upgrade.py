"""``trtbench upgrade``: what another version of TensorRT does to a network."""

from __future__ import annotations

import click

from trtbench.cli._commands import UpgradeCommand
from trtbench.cli._flags import flags
from trtbench.cli._options import json_option
from trtbench.workflows.request.rebuilding import UpgradeRequest


@click.command("upgrade", short_help="Two TensorRT versions, one network.", cls=UpgradeCommand)
@flags(UpgradeRequest)
@json_option
def command(request: UpgradeRequest, as_json: bool) -> None:
    """Build MODEL several times with each of two versions of TensorRT, and compare the engines.

    Each version is an interpreter that has it, with a name before it. Speed is judged over builds,
    outputs and layers are compared, and with --task and --data accuracy is.

    \b
    Examples:
      trtbench upgrade 8.6=~/trt86/bin/python 10.13=~/trt10/bin/python model.onnx
      trtbench upgrade old=/usr/bin/python3 new=~/new/bin/python model.onnx \\
          --precision fp16 --builds 3 --task classification --data val
    """
    from trtbench.cli._screen import show_value
    from trtbench.cli._settings import conducting, open_store_of
    from trtbench.report.documents.builds import document_from_upgrade
    from trtbench.workflows.builds.upgrade import run_upgrade

    store, config = open_store_of(request)
    with conducting(request, config, "upgrade") as conduct:
        found = run_upgrade(request, store=store, config=config, conduct=conduct)
    show_value(found, document_from_upgrade, as_json=as_json)
