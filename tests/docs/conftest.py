"""A folder with the files that pages name, and stand-ins for what a machine may lack."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from made_artefacts import install_trtexec
from models import save_graph

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "src" / "trtbench" / "data" / "demo"
STANDINS = ROOT / "tests" / "standin_gpu"
SETTINGS = """
[defaults]
duration = "50ms"
warmup = "0s"
launches = 2
"""


@pytest.fixture(scope="session")
def folder(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the pages name."""
    here = tmp_path_factory.mktemp("coming")
    (here / "trtbench.toml").write_text(SETTINGS)
    for name in ("model.onnx", "old.onnx"):
        shutil.copy(DEMO / "digits.onnx", here / name)
    shutil.copy(DEMO / "digits.int8.onnx", here / "model.int8.onnx")
    new = onnx.load(DEMO / "digits.onnx")
    new.doc_string = "other bytes, as fast as the old one on every processor"
    onnx.save(new, here / "new.onnx")
    for name in ("trt10", "trt11"):
        (here / name).symlink_to(sys.prefix)
    held = np.load(DEMO / "digits.npz")
    images, labels = held["images"][:16], held["labels"][:16]
    np.savez(here / "inputs.npz", image=images.astype(np.float32) / 255)
    np.savez(here / "test.npz", images=images, labels=labels)
    facts = json.dumps({"detailed": True, "shape": "1x3x8x8"}).encode()
    head = b"ftrt" + (1).to_bytes(4, "little") + bytes(16) + bytes([8, 6, 1, 34])
    for name in ("model.engine", "other.engine", "net.engine"):
        (here / name).write_bytes(head.ljust(64, b"\0") + facts)
    _double_and_one(here / "net.onnx")
    people = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3, 8, 25, last])
        for name, last in (("x", "M"), ("y", 1))
    ]
    mean = helper.make_node("ReduceMean", ["x"], ["y"], axes=[4], keepdims=1)
    save_graph(helper.make_graph([mean], "stgcn", people[:1], people[1:]), here / "stgcn.onnx")
    (here / "best.pt").write_bytes(b"PK\x03\x04 a checkpoint")
    (here / "libours.so").write_bytes(b"\x7fELF")
    for name, version in (("results", "10.9.0"), ("other", "8.6.1")):
        shutil.copytree(made / f"trtexec-{version}", here / name)
    _depth_data(here)
    return here


def _double_and_one(path: Path) -> None:
    """Write what the stand-in for TensorRT computes: y = 2x + 1."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 8]) for n in "xy")
    numbers = [helper.make_tensor(n, TensorProto.FLOAT, [], [v]) for n, v in (("a", 2), ("b", 1))]
    nodes = [helper.make_node("Mul", ["x", "a"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])]
    save_graph(helper.make_graph(nodes, "net", [x], [y], numbers), path)


def _depth_data(here: Path) -> None:
    for name in ("photos", "truth"):
        (here / name).mkdir()
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        pixels = rng.integers(0, 255, (32, 32, 3), np.uint8)
        Image.fromarray(pixels).save(here / "photos" / f"{name}.png")
        np.save(here / "truth" / f"{name}.npy", pixels.mean(axis=2) / 100 + 1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, "h", "w"])
    depth = helper.make_tensor_value_info("depth", TensorProto.FLOAT, ["batch", 1, "h", "w"])
    mean = helper.make_node("ReduceMean", ["image"], ["depth"], axes=[1], keepdims=1)
    save_graph(helper.make_graph([mean], "depth", [image], [depth]), here / "depth.onnx")


@pytest.fixture(scope="session")
def environment(folder: Path) -> dict[str, str]:
    """Stand-ins for trtexec, TensorRT and CUDA; a store, settings and locks of the folder's own."""
    path = [install_trtexec(folder / "bin").parent, Path(sys.executable).parent]
    return {
        **os.environ,
        "PATH": os.pathsep.join([*map(str, path), os.environ["PATH"]]),
        "PYTHONPATH": str(STANDINS),
        "STANDIN_VERSION": "8.6.1",
        "TRTBENCH_STORE": str(folder / "store"),
        "TRTBENCH_LOCKS": str(folder / "locks"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
