"""Cast or quantize an ONNX file, and report the difference of its outputs.

The result is compared with MODEL on inputs that were not used for calibration.

Examples:
  trtbench quantize model.onnx --precision fp16 --keep-io
  trtbench quantize model.onnx --precision int8 --data data.npz \\
      --method minmax
  trtbench quantize model.onnx --precision int8 --data photos/ \\
      --task depth
  trtbench quantize model.onnx --precision int8 --data photos/ \\
      --task classification
  trtbench quantize model.onnx --precision fp8 --data data.npz \\
      --python PATH
  trtbench quantize model.onnx --precision fp16 --executor ssh --hosts my.toml
  >>> trtbench.quantize("model.onnx", precision="int8", data="data.npz").difference
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.requests.models import QuantizeRequest
from trtbench.verbs._screen import print_json, say, show_conversion
from trtbench.verbs._verb import Caller, PlanView, Verb, python_function

if TYPE_CHECKING:
    from trtbench.core.results import Sidecar


def run(request: QuantizeRequest, caller: Caller) -> Sidecar:
    from trtbench.convert.conversions import quant_spec, quantize_model

    config, spec = caller.settings(), quant_spec(request)
    with caller.executing(request, config, spec.model.name, runtime=spec.via) as execution:
        return quantize_model(request, config=config, execution=execution)


def show(sidecar: Sidecar, request: QuantizeRequest, view: PlanView) -> None:
    from trtbench.convert.conversions import quant_spec

    show_conversion(sidecar, Path(quant_spec(request).output), as_json=view.as_json)


def plan(request: QuantizeRequest, view: PlanView, caller: Caller) -> None:
    from trtbench.convert.conversions import check_data, quant_spec
    from trtbench.core.jobs import QuantizeJob

    caller.settings()
    spec = quant_spec(request)
    assumed = check_data(spec, request)
    print_json(QuantizeJob(spec=spec))
    if assumed:
        say(f"note: {assumed}")


verb = Verb(QuantizeRequest, run, show, PlanView, plan=plan, task="images")
quantize = python_function(QuantizeRequest, run)
