"""Commands that read more than their own flags.

``--task depth`` adds the flags of depth, and ``--input-shape -1 3 224 224`` is one shape.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import click

from trtbench.cli._flags import ADDED

if TYPE_CHECKING:
    from trtbench.tasks.contract import Flag

_KINDS: dict[str, object] = {"text": str, "whole": int, "number": float}
_META = "trtbench.task"
_NUMBER = re.compile(r"-1|\d+")
INPUT_SHAPE = "--input-shape"


class TaskCommand(click.Command):
    """A command whose flags depend on the task it is given."""

    preprocessing_only = False
    only_given = False
    """Whether flags that nobody typed say nothing, because something else may say it."""

    def task_of(self, args: list[str]) -> str | None:
        """Find the task a command line is about."""
        return _task_named(args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        task = self.task_of(args)
        if task is not None:
            ctx.meta[_META] = task
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = list(super().get_params(ctx))
        task = ctx.meta.get(_META)
        if task is None:
            return params
        taken = {name for param in params for name in param.opts}
        added = [flag for flag in self.flags_of(task) if f"--{flag.name}" not in taken]
        ctx.meta[ADDED] = [flag.key for flag in added]
        own = [_option(flag, only_given=self.only_given) for flag in added]
        return [*params[:-1], *own, params[-1]]  # --help stays last

    def flags_of(self, task: str) -> list[Flag]:
        from trtbench.tasks import TASKS

        flags = TASKS.load(task).FLAGS
        return [flag for flag in flags if flag.preprocessing or not self.preprocessing_only]


class ImageCommand(TaskCommand):
    """A command to which a task says how an image becomes an input."""

    preprocessing_only = True


class InputShapeCommand(click.Command):
    """Joins all the numbers that follow ``--input-shape`` into one value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, joined_dims(args))


class BuildCommand(InputShapeCommand, ImageCommand):
    """Takes shapes with blanks, and the flags of the task that prepares images."""


class UpgradeCommand(InputShapeCommand, TaskCommand):
    """Takes shapes with blanks, and all flags of the task that judges."""


def joined_dims(args: list[str]) -> list[str]:
    """Put the numbers after the flag together: ``-1 3 224`` becomes ``-1x3x224``."""
    joined: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        joined.append(word)
        if word == INPUT_SHAPE:
            dims = list(itertools.takewhile(_NUMBER.fullmatch, rest))
            del rest[: len(dims)]
            joined += ["x".join(dims)] if dims else []
    return joined


def tasks_with(flag: str, ctx: click.Context) -> list[str]:
    """List the tasks that would add a flag to a command, the usual one first."""
    from trtbench.tasks import TASKS

    command, name = ctx.command, flag.removeprefix("--").removeprefix("no-")
    if not isinstance(command, TaskCommand):
        return []
    names = sorted(TASKS.names(), key=lambda each: each != "classification")
    return [each for each in names if any(name == f.name for f in command.flags_of(each))]


def _task_named(args: list[str]) -> str | None:
    for place, word in enumerate(args):
        if word == "--":
            return None
        if word.startswith("--task="):
            return word.partition("=")[2]
        if word == "--task" and place + 1 < len(args):
            return args[place + 1]
    return None


def _option(flag: Flag, *, only_given: bool) -> click.Option:
    name = f"--{flag.name}"
    default = None if only_given else flag.default
    if flag.kind == "switch":
        return click.Option(
            [f"{name}/--no-{flag.name}", flag.key],
            default=None if only_given else bool(flag.default),
            show_default=not only_given,
            help=flag.help,
        )
    kind = click.Choice(flag.choices) if flag.choices else _KINDS[flag.kind]
    return click.Option(
        [name, flag.key],
        type=kind,
        default=default,
        show_default=default is not None,
        help=flag.help,
    )
