"""PyTorch files that run code when they are loaded; without --trust none of it runs."""

import pickle
import pickletools
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType

import pytest
from commands import trtbench

from trtbench.core.errors import UsageError
from trtbench.core.results import ExportSpec
from trtbench.models.torch_models import _with_weights, archive_kind, load_source, packages_named

EVIL = """
import io, os, sys, zipfile, torch
class Evil:
    def __reduce__(self):
        return os.system, (f"touch {sys.argv[1]}",)
net = torch.nn.Linear(2, 2)
torch.export.save(torch.export.export(net, (torch.rand(1, 2),)), "fine.pt2")
evil = io.BytesIO()
torch.save(Evil(), evil)
with zipfile.ZipFile("fine.pt2") as fine, zipfile.ZipFile("evil.pt2", "w") as made:
    for name in fine.namelist():
        made.writestr(name, evil.getvalue() if name.endswith(".pt") else fine.read(name))
"""


def test_an_exported_program_does_not_run_code_unasked(tmp_path: Path, torch_python: str) -> None:
    python = torch_python
    trace = tmp_path / "owned"
    subprocess.run([python, "-c", EVIL, str(trace)], cwd=tmp_path, check=True, capture_output=True)
    evil = tmp_path / "evil.pt2"
    export = ("export", evil, "--python", python, "-o", tmp_path / "x.onnx")
    refused = trtbench(*export, status=2)
    assert "can run any code" in refused.stderr
    assert "posix" in refused.stderr
    assert not trace.exists()
    where = ("--python", python, "--device", "cpu", "--store", tmp_path / "store")
    measured = trtbench("bench", evil, "-r", "torch", *where)
    assert "can run any code" in measured.stderr
    assert not trace.exists()
    trtbench(*export, "--trust")
    assert trace.exists()  # so the attack is a real one


SCRIPTS = """
import sys, torch
class Fine(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x + 1
class Filler(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        seen = torch.from_file("PRECIOUS", shared=True, size=8, dtype=torch.uint8)
        return x + seen.fill_(7).sum()
class Writer(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        torch.save(x, "PRECIOUS")
        return x
for each in (Fine, Filler, Writer):
    torch.jit.script(each()).save(each.__name__.lower() + ".ts")
"""


@pytest.fixture
def scripted(tmp_path: Path, torch_python: str) -> Callable[..., CompletedProcess[str]]:
    """Networks in TorchScript, and a command that measures one of them."""
    (tmp_path / "precious").write_bytes(b"8 bytes.")
    code = tmp_path / "make.py"
    code.write_text(SCRIPTS.replace("PRECIOUS", str(tmp_path / "precious")))
    subprocess.run([torch_python, str(code)], cwd=tmp_path, check=True, capture_output=True)
    where = ("-r", "torch", "--python", torch_python, "--device", "cpu", "--store", tmp_path / "s")
    quick = ("--duration", "10ms", "--warmup", "1ms", "--no-until-steady", "--shape", "x:1x2")
    return lambda name, *words: trtbench("bench", tmp_path / name, *where, *quick, *words)


def test_torchscript_does_not_change_files_unasked(
    tmp_path: Path, scripted: Callable[..., CompletedProcess[str]]
) -> None:
    assert scripted("fine.ts").returncode == 0
    for name in ("filler.ts", "writer.ts"):
        refused = scripted(name)
        assert refused.returncode == 2, refused.stderr
        assert "can change any of yours" in refused.stderr
        assert (tmp_path / "precious").read_bytes() == b"8 bytes."
    scripted("filler.ts", "--opt", "trust=on")
    assert (tmp_path / "precious").read_bytes() == b"\7" * 8  # so the attack is a real one


def test_a_second_list_of_contents_hides_no_code(
    tmp_path: Path, scripted: Callable[..., CompletedProcess[str]]
) -> None:
    """Python's reader of archives takes the list at the end, PyTorch's the one that is named."""
    parts = []
    for word in (b"from_file", b"from_nowt"):
        data = BytesIO()
        with zipfile.ZipFile(tmp_path / "filler.ts") as made, zipfile.ZipFile(data, "w") as copy:
            for name in made.namelist():
                copy.writestr(name, made.read(name).replace(b"from_file", word))
        parts.append(data.getvalue())
    both = tmp_path / "both.ts"
    both.write_bytes(parts[0][:-22] + parts[1])
    with zipfile.ZipFile(both) as archive:
        assert not any(b"from_file" in archive.read(name) for name in archive.namelist())
    refused = scripted("both.ts")
    assert refused.returncode == 2, refused.stderr
    assert (tmp_path / "precious").read_bytes() == b"8 bytes."
    scripted("both.ts", "--opt", "trust=on")
    assert (tmp_path / "precious").read_bytes() == b"\7" * 8  # so the attack is a real one


class OldTorch(ModuleType):
    """PyTorch as it was when ``weights_only`` could be got around."""

    __version__ = "2.5.1"

    @staticmethod
    def load(*_: object, **__: object) -> object:
        raise AssertionError("it was loaded")


@pytest.mark.parametrize("weights", ["default", "file"])
def test_an_old_pytorch_loads_no_weights_unasked(tmp_path: Path, weights: str) -> None:
    (tmp_path / "w.pt").write_bytes(b"\x80\x02}.")
    torch = OldTorch("torch")
    spec = ExportSpec(source=str(tmp_path / "w.pt"), output="x.onnx")
    own = spec.having(weights=str(tmp_path / "w.pt"))
    loads = {
        "default": lambda: load_source(spec, torch=torch),
        "file": lambda: _with_weights(object(), own, torch),  # type: ignore[arg-type]
    }
    with pytest.raises(UsageError, match=r"2\.5\.1 can run code"):
        loads[weights]()


def test_a_network_of_ultralytics_in_the_folder_is_not_evaluated_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its library takes such a file before its own of that name, and evaluates ``activation``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "yolo11n.yaml").write_text("activation: __import__('os').system('touch owned')\n")
    spec = ExportSpec(source="ultralytics:yolo11n", output="x.onnx", weights="none")
    with pytest.raises(UsageError, match="can run any code"):
        load_source(spec, torch=OldTorch("torch"))


def test_the_code_that_a_file_names_is_told_without_running_it(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "owned",)

    inner = BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps(Evil()))
    with zipfile.ZipFile(tmp_path / "p.pt2", "w") as archive:
        archive.writestr("p/models/model.json", "{}")
        archive.writestr("p/data/sample_inputs/model.pt", inner.getvalue())
    assert archive_kind(tmp_path / "p.pt2") == "ExportedProgram"
    assert "pathlib" in packages_named(tmp_path / "p.pt2")
    assert not (tmp_path / "owned").exists()


def test_a_file_that_unpacks_to_gigabytes_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pt"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a/data.pkl", "w", force_zip64=True) as member,
    ):
        for _ in range(256):
            member.write(bytes(1 << 20))
    assert packages_named(path) == set()


def test_pickles_of_millions_of_steps_are_looked_at_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, steps = tmp_path / "long.pt", []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(40):
            archive.writestr(f"a/{number}.pkl", b"N0" * (1 << 20))
    read = pickletools.genops

    def counted(data: bytes) -> Iterator[object]:
        for each in read(data):
            steps.append(1)
            yield each

    monkeypatch.setattr(pickletools, "genops", counted)
    assert packages_named(path) == set()
    assert len(steps) <= 1_000_100
