"""Several models through trtexec in one command: a folder of results for each, by known names."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_sweep_torch import HUB, NETS

from models import conv_model
from trtbench.cli import run as cli

SHORT = ["--duration", "50ms", "--axis", "warmup=10ms", "--format", "none"]
FILES = (
    "build.metadata.json", "engine.build.log", "engine.profile.log", "graph.json", "profile.json",
    "profile.metadata.json", "timing.json", "engine", "engine.json", "onnx",
)  # fmt: skip


@pytest.fixture
def place(trtexec: Any, place: Path) -> Path:
    return place


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_no_row_takes_the_files_of_another(place: Path) -> None:
    """BF16 is asked for, the layers of the engine are in FP16, and rows are called by what ran."""
    conv_model(place / "net.onnx")
    words = ["net.onnx", "-r", "trtexec", "--precision", "fp16,bf16", "--batch", "2"]
    assert cli(["sweep", *words, *SHORT, "-o", "out"]) == 0
    folder = place / "out" / "results" / "net"
    assert names_in(folder) == sorted(f"net_{x}.{y}" for x in ("fp16", "fp16_2") for y in FILES)
    assert (folder / "net_fp16.onnx").read_bytes() == (place / "net.onnx").read_bytes()
    assert cli(["bench", str(folder / "net_fp16.engine"), *SHORT[:2]]) == 0, "with its record"


def test_names_reach_tables_and_legends(place: Path) -> None:
    conv_model(place / "net.onnx")
    words = ["net.onnx", "-r", "onnxruntime,trtexec", "--precision", "fp32,fp16", "--batch", "1,2"]
    short = [*SHORT[:-2], "--format", "json"]
    assert cli(["sweep", *words, *short, "--names", "vanilla", "-o", "out"]) == 0
    report = next((place / "out" / "report").glob("*.json")).read_text()
    assert "TRT fp16" in report
    assert '"trtexec fp16' not in report


def test_from_pytorch_with_weights_in_the_file(place: Path, torch_python: str) -> None:
    (place / "nets.py").write_text(NETS)
    (place / "hubconf.py").write_text(HUB)
    (place / "trtbench.toml").write_text(f'[runtimes.torch]\npython = "{torch_python}"\n')
    (place / "sweep.toml").write_text(
        f'models = ["torch.hub:{place}/small"]\nruntime = "trtexec"\nprecision = "fp16"\n'
        'batch = 2\nweights = "none"\ntrust = true\ninput_shape = "-1x3x16x16"\n'
        '[options]\nduration = "50ms"\nwarmup = "10ms"\n'
    )
    assert cli(["sweep", "sweep.toml", "--format", "none", "-o", "out"]) == 0
    folder = place / "out" / "results" / "small"
    assert names_in(folder) == sorted(f"small_fp16.{each}" for each in FILES)
    exported = next((place / "store" / "steps").glob("export-*/small.json"))
    assert json.loads(exported.read_text())["facts"]["weights"] == "none"
