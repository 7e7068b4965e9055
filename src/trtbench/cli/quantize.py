"""``trtbench quantize``: an ONNX file in another precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trtbench.cli._conversion import conduct_from_flags, conduct_options, show_conversion
from trtbench.cli._options import dry_run_option, json_option, stack
from trtbench.cli._task_flags import TaskCommand
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
_image_options = stack(
    click.option(
        "--task",
        metavar="NAME",
        help="Prepare images as this task does for judging; adds its flags (see --task NAME "
        "--help).",
    ),
    click.option("--image-size", metavar="SIZE", help="224 or 480x640 (default: the input's own)."),
    click.option(
        "--resize",
        type=click.Choice(["crop", "stretch", "letterbox"]),
        default="crop",
        show_default=True,
        help="How images are brought to that size.",
    ),
    click.option(
        "--mean", metavar="R,G,B", help="Subtracted after scaling to 0..1; or imagenet. Default 0."
    ),
    click.option(
        "--std", metavar="R,G,B", help="Divided by; or imagenet. Default 1, or as --mean."
    ),
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
@_image_options
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
      trtbench quantize model.onnx --precision int8 --calibration photos/ --mean imagenet
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
    from trtbench.build.quantize_images import Preprocessing
    from trtbench.host.images import IMAGENET
    from trtbench.workflows.make.quantize import Data

    task = flags["task"]
    if task is not None:
        _refuse_own(flags)
    std = flags["std"] or ("imagenet" if flags["mean"] == "imagenet" else None)
    how = Preprocessing(
        size=_size(flags["image_size"]),
        resize=flags["resize"],
        mean=_numbers(flags["mean"], IMAGENET[0], flag="--mean"),
        std=_numbers(std, IMAGENET[1], flag="--std"),
    )
    return Data(
        calibration=flags["calibration"],
        inputs=flags["inputs"],
        items=flags["items"],
        batch=flags["batch"],
        seed=flags["seed"],
        preprocessing=how,
        task=task,
        settings=_settings(task, flags) if task else {},
        shapes=shapes_from_flags(flags["shapes"]),
    )


def _settings(task: str, flags: dict[str, Any]) -> dict[str, Any]:
    """Take the task's own flags; --resize of this command is another one."""
    own = {param.name for param in command.params}
    added = {name: value for name, value in flags.items() if name not in own}
    return {"data": flags["calibration"], **added}


def _refuse_own(flags: dict[str, Any]) -> None:
    """Images are prepared by the task or by hand, never by halves."""
    if flags["calibration"] in (None, "random"):
        raise UsageError("--task says how images are prepared", fix="--calibration FOLDER")
    own = {"--mean": flags["mean"], "--std": flags["std"], "--image-size": flags["image_size"]}
    own["--resize"] = flags["resize"] if flags["resize"] != "crop" else None
    for flag, given in own.items():
        if given is not None:
            raise UsageError(f"{flag} and --task both say how images are prepared")


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.split("x")
    if len(parts) > 2 or not all(part.isdigit() and int(part) for part in parts):
        raise UsageError(f"--image-size {text} cannot be read", fix="--image-size 224 or 480x640")
    return int(parts[0]), int(parts[-1])


def _numbers(text: str | None, known: tuple[float, ...], *, flag: str) -> tuple[float, ...]:
    if text is None:
        return ()
    if text == "imagenet":
        return known
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"{flag} {text} cannot be read", fix=f"{flag} 0.5,0.5,0.5 or {flag} imagenet"
        ) from None
