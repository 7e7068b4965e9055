"""``trtbench quantize``: an ONNX file in another precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trtbench.cli._conversion import conduct_from_flags, conduct_options, show_conversion
from trtbench.cli._options import dry_run_option, json_option, stack
from trtbench.cli._task_flags import TaskCommand, added_settings
from trtbench.errors import UsageError
from trtbench.workflows.request.kinds import shapes_from_flags

_calibration_options = stack(
    click.option(
        "--calibration", metavar="DATA", help="A folder of images, an .npz or .npy, or random."
    ),
    click.option(
        "--method",
        type=click.Choice(["minmax", "entropy", "percentile"]),
        default="entropy",
        show_default=True,
        help="How scales are found.",
    ),
    click.option("--percentile", type=float, default=99.99, show_default=True),
    click.option(
        "--items", type=click.IntRange(min=1), default=256, show_default=True, help="Items at most."
    ),
    click.option("--batch", type=click.IntRange(min=1), help="Items per batch (default 8)."),
    click.option(
        "--seed", type=int, default=0, show_default=True, help="Of order and random data."
    ),
    click.option(
        "--per-channel/--per-tensor", default=True, show_default=True, help="Scales of weights."
    ),
    click.option(
        "--exclude",
        "keep",
        multiple=True,
        metavar="NODE",
        help="Leave a node alone; a pattern with * and ? names several. Repeat for more.",
    ),
    click.option(
        "--keep", "keep_too", multiple=True, metavar="NODE", help="The same, for casts: stays FP32."
    ),
    click.option("--op", "operators", multiple=True, metavar="KIND", help="Quantize only these."),
    click.option(
        "--via",
        type=click.Choice(["onnxruntime", "modelopt"]),
        help="What quantizes (default: onnxruntime for int8, modelopt for fp8).",
    ),
    click.option(
        "--rest",
        type=click.Choice(["fp32", "fp16"]),
        default="fp32",
        show_default=True,
        help="Type of what is not quantized (modelopt).",
    ),
)
_task_option = click.option(
    "--task",
    metavar="NAME",
    help="Prepares images as it does for judging (classification, depth, pose); adds its flags "
    "(see --task NAME --help).",
)


class QuantizeCommand(TaskCommand):
    preprocessing_only = True


@click.command(
    "quantize",
    short_help="Cast or quantize an ONNX file, and say how far off it is.",
    cls=QuantizeCommand,
)
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--precision", type=click.Choice(["fp16", "bf16", "int8", "fp8"]), required=True,
    help="fp16 and bf16 are casts; int8 and fp8 are quantized with Q/DQ nodes.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Default: MODEL.PRECISION.onnx."
)
@click.option("--keep-io", is_flag=True, help="Leave inputs and outputs in FP32 (casts).")
@_calibration_options
@_task_option
@click.option("--inputs", metavar="FILE", help="Take the difference on these (.npz, .npy).")
@click.option(
    "--shape", "shapes", multiple=True, metavar="NAME:1x3x224x224",
    help="Shape of random data where the model leaves it open.",
)  # fmt: skip
@conduct_options
@json_option
@dry_run_option
def command(**flags: Any) -> None:
    """Cast or quantize MODEL, and compare the result with it on inputs it was not made with.

    \b
    Examples:
      trtbench quantize model.onnx --precision fp16 --keep-io
      trtbench quantize model.onnx --precision int8 --calibration data.npz --method minmax
      trtbench quantize model.onnx --precision int8 --calibration photos/ --task depth
      trtbench quantize model.onnx --precision int8 --calibration photos/ --task classification
      trtbench quantize model.onnx --precision fp8 --calibration data.npz --python PATH
    """
    from trtbench.cli._settings import load_config
    from trtbench.workflows.make.quantize import quant_spec, run_quantize

    calibrated = flags["precision"] in ("int8", "fp8")
    spec = quant_spec(
        flags["model"],
        output=flags["output"],
        keep=(*flags["keep"], *flags["keep_too"]),
        **{name: flags[name] for name in _SPEC_FLAGS},
        **({name: flags[name] for name in _CALIBRATED_FLAGS} if calibrated else {}),
    )
    data = _data(flags)
    if flags["dry_run"]:
        from trtbench.domain.codec import json_from_value
        from trtbench.domain.job import QuantizeJob

        click.echo(json_from_value(QuantizeJob(spec=spec)).decode(), nl=False)
        return
    from trtbench.cli._screen import Talk

    with Talk(spec.model.name) as talk:
        conduct = conduct_from_flags(flags, load_config(), runtime=spec.via, listen=talk)
        sidecar = run_quantize(spec, data=data, conduct=conduct)
    show_conversion(sidecar, Path(spec.output), as_json=flags["as_json"])


_SPEC_FLAGS = ("precision", "keep_io", "via")
_CALIBRATED_FLAGS = ("method", "percentile", "per_channel", "operators", "rest")


def _data(flags: dict[str, Any]) -> Any:
    from trtbench.workflows.make.quantize import Data

    task = flags["task"]
    if task is not None and flags["calibration"] in (None, "random"):
        raise UsageError("--task says how images are prepared", fix="--calibration FOLDER")
    return Data(
        calibration=flags["calibration"],
        inputs=flags["inputs"],
        items=flags["items"],
        batch=flags["batch"],
        seed=flags["seed"],
        task=task,
        settings=added_settings(flags),
        shapes=shapes_from_flags(flags["shapes"]),
    )
