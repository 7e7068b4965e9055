"""Exports: what needs no PyTorch first, then real exports where an interpreter has PyTorch.

The interpreter is the one that TRTBENCH_TEST_TORCH_PYTHON names, ``.venv-torch`` beside the
package's own environment, or this one; without any, those tests are skipped. Models by name come
from stand-ins for torchvision, timm and ultralytics that have the same entry points.
"""

import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest

from command import Say
from real_parts import find_torch
from trtbench.cli import joined_dims
from trtbench.convert import conversions
from trtbench.convert.conversions import export_spec, input_shapes, run_export
from trtbench.convert.export import Example, _exporter, write_onnx
from trtbench.core.errors import UnavailableError, UsageError
from trtbench.core.results import InputShape, Sidecar
from trtbench.data import demo_file
from trtbench.models.identity import read_sidecar
from trtbench.models.torch_models import TorchSource, archive_kind, import_torch
from trtbench.requests.execution import Execution
from trtbench.requests.models import ExportRequest
from waiting import printed

TORCH = find_torch()
needs_torch = pytest.mark.usefixtures("torch_python")

MODULE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, wide=4):
        super().__init__()
        self.conv = nn.Conv2d(3, wide, 3, padding=1)
        self.norm = nn.BatchNorm2d(wide)
        self.head = nn.Linear(wide, 5)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))

def make():
    return Net()

class Attentive(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]

def make_attentive():
    return Attentive()
"""
TORCHVISION = """
import urllib.error
from mynet import Net

def list_models():
    return ["netone", "nettwo"]

def get_model(name, weights=None):
    if name not in list_models():
        raise ValueError("Unknown model " + name)
    if weights is not None:
        raise urllib.error.URLError("Name or service not known")
    return Net()
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the user's module, and stand-ins for the model libraries on the path."""
    libraries = tmp_path / "libraries"
    for name, text in {"torchvision/__init__.py": "", "torchvision/models.py": TORCHVISION}.items():
        (libraries / name).parent.mkdir(parents=True, exist_ok=True)
        (libraries / name).write_text(text)
    (tmp_path / "mynet.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(libraries))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(source: str, **flags: object) -> Sidecar:
    target = flags.pop("target", None)
    request = ExportRequest(source=source, target=target, **flags)  # type: ignore[arg-type]
    return run_export(request, execution=Execution(python=TORCH))


def in_torch(code: str) -> None:
    """Run code where PyTorch is, from the folder the test is in."""
    assert TORCH is not None
    printed([TORCH, "-c", f"import sys; sys.path.insert(0, '.')\n{code}"])


def test_shapes_are_read_as_the_seeds_write_them() -> None:
    words = ["export", "a.pt", "--input-shape", "-1", "3", "224", "224", "-o", "a.onnx"]
    assert joined_dims(words)[2:4] == ["--input-shape", "-1x3x224x224"]
    assert input_shapes(["-1x3x224x224", "images:1x3x8x8", "ids:-1x128:int64"]) == (
        InputShape(name=None, shape=(-1, 3, 224, 224)),
        InputShape(name="images", shape=(1, 3, 8, 8)),
        InputShape(name="ids", shape=(-1, 128), dtype="int64"),
    )
    both = input_shapes(["ids:-1x16:int64,mask:-1,16"])  # as --shape accepts them
    assert [(each.name, each.shape) for each in both] == [("ids", (-1, 16)), ("mask", (-1, 16))]
    for wrong in ("abc", "1x-2", "0x3", "x:1xx2"):
        with pytest.raises(UsageError, match="--input-shape"):
            input_shapes([wrong])


def test_the_target_is_the_tensorrt_of_the_interpreter_that_builds(say: Say) -> None:
    has, python = Path("has/tensorrt_cu12-8.6.1.dist-info"), Path("python").absolute()
    has.mkdir(parents=True)
    (has / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorrt_cu12\nVersion: 8.6.1\n")
    where = f"PYTHONPATH={has.parent.absolute()} exec {sys.executable}"
    python.write_text(f'#!/bin/sh\n{where} "$@"\n')
    python.chmod(0o755)
    words = ("export", "torchvision:resnet18", "--dry-run")
    assert say(*words).json["spec"]["exporter"] == "dynamo"
    Path("trtbench.toml").write_text(f'[runtimes.tensorrt]\npython = "{python}"\n')
    assert say(*words).json["spec"]["opset"] == 17
    build = ("build", demo_file("digits.onnx"), "-r", "tensorrt", "--precision", "fp16")
    assert "build fp16+fp32, weakly typed" in say(*build, "-o", "a.engine", "--dry-run").words


def test_the_exporter_follows_the_opset_and_the_target() -> None:
    spec = export_spec(ExportRequest(source="torchvision:resnet18", target="tensorrt-8.6"))
    assert (spec.exporter, spec.opset) == ("legacy", 17)
    spec = export_spec(ExportRequest(source="torchvision:resnet18"))
    assert (spec.exporter, Path(spec.output).name) == ("dynamo", "resnet18.onnx")
    assert export_spec(ExportRequest(source="torchvision:resnet18", opset=13)).exporter == "legacy"
    with pytest.raises(UsageError, match="opsets up to 17"):
        export_spec(ExportRequest(source="torchvision:resnet18", target="tensorrt-8.6", opset=18))
    with pytest.raises(UsageError, match="dynamo exporter writes"):
        export_spec(ExportRequest(source="torchvision:resnet18", opset=16, exporter="dynamo"))
    with pytest.raises(UsageError, match=r"tensorrt-8\.6"):
        export_spec(ExportRequest(source="torchvision:resnet18", target="tensorrt-8"))


@pytest.mark.parametrize(("version", "exporter"), [("8.6.1", "legacy"), ("10.3.0", "dynamo")])
def test_tensorrt_here_can_parse_it(monkeypatch: pytest.MonkeyPatch, version: str, exporter: str):
    monkeypatch.setattr(conversions, "distribution_versions", lambda name: {name: version})
    assert export_spec(ExportRequest(source="torchvision:resnet18")).exporter == exporter
    asked = ExportRequest(source="torchvision:resnet18", target="tensorrt-10")
    assert export_spec(asked).exporter == "dynamo"


@pytest.mark.parametrize("by_name", [True, False])
def test_a_pytorch_without_the_newer_exporter(tmp_path: Path, by_name: bool) -> None:
    """Those for Jetsons are older than 2.5: their exporter takes neither kwargs nor dynamo."""
    told: dict[str, object] = {}

    def exported(
        model: object, args: object, f: str, *, input_names: list[str], output_names: list[str],
        opset_version: int, dynamic_axes: object = None,
    ) -> None:  # fmt: skip
        told.update(args=args, opset=opset_version, axes=dynamic_axes)

    torch = SimpleNamespace(
        __version__="2.1.0", onnx=SimpleNamespace(export=exported), no_grad=nullcontext
    )
    value = SimpleNamespace(shape=(2, 3), dim=lambda: 2)
    example = Example(inputs={"x": value}, open_axes={"x": {0: "batch"}}, by_name=by_name)
    model = SimpleNamespace(parameters=list, buffers=list)
    path, outputs = tmp_path / "a.onnx", {"y": value}
    write_onnx(model, example, outputs, path, None, exporter="legacy", torch=torch)
    assert told["args"] == (({"x": value},) if by_name else (value,))
    assert told["opset"] == 17
    assert told["axes"] == {"x": {0: "batch"}, "y": {0: "batch"}}
    source = TorchSource(kind="torchvision", model=model)
    spec = export_spec(ExportRequest(source="torchvision:net", output=tmp_path / "a.onnx"))
    exporter, notes = _exporter(spec, source, torch)
    assert exporter == "legacy"
    assert "2.1.0" in notes[0]
    newer = export_spec(
        ExportRequest(source="torchvision:net", output=tmp_path / "a.onnx", opset=20)
    )
    with pytest.raises(UsageError, match="17 and below"):
        _exporter(newer, source, torch)


def test_a_pytorch_for_another_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text(
        "class zeros:\n    def __init__(self, n): pass\n"
        "    def numpy(self): raise RuntimeError('Numpy is not available')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(UnavailableError, match="NumPy beside it") as caught:
        import_torch()
    monkeypatch.delitem(sys.modules, "torch")
    assert "numpy<2" in str(caught.value.fix)


def test_archives_are_told_apart_without_loading_them(tmp_path: Path) -> None:
    files = {
        "script.pt": ["m/constants.pkl", "m/code/__torch__.py", "m/data.pkl"],
        "weights.pt": ["m/data.pkl", "m/data/0"],
        "program.pt2": ["m/models/model.json", "m/data/weights/0"],
        "other.zip": ["readme.txt"],
    }
    for name, members in files.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member in members:
                archive.writestr(member, b"")
    kinds = {name: archive_kind(tmp_path / name) for name in files}
    assert kinds == {
        "script.pt": "TorchScript", "weights.pt": "pickle", "program.pt2": "ExportedProgram",
        "other.zip": "unknown",
    }  # fmt: skip


@needs_torch
def test_torchvision_by_name_with_an_open_batch(world: Path) -> None:
    sidecar = made("torchvision:netone", output="net.onnx", weights="none", opset=18)
    model = onnx.load(world / "net.onnx")
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert dims[0].dim_param == "batch"
    assert [dim.dim_value for dim in dims][1:] == [3, 224, 224]
    assert (sidecar.exporter, sidecar.opset, sidecar.method) == ("dynamo", 18, "torchvision")
    (diff,) = sidecar.difference
    assert diff.close == 1.0
    assert diff.rel_l2 is not None
    assert diff.rel_l2 < 1e-4
    assert "torch" in sidecar.versions
    assert any("random" in note for note in sidecar.notes)
    assert read_sidecar(world / "net.onnx") == sidecar
    # Python keeps bytecode beside mynet.py unless the environment says not to.
    assert {path.name for path in world.iterdir()} - {"__pycache__"} == {
        "libraries", "mynet.py", "net.onnx", "net.json",
    }  # fmt: skip


@needs_torch
def test_attention_is_exported_as_operators(world: Path) -> None:
    """In eval mode PyTorch fuses it into a call that no exporter knows."""
    in_torch("import torch, mynet; torch.save(mynet.make_attentive().state_dict(), 'a.pt')")
    shapes, given = ["-1x6x8"], (world / "a.pt").read_bytes()
    sidecar = made(
        "a.pt", input_shapes=shapes, factory="mynet:make_attentive", target="tensorrt-8.6"
    )
    assert all(diff.close == 1.0 for diff in sidecar.difference)
    assert (world / "a.pt").read_bytes() == given
    assert not any("zero everywhere" in note for note in sidecar.notes)
    kinds = {node.op_type for node in onnx.load(world / "a.onnx").graph.node}
    assert "Softmax" in kinds
    zero = "{name: 0 * each for name, each in mynet.make_attentive().state_dict().items()}"
    in_torch(f"import torch, mynet; torch.save({zero}, 'a.pt')")
    told = made("a.pt", input_shapes=shapes, factory="mynet:make_attentive", target="tensorrt-8.6")
    assert "output is zero everywhere: its agreement proves nothing" in told.notes
