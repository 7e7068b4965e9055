"""What users type that cannot be meant: every refusal says what to type instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from command import Say
from onnx import TensorProto

from models import identity
from trtbench.cli import trtbench as group

VERBS = ["", *sorted(group.list_commands(None))]  # type: ignore[arg-type]
HELP = "add --help to the command to see its flags"
THERE = "give the command on the machine that is meant"


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("run m.onnx", "trtbench bench m.onnx"),
        ("measure m.onnx --batch 2", "trtbench bench m.onnx --batch 2"),
        ("quantise m.onnx", "trtbench quantize m.onnx"),
        ("BENCH m.onnx", "trtbench bench m.onnx"),
        ("run", "trtbench runs"),
        ("bnech", "trtbench bench"),
        ("no/such", "trtbench --help"),
        ("a.b.c", "trtbench --help"),
        ("_verb", "trtbench --help"),
        ("-x", HELP),
        ("model.onnx --batch 4", "trtbench bench model.onnx --batch 4"),
        ("torchvision:resnet18", "trtbench bench torchvision:resnet18"),
        ("--batch 8 m.onnx", "trtbench bench --batch 8 m.onnx"),
        ("-r torch m.onnx", "trtbench bench -r torch m.onnx"),
        ("--shape=x:1x2 m.onnx --json", "trtbench bench --shape=x:1x2 m.onnx --json"),
        ("out.log", "trtbench inspect out.log, or trtbench import out.log"),
        ("--verbose bench m.onnx", HELP),
        ("runs list", "trtbench runs, or with "),
        ("bench", "write it like trtbench bench model.onnx --batch 8"),
        ("quantize m.onnx", "write it like trtbench quantize "),
        ("bench m.onnx -r tensorrt", "trtbench build m.onnx, and bench the engine; or "),
        ("bench https://example.org/m.onnx", "download it first"),
        ("bench m.onnx --no-such-flag", HELP),
        ("profile m.onnx --no-profile", HELP),
        ("check a.onnx b.onnx --lock-clocks", HELP),
        ("export m.onnx", "trtbench bench m.onnx"),
        ("gate none.toml", "give a file that is there"),
        ("eval m.onnx --task classification --data none", "--data with a folder"),
        # other machines
        ("export m.pt --executor ssh", "trtbench sweep --executor quantizes and builds there"),
        ("localize a.onnx b.onnx --hosts h.toml", THERE),
        ("lottery m.onnx --executor ray", "leave out --executor"),
        ("compare a.onnx b.onnx --builds 3 --executor ray", "leave out --executor"),
        ("compare a.onnx b.onnx --builds 3 --lock-clocks", "leave out --lock-clocks"),
        ("bench m.onnx --need gpu=H100", "--executor ray, or ssh"),
        ("bench m.onnx --wait-node 5min", "--executor ray"),
        ("bench m.onnx --hosts h.toml", "--executor ssh"),
        # axes of sweeps, flags of tasks
        ("sweep m.onnx --protocol pipeline", "--axis protocol=VALUE"),
        ("sweep m.onnx --cuda-graph on", "--axis cuda_graph=VALUE"),
        ("sweep m.onnx --no-such-flag", HELP),
        ("sweep m.onnx --classes names.txt", "--task classification --classes ..."),
        ("eval m.onnx --task depth --labels x", "--task classification"),
        ("bench m.onnx --resize 64", "--task classification --resize ..."),
        ("bench m.onnx --classes x", HELP),
        # a plan refuses what the run would
        ("bench m.onnx --dry-run --precision fp16",
         "trtbench quantize m.onnx --precision fp16 makes a file of it"),
        ("bench m.onnx --dry-run --cuda-graph on", "leave --cuda-graph and --streams out"),
        ("bench m.onnx --dry-run --streams 3", "leave --cuda-graph and --streams out"),
        ("bench m.onnx --dry-run --protocol pipeline", "--protocol serve"),
        ("bench m.onnx --dry-run --spin-wait", "leave --spin-wait out"),
        ("bench m.onnx --dry-run --no-transfers", "leave --no-transfers out"),
        ("bench m.onnx --dry-run --opt spinning=x", "--opt spinning=NAME, where NAME is one of "),
        ("bench m.onnx --dry-run --opt optimization=most", "--opt optimization="),
        ("bench m.onnx --dry-run --opt inter_threads=two", "--opt inter_threads=1"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_answered_with_what_to_type(words: str, fix: str, say: Say) -> None:
    identity(Path("m.onnx"), ("x", TensorProto.FLOAT, [2, 4]))
    Path("out.log").touch()
    said = say(*words.split())
    assert (said.status in (1, 2), said.out) == (True, "")
    assert f"fix: {fix}" in said.words


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_80_columns(verb: str) -> None:
    result = CliRunner().invoke(group, [*verb.split(), "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert [line for line in result.output.splitlines() if len(line) > 80] == []
