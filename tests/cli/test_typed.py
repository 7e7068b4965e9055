"""What users type that cannot be meant: every refusal says what to type instead."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from onnx import TensorProto

from command import Say
from models import identity
from trtbench.cli import trtbench as group
from trtbench.core.spec import ModelFormat
from trtbench.requests.run_spec import runtimes_for_format
from trtbench.runtimes import RUNTIMES

VERBS = ["", *sorted(group.list_commands(None))]  # type: ignore[arg-type]
HELP = "add --help to the command to see its flags"


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("run", "trtbench runs"),
        ("bnech", "trtbench bench"),
        ("no/such", "trtbench --help"),
        ("_verb", "trtbench --help"),
        ("-x", HELP),
        ("model.onnx --batch 4", "trtbench bench model.onnx --batch 4"),
        ("torchvision:resnet18", "trtbench bench torchvision:resnet18"),
        ("runs list", "trtbench runs, or with "),
        ("bench", "write it like trtbench bench model.onnx --batch 8"),
        ("bench https://example.org/m.onnx", "download it first"),
        ("profile m.onnx --no-profile", HELP),
        ("export m.onnx", "trtbench bench m.onnx"),
        ("gate none.toml", "give a file that exists"),
        ("eval m.onnx --task classification --data none", "--data FOLDER with images"),
        ("bench m.onnx --batch 8,16", "one batch here; trtbench sweep MODEL --batch 8,16 "),
        ("sweep m.onnx --batch 1 8", "values of one flag are joined by commas: --batch 1,8"),
        ("bench m.onnx --precision FP16", "--precision fp16"),
        ("gate a.onnx b.onnx", "write it like trtbench gate new.onnx --against old.onnx"),
        ("gate m.onnx --p99 10ms", HELP),
        ("gate g.toml", 'p50 = "<1s"'),
        ("bench link.onnx", "let the link point to a model file"),
        ("runs --store postgresql://a@127.0.0.1:1/b", "start the server, or correct the address"),
        # other machines
        ("export m.pt --executor ssh", HELP),
        ("compare a.onnx b.onnx --builds 3 --executor ray", "leave out --executor"),
        ("bench m.onnx --need gpu=H100", "--executor ray, or ssh"),
        ("bench m.onnx --hosts h.toml", "--executor ssh"),
        ("quantize m.onnx --precision fp8 --via onnxruntime", "leave --via out"),
        # axes of sweeps, flags of tasks
        ("sweep m.onnx --protocol pipeline", "--axis protocol=VALUE"),
        ("sweep m.onnx --classes names.txt", "--task classification --classes ..."),
        ("bench m.onnx --resize 64", "--task classification --resize ..."),
        # a plan refuses what the run would
        ("bench m.onnx --dry-run --precision fp16",
         "trtbench quantize m.onnx --precision fp16 makes a file of this precision"),
        ("bench m.onnx --dry-run --cuda-graph on", "leave out --cuda-graph and --streams"),
        ("bench m.onnx --dry-run --protocol pipeline", "--protocol serve"),
        ("bench m.onnx --dry-run --spin-wait", "leave out --spin-wait"),
        ("bench m.onnx --dry-run --opt spinning=x", "--opt spinning=NAME, where NAME is one of "),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_answered_with_what_to_type(words: str, fix: str, say: Say) -> None:
    identity(Path("m.onnx"), ("x", TensorProto.FLOAT, [2, 4]))
    Path("link.onnx").symlink_to("nowhere.onnx")
    Path("g.toml").write_text('[models."m.onnx"]\np50 = "1s"\n')
    said = say(*words.split())
    assert (said.status in (1, 2), said.out) == (True, "")
    assert f"fix: {fix}" in said.words


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_80_columns(verb: str) -> None:
    result = CliRunner().invoke(group, [*verb.split(), "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert [line for line in result.output.splitlines() if len(line) > 80] == []


def test_help_lists_options_in_groups_and_the_names_and_defaults_of_runtimes() -> None:
    shown = CliRunner().invoke(group, ["bench", "--help"], env={"COLUMNS": "80"}).output
    first, *rest = shown.partition("\nOptions:\n")[2].split("\n\n")
    assert len(re.findall(r"^  -", first, flags=re.M)) == 10, "those that matter most"
    titles = ["Model and inputs:", "Measuring:", "GPU:", "Output:", "Elsewhere:"]
    assert [each.splitlines()[0] for each in rest] == titles
    words = " ".join(first.split())
    assert f"One of: {', '.join(RUNTIMES.names())}." in words
    chosen: dict[str, ModelFormat] = {"ONNX": "onnx", "engines": "engine", "PyTorch": "torch"}
    for title, kind in chosen.items():  # the others work only with some files of this format
        names = [name for name, each in runtimes_for_format(kind) if not name.endswith("rtx")]
        assert f"{' or '.join(names)} for {title}" in words


@pytest.mark.parametrize(
    "words", ["bench m.onnx", "compare m.onnx m.onnx", "check m.onnx m.onnx", "build m.onnx"]
)
def test_an_unknown_runtime_is_answered_with_the_names(words: str, say: Say) -> None:
    identity(Path("m.onnx"), ("x", TensorProto.FLOAT, [2, 4]))
    assert "tensorrt, tensorrt-rtx" in say(*words.split(), "-r", "tensorflow", status=2).words
