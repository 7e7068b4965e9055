"""``trtbench quantize``: an ONNX file in another precision."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.cli._conversion import show_conversion
from trtbench.cli._flags import command_line, flags
from trtbench.cli._options import dry_run_option, json_option
from trtbench.cli._task_flags import TaskCommand
from trtbench.workflows.request.making import QuantizeRequest


class QuantizeCommand(TaskCommand):
    preprocessing_only = True


@click.command(
    "quantize",
    short_help="Cast or quantize an ONNX file, and say how far off it is.",
    cls=QuantizeCommand,
)
@flags(QuantizeRequest)
@json_option
@dry_run_option
def command(request: QuantizeRequest, as_json: bool, dry_run: bool) -> None:
    """Cast or quantize MODEL, and compare the result with it on inputs it was not made with.

    \b
    Examples:
      trtbench quantize model.onnx --precision fp16 --keep-io
      trtbench quantize model.onnx --precision int8 --calibration data.npz \\
          --method minmax
      trtbench quantize model.onnx --precision int8 --calibration photos/ \\
          --task depth
      trtbench quantize model.onnx --precision int8 --calibration photos/ \\
          --task classification
      trtbench quantize model.onnx --precision fp8 --calibration data.npz \\
          --python PATH
    """
    from trtbench.cli._settings import load_config
    from trtbench.workflows.make.quantize import (
        data_from_request,
        quant_spec,
        run_quantize,
        settle_data,
    )
    from trtbench.workflows.request.conduct import conduct_from_request

    spec = quant_spec(request)
    data = data_from_request(request)
    if dry_run:
        from trtbench.cli._screen import say
        from trtbench.domain.codec import json_from_value
        from trtbench.domain.job import QuantizeJob

        assumed = settle_data(spec, data)
        click.echo(json_from_value(QuantizeJob(spec=spec)).decode(), nl=False)
        if assumed:
            say(f"note: {assumed}")
        return
    from trtbench.cli._screen import Talk

    with Talk(spec.model.name) as talk:
        conduct = conduct_from_request(
            request, load_config(), runtime=spec.via, command=command_line(), listen=talk
        )
        sidecar = run_quantize(spec, data=data, conduct=conduct)
    show_conversion(sidecar, Path(spec.output), as_json=as_json)
