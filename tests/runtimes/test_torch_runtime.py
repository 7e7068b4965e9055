"""The runtime ``torch`` on the CPU, in an interpreter that has PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch_files

from real_parts import find_torch
from trtbench.core.run import Run
from trtbench.store.directory import read_run
from waiting import printed

pytestmark = pytest.mark.process

MAKE = """
import nets, torch
torch.manual_seed(0)
net = nets.Net().eval()
torch.jit.trace(net, torch.rand(2, 3, 16, 16)).save("net.ts")
torch.save(net.state_dict(), "weights.pt")
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, torch_python: str) -> Path:
    folder = tmp_path_factory.mktemp("models")
    (folder / "nets.py").write_text(torch_files.NETS)
    subprocess.run([torch_python, "-c", MAKE], cwd=folder, check=True, capture_output=True)
    return folder


def bench(models: Path, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    python = find_torch()
    assert python is not None
    quick = ("--iterations", "15", "--warmup-iterations", "3")
    command = [sys.executable, "-m", "trtbench", "bench", *arguments, *quick]
    command += ["--no-until-steady", "--python", python, "--store", "store", "-o", "run"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(models)}
    environment["CUDA_VISIBLE_DEVICES"] = ""  # without a GPU and without --device
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)


def finished(ended: subprocess.CompletedProcess[str], tmp_path: Path) -> Run:
    assert ended.returncode == 0, ended.stderr
    run = read_run(tmp_path / "run")
    assert isinstance(run, Run)
    return run


def test_torchscript_runs_and_writes_the_result_files_of_the_toolkit(models: Path, tmp_path: Path):
    shape = ("--shape", "x:2x3x16x16", "--batch", "2")
    run = finished(bench(models, tmp_path, str(models / "net.ts"), *shape), tmp_path)
    told = {name: fact.value for name, fact in run.record.conditions.items()}
    assert told["loaded_as"] == "TorchScript"
    assert told["tf32"] is False
    assert told["precision"] == "fp32"
    assert told["compile"] == "eager"
    assert "cuda_graph" not in told, "the CPU has none"
    assert run.record.outputs[0].shape == (2, 5)
    assert "torch" in run.record.environment.versions
    assert set(run.times.durations()) == {"host"}
    told = json.loads((tmp_path / "run" / "bench_pt_result.json").read_text())
    host = run.times.host
    assert told["iters"] == 15
    assert told["batch"] == 2
    assert (told["shape"], told["device"]) == ([2, 3, 16, 16], "cpu")
    assert told["tf32"] is False
    assert told["throughput_qps"] == pytest.approx(15 / host.sum())
    assert told["metrics"]["host"]["p99"] == pytest.approx(np.percentile(host * 1e3, 99))
    assert "gpu" not in told["metrics"]
    rows = (tmp_path / "run" / "bench_pt_result.csv").read_text().splitlines()
    assert rows[0] == "metric,min,max,mean,median,p90,p95,p99"
    assert rows[1].startswith("host,")


@pytest.mark.parametrize("kind", ["module", "script"])
def test_modules_are_timed_by_the_profiler(kind: str, models: Path, tmp_path: Path) -> None:
    shape = ("--shape", "x:2x3x16x16", "--profile")
    source = {
        "module": (str(models / "weights.pt"), "--opt", "factory=nets:make"),
        "script": (str(models / "net.ts"),),
    }[kind]
    run = finished(bench(models, tmp_path, *source, *shape), tmp_path)
    names = [each.name for each in run.layers.layers]
    wanted = (
        ["conv (Conv2d)", "head (Linear)"] if kind == "module" else ["aten::linear", "aten::relu"]
    )
    assert set(wanted) <= set(names), names
    assert sum(each.share or 0 for each in run.layers.layers) == pytest.approx(1)


def test_an_image_size_is_enough(models: Path, tmp_path: Path) -> None:
    asked = ("--opt", "imgsz=16", "--batch", "4", "--precision", "bf16")
    run = finished(bench(models, tmp_path, str(models / "net.ts"), *asked), tmp_path)
    assert run.record.inputs[0].shape == (4, 3, 16, 16)
    assert run.record.conditions["autocast"].value is True
    assert run.record.conditions["precision"].value == "bf16"
    told = json.loads((tmp_path / "run" / "bench_pt_result.json").read_text())
    assert told["dtype"] == "bf16", "in the toolkit's own words"


def has(library: str) -> bool:
    """Whether the interpreter with PyTorch has a library of models."""
    python = find_torch()
    assert python is not None
    return subprocess.run([python, "-c", f"import {library}"], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("library", "name", "flags", "shape"),
    [
        ("torchvision", "torchvision:squeezenet1_1", ("--opt", "imgsz=64"), (1, 3, 64, 64)),
        ("torchvision", "torchvision:squeezenet1_1", ("--shape", "x:1x3x48x80"), (1, 3, 48, 80)),
        ("torchvision", "torchvision:squeezenet1_1", (), (1, 3, 224, 224)),
        ("ultralytics", "ultralytics:yolov8n-pose", ("--opt", "imgsz=64"), (1, 3, 64, 64)),
    ],
)
def test_the_size_of_images_that_was_asked_for_is_the_one_that_runs(
    models: Path, tmp_path: Path, library: str, name: str, flags: tuple[str, ...], shape: object
) -> None:
    if not has(library):
        pytest.skip(f"no {library} beside PyTorch")
    asked = (name, "--opt", "weights=none", "--batch", "1", *flags)
    run = finished(bench(models, tmp_path, *asked), tmp_path)
    assert run.record.inputs[0].shape == shape
    assert not [each for each in run.findings if each.code == "H46"]


def test_a_model_of_a_library_is_checked_against_its_export(models: Path, tmp_path: Path) -> None:
    """Random weights come from the same seed, so that both are one model."""
    python = find_torch()
    assert python is not None
    library = tmp_path / "timm.py"
    library.write_text(
        "from nets import Net\n"
        "def create_model(name, pretrained=False, **more):\n    return Net()\n"
        "def is_model(name):\n    return name == 'net'\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{models}:{tmp_path}", "TMPDIR": str(tmp_path)}

    def trtbench(*words: str) -> str:
        command = [sys.executable, "-m", "trtbench", *words]
        return printed(command, cwd=tmp_path, env=environment)

    exported = ("--weights", "none", "--input-shape", "-1 3 16 16", "--for", "tensorrt-8.6")
    trtbench("export", "timm:net", "-o", "net.onnx", *exported, "--python", python)
    two = ("-r", "torch", "-r", "onnxruntime", "--python", python, "--python", sys.executable)
    told = trtbench(
        "check", "timm:net", "net.onnx", *two, "--opt", "torch:weights=none", "--json",
        "--random", "9", "--batch", "3", "--device", "cpu", "--store", "store",
        "--shape", "images:3x3x16x16",
    )  # fmt: skip
    (output,) = json.loads(told)["check"]["candidates"][0]["checks"]
    assert output["max_abs"] < 1e-5
