"""``trtbench export``: an ONNX file from a PyTorch model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trtbench.cli._conversion import conduct_from_flags, conduct_options, show_conversion
from trtbench.cli._options import dry_run_option, json_option
from trtbench.cli._shapes import InputShapeCommand


@click.command(
    "export", short_help="Export a PyTorch model to ONNX, and check it.", cls=InputShapeCommand
)
@click.argument("source")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The ONNX file (default: NAME.onnx)."
)
@click.option(
    "--weights",
    default="default",
    show_default=True,
    metavar="default|none|FILE",
    help="Pretrained, random, or a state dict of your own.",
)
@click.option(
    "--input-shape",
    "inputs",
    multiple=True,
    metavar="[NAME:]DIMS[:TYPE]",
    help="-1 3 224 224, images:-1x3x224x224 or ids:-1x128:int64; -1 may change. Repeatable.",
)
@click.option("--opset", type=click.IntRange(min=9), help="ONNX opset (default: the exporter's).")
@click.option(
    "--for",
    "target",
    metavar="NAME",
    help="tensorrt-8.6, tensorrt-10, tensorrt-11 or tensorrt-rtx.",
)
@click.option(
    "--exporter", type=click.Choice(["dynamo", "legacy"]), help="By default, what the opset needs."
)
@click.option("--half", is_flag=True, help="Export in FP16.")
@click.option("--trust", is_flag=True, help="Load a pickle, which can run any code in it.")
@click.option("--factory", metavar="MODULE:FUNCTION", help="What makes the module of a state dict.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of weights and inputs.")
@conduct_options
@json_option
@dry_run_option
def command(**flags: Any) -> None:
    """Export SOURCE to ONNX, check it, and compare it with PyTorch.

    SOURCE is torchvision:NAME, timm:NAME, ultralytics:NAME, or a file: a state dict (with
    --factory), TorchScript, and, with --trust, an ExportedProgram or a pickled module.

    \b
    Examples:
      trtbench export torchvision:resnet18 -o resnet18.onnx
      trtbench export timm:vit_tiny_patch16_224 --weights none --for tensorrt-8.6
      trtbench export weights.pt --factory mymodels:make --input-shape -1 3 224 224
      trtbench export yolov8n-pose.pt --trust --python ~/envs/torch/bin/python
    """
    from trtbench.cli._settings import load_config
    from trtbench.workflows.make.export import export_spec, input_shapes, run_export
    from trtbench.workflows.request.choice import first_choice

    spec = export_spec(
        flags["source"],
        output=flags["output"],
        target=flags["target"],
        inputs=input_shapes(flags["inputs"]),
        **{name: flags[name] for name in _SPEC_FLAGS},
    )
    if flags["dry_run"]:
        from trtbench.domain.codec import json_from_value
        from trtbench.domain.job import ExportJob

        click.echo(json_from_value(ExportJob(spec=spec)).decode(), nl=False)
        return
    from trtbench.cli._screen import Talk

    config = load_config()
    with Talk(flags["source"]) as talk:
        conduct = conduct_from_flags(flags, config, runtime=first_choice("torch"), listen=talk)
        sidecar = run_export(spec, target=flags["target"], conduct=conduct)
    show_conversion(sidecar, Path(spec.output), as_json=flags["as_json"])


_SPEC_FLAGS = ("weights", "opset", "exporter", "half", "trust", "factory", "seed")
