"""``trtbench export``: an ONNX file from a PyTorch model."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.cli._commands import InputShapeCommand
from trtbench.cli._flags import flags
from trtbench.cli._options import dry_run_option, json_option
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
    from trtbench.cli._screen import print_json, show_conversion
    from trtbench.cli._settings import conducting, load_config
    from trtbench.domain.job import ExportJob
    from trtbench.workflows.make.export import export_spec, run_export

    spec = export_spec(request)
    if dry_run:
        print_json(ExportJob(spec=spec))
        return
    from trtbench.workflows.request.choice import first_choice

    torch = first_choice("torch")
    with conducting(request, load_config(), str(request.source), runtime=torch) as conduct:
        sidecar = run_export(spec, target=request.target, conduct=conduct)
    show_conversion(sidecar, Path(spec.output), as_json=as_json)
