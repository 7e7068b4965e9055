"""What is advised against causes can be typed: verbs and flags exist."""

from __future__ import annotations

import shlex

import click
import pytest

from trtbench.analysis.layers.causes import _REMEDIES, remedy_for
from trtbench.cli import trtbench as group


@pytest.mark.parametrize("code", sorted(_REMEDIES))
def test_a_remedy_can_be_typed(code: str) -> None:
    words, line = remedy_for(code, None, "int8")
    assert words
    program, verb, *rest = shlex.split(line)
    assert program == "trtbench"
    command = group.get_command(click.Context(group), verb)
    assert command is not None, line
    known = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
    assert {word for word in rest if word.startswith("-")} <= known, line
