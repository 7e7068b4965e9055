"""``trtbench check``: is it still right, and if not, where does it go wrong."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtbench.cli._options import (
    json_option,
    pairs_from_flags,
    refuse_unwritable,
    shapes_from_flags,
    stack,
    store_option,
)
from trtbench.cli._task_flags import TaskCommand, settings_from_flags
from trtbench.errors import BrokenRuleError, UsageError

if TYPE_CHECKING:
    from trtbench.workflows.check.layers import LayersChecked
    from trtbench.workflows.check.values import Asked, Checked
    from trtbench.workflows.request.conduct import Conduct


IMAGES_TASK = "classification"
"""Whose preprocessing images get when nobody says."""


class CheckCommand(TaskCommand):
    preprocessing_only = True

    def task_of(self, args: list[str]) -> str | None:
        images = any(word == "--images" or word.startswith("--images=") for word in args)
        return super().task_of(args) or (IMAGES_TASK if images else None)


side_options = stack(
    click.option("-r", "--runtime", multiple=True, metavar="NAME",
                 help="What executes the models: once for all sides, or once per side."),
    click.option("--python", multiple=True, metavar="PATH",
                 help="Interpreter: once for all sides, or once per side."),
    click.option("--shape", "shapes", multiple=True, metavar="NAME:1x3x224x224",
                 help="Shape of one input; repeat for several."),
    click.option("--batch", type=click.IntRange(min=1), help="Size of the batches."),
    click.option("--threads", type=int, help="Threads within an operator (CPU runtimes)."),
    click.option("--device", metavar="NAME", help="cpu, cuda:0, ..."),
    click.option("--opt", "options", multiple=True, metavar="KEY=VALUE",
                 help="An option of the runtime itself; repeat for several."),
    click.option("--timeout", metavar="TIME", help="Give up on a side after this long."),
    click.option("--no-wait", is_flag=True, help="Fail at once when the device is in use."),
)  # fmt: skip


@click.command(
    "check", short_help="Run models on the same inputs and compare their outputs.", cls=CheckCommand
)
@click.argument("reference")
@click.argument("candidates", nargs=-1)
@click.option("--random", type=click.IntRange(min=1), default=1000, show_default=True,
              help="So many seeded random inputs.")  # fmt: skip
@click.option("--distribution", type=click.Choice(["uniform", "normal", "recorded"]),
              default="uniform", show_default=True,
              help="Of random inputs; recorded: the range a side was quantized for.")  # fmt: skip
@click.option("--range", "span", metavar="LOW:HIGH", help="Where random inputs lie (0:1).")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--inputs", metavar="FILE", help="Inputs from .npz, .npy or raw binaries.")
@click.option("--images", metavar="FOLDER", help="Images, with the preprocessing of --task.")
@click.option("--task", metavar="NAME",
              help="Whose preprocessing images get (default: classification).")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many inputs.")
@click.option("--rtol", type=click.FloatRange(min=0), default=1e-3, show_default=True,
              help="Relative tolerance; |reference| scales it.")  # fmt: skip
@click.option("--atol", type=click.FloatRange(min=0), default=1e-8, show_default=True,
              help="Absolute tolerance.")  # fmt: skip
@click.option("--classes/--no-classes", default=None,
              help="Whether outputs are scores of classes (default: by their shape).")  # fmt: skip
@click.option("--floor", type=click.Choice(["auto", "on", "off"]), default="auto",
              show_default=True, help="Run the reference twice, against itself.")  # fmt: skip
@click.option("--layers", is_flag=True, help="Compare all intermediate tensors of ONNX files.")
@click.option("--fail-if", "rules", multiple=True, metavar="RULE",
              help="Exit with status 3 if this holds, e.g. 'max_abs>0.1'.")  # fmt: skip
@side_options
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("artifacts/check"),
              show_default=True, help="Folder of tables, pictures and worst inputs.")  # fmt: skip
@store_option
@json_option
def command(reference: str, candidates: tuple[str, ...], **flags: Any) -> None:
    """Run every side on the same inputs and compare each CANDIDATE with REFERENCE.

    Models, engines and checkpoints, each through its own runtime and interpreter: -r and --python
    are given once for all sides or once per side, in order, the reference first. An element is
    close when |candidate - reference| <= atol + rtol * |reference|.

    \b
    Examples:
      trtbench check model.onnx model.engine --random 5000
      trtbench check model.onnx model.fp16.engine model.int8.engine --images photos --batch 8
      trtbench check model.onnx model.int8.onnx --layers
      trtbench check a.engine b.engine --python ~/trt10/bin/python --python ~/trt11/bin/python
      trtbench check model.onnx model.engine --fail-if 'max_abs>0.1' --fail-if 'argmax_match<99%'
    """
    from trtbench.analysis.check_rules import rule_from_text
    from trtbench.cli._screen import Talk, say
    from trtbench.cli._settings import load_config
    from trtbench.workflows.check.check import run_check
    from trtbench.workflows.check.check_files import join_checks, write_check
    from trtbench.workflows.measure.failure import refuse_failed
    from trtbench.workflows.request.config import open_store

    config = load_config(store=flags["store"])
    rules = [rule_from_text(text) for text in flags["rules"]]
    asked = asked_from_flags(flags)
    store = open_store(config)
    refuse_unwritable(flags["output"])
    with Talk("check") as talk:
        conduct = conduct_from_flags(flags, config.defaults.timeout, talk)
        checked = run_check(
            reference, candidates, store=store, config=config, output=flags["output"],
            asked=asked, conduct=conduct,
        )  # fmt: skip
        # Before layers are looked at: what is found should not be lost when they cannot be.
        paths = write_check(checked, flags["output"])
        joined = join_checks(checked, store)
        layers = _layers(reference, candidates, store, config, flags, asked, conduct)
    _show(checked, layers, flags)
    say(f"written {', '.join(str(path) for path in paths)}")
    if joined:
        say(f"joined to the runs {', '.join(joined[:5])}{' ...' if len(joined) > 5 else ''}")
    _judge(checked, rules)
    refuse_failed(checked.failed, what="not all candidates could be checked")


def asked_from_flags(flags: dict[str, Any]) -> Asked:
    """Make what a check is asked to do."""
    from trtbench.workflows.check.values import Asked, Inputs

    if flags["inputs"] and flags["images"]:
        raise UsageError("--inputs and --images exclude each other")
    task = flags["task"] or (IMAGES_TASK if flags["images"] else None)
    if flags["task"] and not flags["images"]:
        raise UsageError("--task says how images are prepared", fix="--images FOLDER")
    settings = settings_from_flags(task, flags, data=flags["images"]) if task else {}
    inputs = Inputs(
        random=flags["random"],
        seed=flags["seed"],
        distribution=flags["distribution"],
        range=_span(flags["span"]),
        source=flags["inputs"],
        task=task,
        settings={**settings, "unlabelled": True} if task else {},
        limit=flags["limit"],
    )
    return Asked(
        inputs=inputs,
        rtol=flags["rtol"],
        atol=flags["atol"],
        classes=flags["classes"],
        floor=flags["floor"],
        flags=side_flags(flags),
        runtimes=flags["runtime"] or (None,),
        pythons=flags["python"] or (None,),
    )


def side_flags(flags: dict[str, Any]) -> dict[str, Any]:
    """What ``run_spec`` takes for every side."""
    return {
        **{name: flags[name] for name in ("batch", "threads", "device")},
        "shapes": shapes_from_flags(flags["shapes"]),
        "options": pairs_from_flags(flags["options"]),
    }


def conduct_from_flags(flags: dict[str, Any], timeout: str | None, talk: Any) -> Conduct:
    """Make how the jobs are carried out."""
    from trtbench.units import seconds_from_text
    from trtbench.workflows.request.conduct import Conduct

    text = flags["timeout"] or timeout
    return Conduct(
        timeout_s=seconds_from_text(text) if text else None,
        wait=not flags["no_wait"],
        command=shlex.join(["trtbench", *sys.argv[1:]]),
        listen=talk,
    )


def _span(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    low, _, high = text.partition(":")
    try:
        span = float(low), float(high)
    except ValueError:
        raise UsageError(f"--range {text} cannot be read", fix="--range 0:1") from None
    if not span[0] < span[1]:
        raise UsageError(f"--range {text} is empty", fix="--range 0:1")
    return span


def _layers(
    reference: str, candidates: tuple[str, ...], store: Any, config: Any, flags: dict[str, Any],
    asked: Asked, conduct: Conduct,
) -> list[LayersChecked]:  # fmt: skip
    if not flags["layers"]:
        return []
    from trtbench.workflows.check.layers import run_layers

    return [
        run_layers(
            reference,
            candidate,
            store=store,
            config=config,
            output=flags["output"],
            asked=asked,
            conduct=conduct,
            number=number,
            sides=(reference, *candidates),
        )
        for number, candidate in enumerate(candidates)
    ]


def _show(checked: Checked, layers: list[LayersChecked], flags: dict[str, Any]) -> None:
    if flags["as_json"]:
        from trtbench.domain.codec import json_from_value

        document = {"check": checked, "layers": layers}
        click.echo(json_from_value(document).decode(), nl=False)
        return
    from trtbench.cli._screen import show
    from trtbench.report.documents.check import document_from_check

    show(document_from_check(checked, layers))


def _judge(checked: Checked, rules: list[Any]) -> None:
    from trtbench.analysis.check_rules import broken_rules

    broken = {
        f"{candidate.side.model.name} {number}": told
        for candidate in checked.candidates
        for number, told in enumerate(broken_rules(rules, candidate.checks), start=1)
    }
    if broken:
        raise BrokenRuleError("the candidate is not right enough", facts=broken)
