"""``trtbench export``: an ONNX file from a PyTorch model."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.cli._conversion import show_conversion
from trtbench.cli._flags import command_line, flags
from trtbench.cli._options import dry_run_option, json_option
from trtbench.cli._shapes import InputShapeCommand
from trtbench.workflows.request.making import ExportRequest


@click.command(
    "export", short_help="Export a PyTorch model to ONNX, and check it.", cls=InputShapeCommand
)
@flags(ExportRequest)
@json_option
@dry_run_option
def command(request: ExportRequest, as_json: bool, dry_run: bool) -> None:
    """Export SOURCE to ONNX, check it, and compare it with PyTorch.

    SOURCE is torchvision:NAME, timm:NAME, ultralytics:NAME, or a file: a state dict (with
    --factory), TorchScript, and, with --trust, an ExportedProgram or a pickled module.

    \b
    Examples:
      trtbench export torchvision:resnet18 -o resnet18.onnx
      trtbench export timm:vit_tiny_patch16_224 --weights none --for tensorrt-8.6
      trtbench export weights.pt --factory mymodels:make \\
          --input-shape -1 3 224 224
      trtbench export yolov8n-pose.pt --trust --python ~/envs/torch/bin/python
    """
    from trtbench.cli._settings import load_config
    from trtbench.workflows.make.export import export_spec, run_export
    from trtbench.workflows.request.conduct import conduct_from_request

    spec = export_spec(request)
    if dry_run:
        from trtbench.domain.codec import json_from_value
        from trtbench.domain.job import ExportJob

        click.echo(json_from_value(ExportJob(spec=spec)).decode(), nl=False)
        return
    from trtbench.cli._screen import Talk
    from trtbench.workflows.request.choice import first_choice

    with Talk(str(request.source)) as talk:
        conduct = conduct_from_request(
            request,
            load_config(),
            runtime=first_choice("torch"),
            command=command_line(),
            listen=talk,
        )
        sidecar = run_export(spec, target=request.target, conduct=conduct)
    show_conversion(sidecar, Path(spec.output), as_json=as_json)
