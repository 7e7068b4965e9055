"""Export a PyTorch model to ONNX, check it, and compare it with PyTorch.

SOURCE is torchvision:NAME, timm:NAME, ultralytics:NAME, or a file: a state dict (with
--factory), TorchScript, and, with --trust, an ExportedProgram or a pickled module.

Examples:
  trtbench export torchvision:resnet18 -o resnet18.onnx
  trtbench export timm:vit_tiny_patch16_224 --weights none --for tensorrt-8.6
  trtbench export weights.pt --factory mymodels:make \\
      --input-shape -1 3 224 224
  trtbench export yolov8n-pose.pt --trust --python ~/envs/torch/bin/python
  >>> trtbench.export("torchvision:resnet18", output="resnet18.onnx").difference
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.requests.models import ExportRequest
from trtbench.verbs._screen import print_json, show_conversion
from trtbench.verbs._verb import Caller, PlanView, Verb, python_function

if TYPE_CHECKING:
    from trtbench.core.results import Sidecar


def run(request: ExportRequest, caller: Caller) -> Sidecar:
    from trtbench.convert.conversions import export_spec, run_export
    from trtbench.requests.run_spec import first_choice

    export_spec(request)  # refused before a process is started
    config, source = caller.settings(), str(request.source)
    with caller.executing(request, config, source, runtime=first_choice("torch")) as execution:
        return run_export(request, execution=execution, builder=config.python_for("tensorrt"))


def show(sidecar: Sidecar, request: ExportRequest, view: PlanView) -> None:
    from trtbench.convert.conversions import export_spec

    show_conversion(sidecar, Path(export_spec(request).output), as_json=view.as_json)


def plan(request: ExportRequest, view: PlanView, caller: Caller) -> None:
    from trtbench.convert.conversions import export_spec
    from trtbench.core.jobs import ExportJob

    builder = caller.settings().python_for("tensorrt")
    print_json(ExportJob(spec=export_spec(request, builder=builder)))


verb = Verb(ExportRequest, run, show, PlanView, plan=plan, joins_dims=True)
export = python_function(ExportRequest, run)
