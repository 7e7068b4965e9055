"""Flags for other machines: which verbs take them, and what the others say."""

from __future__ import annotations

import click
import pytest

from trtbench.cli import ELSEWHERE, ELSEWHERE_FLAGS, run, trtbench


def verbs_with(flag: str) -> set[str]:
    context = click.Context(trtbench)
    commands = {
        name: trtbench.get_command(context, name) for name in trtbench.list_commands(context)
    }
    return {
        name
        for name, command in commands.items()
        if command and any(flag in each.opts for each in command.params)
    }


@pytest.mark.parametrize("flag", ELSEWHERE_FLAGS)
def test_the_verbs_that_other_machines_do_are_those_that_are_told(flag):
    assert verbs_with(flag) == set(ELSEWHERE)


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["export", "m.pt", "--executor", "ssh"], "--fetch-engines"),
        (["localize", "a.onnx", "b.onnx", "--hosts", "h.toml"], "on the machine that is meant"),
        (["lottery", "m.onnx", "--executor", "ray"], "on the machine that is meant"),
        (["compare", "a.onnx", "b.onnx", "--builds", "3", "--executor", "ray"], "leave out"),
        (["compare", "a.onnx", "b.onnx", "--builds", "3", "--lock-clocks"], "leave out --lock"),
        (["bench", "m.onnx", "--need", "gpu=H100"], "--executor ray, or ssh"),
        (["bench", "m.onnx", "--wait-node", "5min"], "--executor ray"),
        (["bench", "m.onnx", "--hosts", "h.toml"], "--executor ssh"),
        (["bench", "m.onnx", "--no-such-flag"], "add --help"),
        (["sweep", "m.onnx", "--protocol", "pipeline"], "--axis protocol=VALUE"),
        (["sweep", "m.onnx", "--cuda-graph", "on"], "--axis cuda_graph=VALUE"),
        (["sweep", "m.onnx", "--no-such-flag"], "add --help"),
    ],
)
def test_a_flag_that_means_nothing_is_refused_with_a_way_out(words, fix, capsys):
    assert run(words) == 2
    said = capsys.readouterr().err
    assert fix in " ".join(said.partition("fix:")[2].split())
