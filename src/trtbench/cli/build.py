"""``trtbench build``: an engine from an ONNX file."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtbench.cli._options import (
    dry_run_option,
    json_option,
    stack,
)
from trtbench.cli._plan import show_job
from trtbench.cli._shapes import InputShapeCommand, input_shape_from_text
from trtbench.cli._task_flags import TaskCommand, added_settings
from trtbench.workflows.request.kinds import pairs_from_flags, shapes_from_flags

if TYPE_CHECKING:
    from trtbench.domain.artefact import Artefact
    from trtbench.domain.spec import BuildSpec
    from trtbench.workflows.request.conduct import Conduct
    from trtbench.workflows.request.progress import Listener


def _shape_option(end: str, what: str) -> Any:
    return click.option(
        f"--shape-{end}",
        f"shapes_{end}",
        multiple=True,
        metavar="NAME:1x3x224x224",
        help=f"{what} of one input; repeat for several inputs, or the same one for more profiles.",
    )


build_options = stack(
    click.option(
        "-r",
        "--runtime",
        "builder",
        metavar="NAME",
        help="What builds (default: trtexec, or tensorrt where only that is).",
    ),
    click.option(
        "--precision",
        type=click.Choice(["fp32", "tf32", "fp16", "bf16", "int8", "fp8", "best"]),
        help="Precision that a weakly typed builder, or PyTorch, may use.",
    ),
    _shape_option("min", "Least shape"),
    _shape_option("opt", "Shape to optimise for"),
    _shape_option("max", "Largest shape"),
    click.option(
        "--input-shape",
        "input_shapes",
        multiple=True,
        metavar="-1 3 224 224",
        help="Shape of the input, -1 for a batch of 1 to 256 (best at 128); or NAME:-1x3x224x224.",
    ),
    click.option("--workspace", metavar="SIZE", help="Limit of scratch memory, e.g. 4GiB."),
    click.option("--optimization-level", type=click.IntRange(0, 5), help="0 (quick) to 5."),
    click.option(
        "--timing-cache",
        metavar="FILE",
        help="Timings of kernels to reuse and add to (default: beside the engine).",
    ),
    click.option(
        "--no-timing-cache", is_flag=True, help="Time every kernel anew and keep nothing."
    ),
    click.option(
        "--calibration",
        metavar="DATA",
        help="Data for INT8: an .npz of arrays by input, a folder of images, or random.",
    ),
    click.option(
        "--calibration-method",
        type=click.Choice(["entropy2", "minmax"]),
        help="How scales are found (default entropy2).",
    ),
    click.option(
        "--task",
        metavar="NAME",
        help="Prepares images for calibration as it does for judging (classification, depth, "
        "pose); adds its flags (see --task NAME --help).",
    ),
    click.option("--calibration-cache", metavar="FILE", help="Scales for INT8 (TensorRT 5 to 10)."),
    click.option(
        "--target", metavar="sm_86,sm_89", help="GPUs to build for (TensorRT-RTX; default: all)."
    ),
    click.option("--version-compatible", is_flag=True, help="Let later TensorRT versions load it."),
    click.option("--hardware-compatible", is_flag=True, help="Let other GPUs (Ampere+) run it."),
    click.option("--strip-weights", is_flag=True, help="Leave weights out of the engine."),
    click.option("--refit", is_flag=True, help="Let weights be replaced later."),
    click.option("--plugin", "plugins", multiple=True, metavar="FILE", help="Plugin library."),
    click.option("--dla-core", type=int, help="Build for this deep learning accelerator."),
    click.option("--verbose", is_flag=True, help="Everything the builder has to say in the log."),
    click.option(
        "--opt",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        help="An option of the builder itself; repeat for several.",
    ),
    click.option("--python", metavar="PATH", help="Build in another Python interpreter."),
    click.option("--timeout", metavar="TIME", help="Give up after this long."),
    click.option("--no-wait", is_flag=True, help="Fail at once when the device is in use."),
)

_SPEC_FLAGS = (
    "output",
    "builder",
    "precision",
    "optimization_level",
    "calibration",
    "calibration_method",
    "calibration_cache",
    "task",
    "version_compatible",
    "hardware_compatible",
    "strip_weights",
    "refit",
    "dla_core",
    "verbose",
)


class BuildCommand(InputShapeCommand, TaskCommand):
    """Takes shapes with blanks, and the flags of the task that prepares images."""

    preprocessing_only = True


@click.command("build", short_help="Build an engine from an ONNX file.", cls=BuildCommand)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("extra", nargs=-1, type=click.UNPROCESSED)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The engine to write.")
@build_options
@json_option
@dry_run_option
def command(**flags: Any) -> None:
    """Build an engine from MODEL, an ONNX file, in a fresh process.

    Beside the engine lie its log, what the log tells, its layers, the timing cache, and
    ``<engine>.json`` with its hash, its settings and the command. A build that fails or is
    interrupted leaves no engine. What follows ``--`` is passed on to builders that are programs.

    \b
    Examples:
      trtbench build model.onnx -o model.engine --precision fp16
      trtbench build model.onnx --shape-min x:1x3x224x224 --shape-max x:8x3x224x224
      trtbench build model.onnx --workspace 4GiB --dry-run
      trtbench build model.onnx -r tensorrt-rtx --target sm_86,sm_89
    """
    from trtbench.workflows.make.build import run_build

    spec, config = _spec(flags)
    if flags["dry_run"]:
        _show_plan(spec, as_json=flags["as_json"])
        return
    from trtbench.cli._screen import Talk, say

    with Talk(Path(spec.output).name) as talk:
        artefact = run_build(spec, conduct=_conduct(flags, config, spec, talk))
    _show(artefact, as_json=flags["as_json"])
    for note in artefact.notes:
        say(f"note: {note}")


def _spec(flags: dict[str, Any]) -> tuple[BuildSpec, Any]:
    from trtbench.cli._settings import load_config
    from trtbench.units import bytes_from_text
    from trtbench.workflows.make.build import build_spec

    config = load_config()
    spec = build_spec(
        flags["model"],
        config=config,
        shapes_min=_profiles(flags["shapes_min"]),
        shapes_opt=_profiles(flags["shapes_opt"]),
        shapes_max=_profiles(flags["shapes_max"]),
        input_shapes=tuple(input_shape_from_text(text) for text in flags["input_shapes"]),
        targets=tuple(part for part in (flags["target"] or "").split(",") if part),
        workspace_bytes=bytes_from_text(flags["workspace"]) if flags["workspace"] else None,
        timing_cache=False if flags["no_timing_cache"] else flags["timing_cache"],
        plugins=tuple(flags["plugins"]),
        options=pairs_from_flags(flags["options"]),
        extra_args=tuple(flags["extra"]),
        task_settings=added_settings(flags),
        **{name: flags[name] for name in _SPEC_FLAGS},
    )
    return spec, config


def _profiles(texts: tuple[str, ...]) -> list[dict[str, tuple[int, ...]]]:
    """Give the shapes of each profile: an input that comes again belongs to the next one."""
    profiles: list[dict[str, tuple[int, ...]]] = []
    for text in texts:
        for name, dims in shapes_from_flags((text,)).items():
            free = next((each for each in profiles if name not in each), None)
            if free is None:
                free = {}
                profiles.append(free)
            free[name] = dims
    return profiles


def _conduct(flags: dict[str, Any], config: Any, spec: BuildSpec, talk: Listener) -> Conduct:
    from trtbench.units import seconds_from_text
    from trtbench.workflows.request.conduct import Conduct

    return Conduct(
        python=flags["python"] or config.python_for(spec.runtime),
        timeout_s=seconds_from_text(flags["timeout"]) if flags["timeout"] else None,
        wait=not flags["no_wait"],
        command=shlex.join(["trtbench", *sys.argv[1:]]),
        listen=talk,
    )


def _show_plan(spec: BuildSpec, *, as_json: bool) -> None:
    from trtbench.build.builders import BUILDERS
    from trtbench.domain.job import BuildJob

    describe = BUILDERS.load(spec.runtime).command_lines
    show_job(BuildJob(spec=spec), describe(spec) if describe else [], as_json=as_json)


def _show(artefact: Artefact, *, as_json: bool) -> None:
    if as_json:
        from trtbench.domain.codec import json_from_value

        click.echo(json_from_value(artefact).decode(), nl=False)
        return
    from trtbench.cli._screen import show
    from trtbench.report.documents.artefact import document_from_artefact

    show(document_from_artefact(artefact))
