"""``trtbench quantize``: an ONNX file in another precision."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.cli._commands import ImageCommand
from trtbench.cli._flags import flags
from trtbench.cli._options import dry_run_option, json_option
from trtbench.workflows.request.making import QuantizeRequest


@click.command(
    "quantize",
    short_help="Cast or quantize an ONNX file, and say how far off it is.",
    cls=ImageCommand,
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
      trtbench quantize model.onnx --precision fp16 --executor ssh --hosts my.toml
    """
    from trtbench.cli._screen import print_json, say, show_conversion
    from trtbench.cli._settings import conducting, load_config
    from trtbench.domain.job import QuantizeJob
    from trtbench.workflows.make.quantize import (
        data_from_request,
        quant_spec,
        quantized,
        settle_data,
    )

    config, spec = load_config(), quant_spec(request)
    if dry_run:
        assumed = settle_data(spec, data_from_request(request))
        print_json(QuantizeJob(spec=spec))
        if assumed:
            say(f"note: {assumed}")
        return
    with conducting(request, config, spec.model.name, runtime=spec.via) as conduct:
        sidecar = quantized(request, spec, config=config, conduct=conduct)
    show_conversion(sidecar, Path(spec.output), as_json=as_json)
