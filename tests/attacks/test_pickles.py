"""PyTorch files that run code when they are loaded; without --trust none of it runs."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

from commands import trtbench

from trtbench.models.torch_pickle import archive_kind, modules_named

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
    refused = trtbench(*export)
    assert refused.returncode == 2, refused.stderr
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


def test_torchscript_does_not_change_files_unasked(tmp_path: Path, torch_python: str) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"8 bytes.")
    code = tmp_path / "make.py"
    code.write_text(SCRIPTS.replace("PRECIOUS", str(precious)))
    made = [torch_python, str(code)]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    quick = ("--duration", "10ms", "--warmup", "1ms", "--no-until-steady", "--shape", "x:1x2")
    where = ("-r", "torch", "--python", torch_python, "--device", "cpu", "--store", tmp_path / "s")
    assert trtbench("bench", tmp_path / "fine.ts", *where, *quick).returncode == 0
    for name in ("filler.ts", "writer.ts"):
        refused = trtbench("bench", tmp_path / name, *where, *quick)
        assert refused.returncode == 2, refused.stderr
        assert "can change any of yours" in refused.stderr
        assert precious.read_bytes() == b"8 bytes."
    trtbench("bench", tmp_path / "filler.ts", *where, *quick, "--opt", "trust=on")
    assert precious.read_bytes() == b"\7" * 8  # so the attack is a real one


def test_the_code_that_a_file_names_is_told_without_running_it(tmp_path: Path) -> None:
    import pickle
    from io import BytesIO

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
    assert "pathlib" in modules_named(tmp_path / "p.pt2")
    assert not (tmp_path / "owned").exists()


def test_a_file_that_unpacks_to_gigabytes_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pt"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a/data.pkl", "w", force_zip64=True) as member,
    ):
        for _ in range(256):
            member.write(bytes(1 << 20))
    assert modules_named(path) == set()
