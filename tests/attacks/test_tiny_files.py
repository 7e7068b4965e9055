"""Small files that would hang whoever reads them, or fill the memory."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import onnx
import pytest
from commands import trtbench, typed
from evil_models import tar_with_header
from onnx import TensorProto
from onnx import helper as make

import logs
import models
from trtbench.core.errors import InputError
from trtbench.host.process import guarded
from waiting import ended

QUICK = ("--batch", "1", "--duration", "10ms", "--warmup", "1ms", "--no-until-steady")


def doubling_functions(depth: int) -> onnx.ModelProto:
    """A model whose functions call one another twice: 2 ** depth nodes once they are expanded."""
    opsets = [make.make_opsetid("", 17), make.make_opsetid("d", 1)]
    functions = []
    for number in range(depth):
        op, domain = (f"f{number - 1}", "d") if number else ("Relu", "")
        nodes = [make.make_node(op, [a], [b], domain=domain) for a, b in ("ab", "bc")]
        functions.append(make.make_function("d", f"f{number}", ["a"], ["c"], nodes, opsets))
    value = make.make_tensor_value_info
    inputs, outputs = [value("x", TensorProto.FLOAT, [1])], [value("y", TensorProto.FLOAT, [1])]
    node = make.make_node(f"f{depth - 1}", ["x"], ["y"], domain="d")
    graph = make.make_graph([node], "g", inputs, outputs)
    return make.make_model(graph, functions=functions, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("packed", [False, True])
def test_a_long_header_of_a_tar_file_is_refused(world: Path, packed: bool) -> None:
    data = tar_with_header(250_000)
    (world / "a.tar").write_bytes(gzip.compress(data) if packed else data)
    found = typed("import", "a.tar", status=1)
    assert "a header that is too long" in " ".join(found.stdout.split())


def test_functions_that_double_leave_shapes_unknown(world: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("trtbench.models.onnx_model.SECONDS", 0.5)
    (world / "m.onnx").write_bytes(doubling_functions(30).SerializeToString())
    assert "shapes could not be inferred" in typed("inspect", "m.onnx", status=0).stdout


VERBS = """bench, bench -r trtexec, build -r trtexec, check m.onnx, compare m.onnx, profile,
    quantize --precision fp16, gate --against m.onnx --max-slowdown 3%,
    localize m.onnx, sweep -o swept, eval --task classification --data x.npz"""


@pytest.mark.parametrize("words", VERBS.split(","))
def test_functions_that_double_are_refused_and_not_expanded(world: Path, words: str) -> None:
    (world / "m.onnx").write_bytes(doubling_functions(30).SerializeToString())
    verb, *more = words.split()
    assert "expand to more nodes than can" in typed(verb, "m.onnx", *more, status=1).stderr


def test_functions_that_end_are_measured(world: Path) -> None:
    (world / "m.onnx").write_bytes(doubling_functions(8).SerializeToString())
    assert typed("bench", "m.onnx", *QUICK).returncode == 0


def test_a_signal_ends_a_command_whose_parser_hangs(world: Path) -> None:
    (world / "m.onnx").write_bytes(doubling_functions(30).SerializeToString())
    variables = {**os.environ, "TRTBENCH_TEST_STARTS": "workers"}
    command = [sys.executable, "-m", "trtbench", "inspect", "m.onnx"]
    asked = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables)
    with ended(asked) as started:
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children")
        while not children.read_text().strip():
            assert started.poll() is None
            time.sleep(0.05)
        started.send_signal(signal.SIGTERM)
        _, said = started.communicate()
    assert started.returncode == 130
    assert "interrupted" in said


def test_a_zip_of_overlapping_files_ends(world: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Every entry of the directory is the same 8 MB of a member, under another name."""
    monkeypatch.setattr("trtbench.importing.archives.SECONDS", 1.0)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("0.log", "[I] x\n" * (8 << 20))
        first = archive.infolist()[0]
        for number in range(1, 400):
            other = zipfile.ZipInfo(f"{number}.log")
            for name in ("CRC", "compress_size", "file_size", "header_offset", "compress_type"):
                setattr(other, name, getattr(first, name))
            archive.filelist.append(other)
    (world / "a.zip").write_bytes(file.getvalue())
    found = typed("import", "a.zip", status=1)
    assert "0 runs imported" in found.stdout + found.stderr


LONG = 1 << 20
NEARLY = {
    "a.cache": f"TRT-8601-E{' ' * LONG}!\nx: 3c010204\n",
    "a.log": f"[{'0' * LONG}!\n{logs.log_10()}",
    "a.times.json": json.dumps([{"computeMs": f"1{' ' * LONG}x y", "latencyMs": 1}] * 3),
    "a.profile.json": json.dumps(
        [{"count": 1}, *({"name": x, "timeMs": 1, "averageMs": 1, "percentage": 1} for x in (
            "conv", "{ForeignNode[" + "." * LONG, "[ONNX Layer: " * 10**5, "a + " * 10**5,
            "Reformatting CopyNode for Input Tensor 0 to " * 10**5, "PWN(" * 2000 + ")" * 2000))]
    ),
}  # fmt: skip


def test_texts_that_nearly_have_a_form_are_read_at_once(world: Path) -> None:
    """Expressions that try every way to read them would take hours, or years."""
    for name, content in NEARLY.items():
        (world / name).write_text(content)
    models.identity(world / "a.onnx", (f"past{'0' * 60}!", TensorProto.FLOAT, ["n", "s", 4]))
    draw = "profile a.profile.json --draw a.svg"
    for words in ("inspect a.cache", "import a.log a.times.json", "inspect a.onnx", draw):
        assert typed(*words.split()).returncode in (0, 1), words  # one of the files is no use


def test_a_parser_that_fills_the_memory_ends() -> None:
    with pytest.raises((MemoryError, InputError)):
        guarded(lambda: len(bytearray(64 << 30)), what="a file", seconds=60)


@pytest.mark.parametrize("name", [".git", ".git/HEAD", ".git/config"])
def test_a_pipe_in_place_of_a_repository_keeps_nobody_waiting(world: Path, name: str) -> None:
    pipe = world / name
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    models.tiny_model(world / "m.onnx")
    program = world / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {world}/asked\n")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    found = trtbench("bench", "m.onnx", *QUICK, "--json", folder=world, PATH=path)
    assert '"git_commit": null' in found.stdout, found.stderr
    assert not (world / "asked").exists()
