"""Shapes written with blanks: ``--input-shape -1 3 224 224``."""

from __future__ import annotations

import itertools
import re

import click

from trtbench.cli._task_flags import TaskCommand

_NUMBER = re.compile(r"-1|\d+")
FLAG = "--input-shape"


class InputShapeCommand(click.Command):
    """Joins all the numbers that follow ``--input-shape`` into one value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, joined_dims(args))


class BuildCommand(InputShapeCommand, TaskCommand):
    """Takes shapes with blanks, and the flags of the task that prepares images."""

    preprocessing_only = True


def joined_dims(args: list[str]) -> list[str]:
    """Put the numbers after the flag together: ``-1 3 224`` becomes ``-1x3x224``."""
    joined: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        joined.append(word)
        if word == FLAG:
            dims = list(itertools.takewhile(_NUMBER.fullmatch, rest))
            del rest[: len(dims)]
            joined += ["x".join(dims)] if dims else []
    return joined
