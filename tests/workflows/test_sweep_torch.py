"""Sweeps from PyTorch on: how a model is loaded reaches every step, shapes are axes."""

import json
import subprocess
from itertools import product
from pathlib import Path

import pytest
from made_data import colour_folder
from sweeps import rows_of

from command import Say
from trtbench.cli import run as cli

NETS = """
import torch

class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.fc = torch.nn.Linear(8, 3)

    def forward(self, images):
        return self.fc(torch.relu(self.conv(images)).mean((2, 3)))

class People(torch.nn.Module):
    # ST-GCN in small: people beside the batch, a graph of five joints, then time.

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(15)
        joints = torch.eye(5)
        self.register_buffer("A", torch.stack([joints, joints.roll(1, 0), joints.roll(-1, 0)]))
        self.space = torch.nn.Conv2d(3, 12, 1)
        self.time = torch.nn.Conv2d(4, 4, (3, 1), padding=(1, 0))
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, x):
        n, c, t, v, m = x.shape
        x = self.norm(x.permute(0, 4, 3, 1, 2).reshape(n * m, v * c, t))
        x = x.reshape(n * m, v, c, t).permute(0, 2, 3, 1)
        x = self.space(x).reshape(n * m, 3, 4, t, v)
        x = torch.relu(torch.einsum("nkctv,kvw->nctw", x, self.A))
        x = torch.relu(self.time(x)).mean((2, 3))
        return self.fc(x.reshape(n, m, 4).mean(1))

def make():
    torch.manual_seed(1)
    return Small()
"""
HUB = """
dependencies = ["torch"]

def small(pretrained=False):
    import nets
    model = nets.make()
    if not pretrained:
        model.fc.bias.data.zero_()
    return model
"""
SAVE = """
import torch, nets
torch.save(nets.make().state_dict(), "best.pth")
torch.save(nets.make(), "y8.pt")
torch.manual_seed(1)
torch.save(nets.People().eval(), "stgcn.pt")
"""
SHORT = ["--duration", "20ms", "--axis", "warmup=5ms", "--axis", "until_steady=false",
         "--axis", "device=cpu", "--format", "none"]  # fmt: skip


@pytest.fixture
def place(place: Path, torch_python: str) -> Path:
    (place / "nets.py").write_text(NETS)
    (place / "hubconf.py").write_text(HUB)
    (place / "trtbench.toml").write_text(f'[runtimes.torch]\npython = "{torch_python}"\n')
    subprocess.run([torch_python, "-c", SAVE], check=True)
    return place


def test_weights_factories_and_trust_reach_every_step(place: Path) -> None:
    colour_folder(place / "val", per_class=2)
    words = ["best.pth", "-r", "torch,onnxruntime", "--axis", "opt.factory=nets:make",
             "--input-shape", "-1x3x16x16", "--data", "val", "--names", "vanilla",
             "--batch", "1,3"]  # fmt: skip
    assert cli(["sweep", *words, *SHORT, "-o", "own"]) == 0
    vanilla, exported, *_ = rows_of(place / "own")
    assert [vanilla["reason"], exported["reason"]] == [None, None]
    assert vanilla["top1"] == exported["top1"], "the same weights, whoever runs them"
    assert vanilla["parameters"] == 3 * 8 * 9 + 8 + 8 * 3 + 3
    assert vanilla["layers"] == 2
    assert vanilla["size"] > 0
    assert "| Vanilla" in (place / "own" / "results.md").read_text()
    told = json.loads((place / "own" / "accuracy" / "eval.json").read_text())
    assert [each["batch"] for each in told["models"]] == [3, 3], "as many items per batch"
    assert [told["models"][0][key] for key in ("layers", "parameters", "size_bytes")] == [
        vanilla[key] for key in ("layers", "parameters", "size")
    ]
    tables = {each["id"]: each for each in told["tables"]}
    assert tables["top"]["headings"][1:3] == ["Vanilla score", "Vanilla class"]
    assert [each["label"] for each in told["models"]] == ["Vanilla", "onnxruntime fp32"]
    best = tables["top"]["rows"][0]
    assert best[1] == pytest.approx(best[3], abs=1e-5)
    assert best[2] == best[4]
    assert [row[0] for row in tables["ranks"]["rows"]] == [1, 2, 3]
    assert all(row[2] == "0.00 %" for row in tables["ranks"]["rows"])


def test_a_pickle_is_swept_once_it_is_trusted(place: Path) -> None:
    words = ["y8.pt", "-r", "torch,onnxruntime", "--input-shape", "-1x3x16x16"]
    assert cli(["sweep", *words, *SHORT, "-o", "no"]) == 1
    assert all("trust" in row["reason"] for row in rows_of(place / "no"))
    (place / "sweep.toml").write_text(
        'models = ["y8.pt"]\nruntime = ["torch", "onnxruntime"]\ntrust = true\n'
        'input_shape = "-1x3x16x16"\n[options]\nduration = "20ms"\ndevice = "cpu"\n'
    )
    assert cli(["sweep", "sweep.toml", "--format", "none", "-o", "yes"]) == 0
    assert [row["reason"] for row in rows_of(place / "yes")] == [None, None]


def test_repositories_of_torch_hub(place: Path, say: Say) -> None:
    source = f"torch.hub:{place}/small"
    words = [source, "-r", "torch,onnxruntime", "--input-shape", "-1x3x16x16"]
    say("sweep", *words, *SHORT, "--trust", "-o", "hub", status=0)
    assert [row["model"] for row in rows_of(place / "hub")] == ["small", "small"]
    asked = ["-r", "torch", "--shape", "x:1x3x16x16", "--device", "cpu"]
    assert "trust" in say("bench", source, *asked, status=2).err
    wrong = say("bench", f"torch.hub:{place}/smal", *asked, "--opt", "trust=on", status=1)
    assert "cannot load 'smal'" in wrong.err


def test_people_are_an_axis(place: Path) -> None:
    words = ["stgcn.pt", "--trust", "-r", "torch,onnxruntime", "--input-shape", "x:-1x3x4x5xM",
             "--axis", "shape.M=1,2,5", "--batch", "2"]  # fmt: skip
    assert cli(["sweep", *words, *SHORT, "-o", "out"]) == 0
    rows = rows_of(place / "out")
    assert [(row["runtime"], row["shape.M"]) for row in rows] == [
        (runtime, people) for people in (1, 2, 5) for runtime in ("torch", "onnxruntime")
    ]
    assert all(row["speedup"] == 1 for row in rows[::2]), "PyTorch with as many people"
    for row in rows:
        record = json.loads((place / "store" / "runs" / row["runs"][0] / "run.json").read_text())
        assert record["inputs"][0]["shape"] == [2, 3, 4, 5, row["shape.M"]]


def test_the_preset_of_stgcn_is_run_whole(place: Path) -> None:
    """Every number of people in both precisions on both runtimes, from one checkpoint."""
    words = ["--preset", "stgcn", "stgcn.pt", "--trust", "-r", "torch,onnxruntime",
             "--input-shape", "x:-1x3x8x5xM", "--axis", "shape.M=1,2", "--rounds", "1",
             "--axis", "warmup_iterations=2", "--axis", "iterations=10", "--axis", "device=cpu",
             "--format", "none", "-o", "out"]  # fmt: skip
    assert cli(["sweep", *words]) == 0
    rows = rows_of(place / "out")
    assert [row["reason"] for row in rows] == [None] * 8
    found = {(row["runtime"], row["precision"], row["shape.M"]) for row in rows}
    assert found == set(product(("torch", "onnxruntime"), ("fp32", "fp16"), (1, 2)))
