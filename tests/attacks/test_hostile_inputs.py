"""Inputs that never end, unpack to gigabytes, or steer whoever reads their names."""

import contextlib
import json
import os
import signal
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
import records
from commands import trtbench, typed
from onnx import helper

import models
from trtbench.analysis.gate import Suite, junit_from_suites, rules_from_text
from trtbench.compare.gate import rules_from_file
from trtbench.core.errors import InputError, TrtbenchError
from trtbench.core.results import GateResult
from trtbench.core.spec import TensorSpec
from trtbench.executors.ssh import hosts_from_file
from trtbench.host.arrays import read_archive, read_arrays
from trtbench.host.images import read_image
from trtbench.requests.settings import load_config
from trtbench.store.store import Store
from trtbench.sweep.matrix import matrix_from_file
from trtbench.tasks._boxes import CocoFile
from trtbench.tasks.classification import LabelledArrays, read_classes

QUICK = ("--batch", "1", "--duration", "10ms", "--warmup", "1ms", "--no-until-steady")
ESCAPE = "\x1b]0;owned\x07\x1b[31m"


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(12)
)

MERGED = "a: &a {x: 1, y: 2}\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} {{<<: [{','.join(['*' + chr(97 + n)] * 9)}]}}\n"
    for n in range(12)
)


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS + "models: *m\n",
        "models: &a [*a]\n",
        "models: " + "[" * 5000 + "]" * 5000,
        "".join(" " * n + f"k{n}:\n" for n in range(600)),
        "models: 2026-13-45\n",
        "models: [2026-11-15]\nrounds: 2026-11-15\n",
        "models: !!python/object/apply:os.system ['touch owned']\n",
        "? [a, b]\n: c\n",
        "x" * (2 << 20),
        "models: [m.onnx]\noptions: {threads: {1: 2}}\n",
        "\ud800",
        MERGED + "models: *m\n",
        "models: &a {<<: *a}\n",
        "rounds: 1" + ":1" * 500_000 + "\n",
        "rounds: 1" + ":1" * 400_000 + ".5\n",
        "rounds: 0x" + "f" * 300 + "\n",
        "batch: [0b" + "1" * 300 + "]\n",
    ],
    ids=range(17),
)
def test_yaml_that_is_a_trap_is_refused_in_words(world: Path, text: str) -> None:
    (world / "s.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(TrtbenchError):
        matrix_from_file(world / "s.yaml")
    assert not (world / "owned").exists()


DEEP = [
    "a = " + "[" * 100_000,
    "a = " + "[" * 500 + "]" * 500,
    "[[host]]\naddress = 'x'\nresources = " + "{a=" * 20_000,
    "rounds = 0x" + "f" * 5000,
]


@pytest.mark.parametrize("text", DEEP, ids=range(len(DEEP)))
def test_settings_rules_and_hosts_without_a_bottom_are_refused_in_words(world, text):
    (world / "deep.toml").write_text(text)
    for read in (hosts_from_file, rules_from_file, matrix_from_file):
        with pytest.raises(TrtbenchError):
            read(world / "deep.toml")
    (world / "deep.toml").rename(world / "trtbench.toml")
    with pytest.raises(TrtbenchError):
        load_config(folder=world)


@pytest.mark.parametrize("more", ["gpus = 9223372036854775807", 'environment = {"X;id;Y" = "1"}'])
def test_a_list_of_hosts_that_is_a_trap_is_refused_in_words(world: Path, more: str) -> None:
    (world / "hosts.toml").write_text(f"[[host]]\naddress = 'a'\n{more}\n")
    with pytest.raises(TrtbenchError, match=r"gpus|variable"):
        hosts_from_file(world / "hosts.toml")


def test_annotations_without_a_bottom_are_refused_in_words(world: Path) -> None:
    (world / "deep.json").write_text("[" * 1_000_000)
    for read in (CocoFile, read_classes):
        with pytest.raises(InputError, match="JSON"):
            read(world / "deep.json")


def huge_array(shape: str) -> bytes:
    """The header of an array with a shape that nothing backs."""
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % shape.encode()
    header += b" " * (64 - (10 + len(header) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def test_an_array_that_says_it_is_huge_is_refused(tmp_path: Path) -> None:
    data = huge_array("(1099511627776,)") + bytes(16)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", data)
    (tmp_path / "x.npy").write_bytes(data)
    for name in ("x.npz", "x.npy"):
        with pytest.raises(InputError):
            read_arrays(tmp_path / name, [TensorSpec(name="x", dtype="float32", shape=(None,))])


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_labelled_arrays_that_are_a_trap_are_refused_in_words(tmp_path: Path, name: str) -> None:
    tensors = (TensorSpec(name="x", dtype="float32", shape=(None, 4)),)
    path = tmp_path / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", huge_array("(8589934592, 4)") + bytes(1 << 20))
    traps = [path.read_bytes(), b"", b"PK\x03\x04 no archive", b"text"]
    for arrays in (
        {"x": np.float32(1)},
        {"x": np.zeros((2, 4), "f4"), "labels": ["a", "b"]},
        {"x": np.zeros((200, 4), "f4"), "labels": np.zeros(200)},
    ):
        np.savez(tmp_path / "made.npz", **arrays)
        traps.append((tmp_path / "made.npz").read_bytes())
    checksum = bytearray(traps.pop())
    checksum[checksum.index(b"NUMPY") + 500] ^= 1  # is wrong now
    for trap in (*traps, bytes(checksum)):
        path.write_bytes(trap)
        with pytest.raises(InputError):
            LabelledArrays(path, tensors, labels=None)


def test_an_archive_that_unpacks_to_more_than_it_may_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.zeros(10**6, np.float32))
    assert path.stat().st_size < 10**4
    assert len(read_archive(path)["x"]) == 10**6
    with pytest.raises(InputError, match="damaged"):
        read_archive(path, most=10**6)


@pytest.mark.parametrize("name", ["big.onnx", "big.engine", "big.pt", "big.log", "big.npz"])
def test_a_file_of_terabytes_that_were_never_written_is_not_read(world: Path, name: str) -> None:
    with open(world / name, "wb") as file:
        file.write(b"\x08\x08")
        try:
            file.truncate(1 << 40)
        except OSError:
            pytest.skip("no small disk: files have no holes here")
    words = ("import", name) if name == "big.log" else ("inspect", name)
    done = typed(*words, status=1)
    assert "never written" in done.stderr + done.stdout


def test_an_image_starts_no_program(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import EpsImagePlugin

    program = world / "gs"
    program.write_text(f"#!/bin/sh\ntouch {world / 'owned'}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{world}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # which Pillow looks for once
    text = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    (world / "cat.jpg").write_text(text)
    with pytest.raises(InputError, match="cannot be read as an image"):
        read_image(world / "cat.jpg", channels=3)
    assert not (world / "owned").exists()
    os.mkfifo(world / "pipe.png")
    with pytest.raises(InputError, match="is a pipe"):
        read_image(world / "pipe.png", channels=3)


PIPES = (
    ("bench", "pipe.onnx"), ("inspect", "pipe.onnx"), ("import", "pipe.json"),
    ("bench", "m.onnx", "--batch", "1", "--inputs", "pipe.npz"), ("sweep", "pipe.toml"),
    ("report", "pipe.d"), ("gate", "m.onnx", "--rules", "pipe.toml"),
    ("inspect", "pipe.json"), ("build", "pipe.onnx"), ("quantize", "pipe.onnx", "--to", "fp16"),
    ("sweep", "--resume", "swept"),
    ("bench", "m.onnx", "--executor", "ssh", "--hosts", "pipe.toml"),
)  # fmt: skip


@pytest.mark.parametrize("words", PIPES, ids=lambda words: " ".join(words[:2]))
def test_a_pipe_is_refused_and_never_waited_for(world: Path, words: tuple[str, ...]) -> None:
    models.tiny_model(world / "m.onnx")
    for name in ("pipe.onnx", "pipe.json", "pipe.npz", "pipe.toml"):
        os.mkfifo(world / name)
    for folder, name in (("pipe.d", "run.json"), ("swept", "sweep.json")):
        (world / folder).mkdir()
        os.mkfifo(world / folder / name)

    def late(*_: object) -> None:
        raise TimeoutError(f"{words} waits for a pipe")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        done = typed(*words)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert done.returncode not in (0, None)
    assert "Traceback" not in done.stderr


def test_escapes_in_names_and_tags_never_reach_a_screen(world: Path) -> None:
    name = f"{ESCAPE}m.onnx"
    models.tiny_model(world / name)
    store = Store(world / "store")
    folder = records.add(store, records.record("r1", tags=("fine",)))
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"fine"', json.dumps(ESCAPE)))
    (world / "store" / "index.sqlite").unlink()
    said = [
        typed("runs"), typed("runs", "show", "r1"), typed("inspect", name),
        typed("bench", name, *QUICK), typed("runs"), typed("runs", "--json"),
        typed("bench", f"no{ESCAPE}.onnx"), typed("runs", "show", ESCAPE),
        typed("runs", "tag", "r1", ESCAPE), typed("report", "r1", "-o", world / "report"),
        typed("import", world / name), typed(ESCAPE), typed("bench", name, "--opt", ESCAPE),
    ]  # fmt: skip
    for done in said:
        for text in (done.stdout, done.stderr):
            assert "\x1b" not in text
            assert "\x07" not in text
    assert "owned" in said[0].stdout + said[3].stdout
    assert said[8].returncode != 0


def test_a_long_name_is_shown_once_and_shortened(world: Path) -> None:
    name, row = "n" * 10**5, {"timeMs": 1.0, "averageMs": 0.01, "percentage": 1.0}
    layers = [{"count": 100}, *({"name": f"l{n}", **row} for n in range(99)), {"name": name, **row}]
    (world / "x.profile.json").write_text(json.dumps(layers))
    (world / "x.cache").write_text(f"TRT-8600-{name}\nx: 3c010a14\n")
    (world / "s.toml").write_text(f"models = ['{name}']")
    (world / "p.toml").write_text(f"precision = ['{name}']")
    value = helper.make_tensor_value_info("x", 1, [name, 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [value])
    onnx.save(helper.make_model(graph), world / "x.onnx")
    for words, status, most in [
        (("profile", world / "x.profile.json", "--all"), 0, 2 * 10**5),
        (("inspect", world / "x.cache"), 0, 5000), (("inspect", world / "x.onnx"), 0, 5000),
        (("sweep", world / "s.toml", "--dry-run"), 2, 5000),
        (("sweep", world / "p.toml", "--dry-run"), 2, 5000),
    ]:  # fmt: skip
        done = typed(*words, status=status)
        assert len(done.stdout + done.stderr) < most, words
        assert name not in done.stdout + done.stderr


@pytest.mark.parametrize("tag", ["\x1b[2Jgone", "../up", "two\nlines", "", "=cmd()"])
def test_a_tag_that_steers_something_is_refused(world: Path, tag: str) -> None:
    done = typed("bench", models.tiny_model(world / "m.onnx"), "--tag", tag)
    assert done.returncode != 0
    assert "cannot be a tag" in done.stderr
    assert "\x1b" not in done.stderr
    assert not (world / "store" / "runs").exists()


def test_control_characters_never_break_junit() -> None:
    rule = rules_from_text("median<5ms")[0].having(text=f"median<5ms {ESCAPE}\x00\ufffe")
    result = GateResult(rule=rule, outcome="fail", message=f"slow {ESCAPE}\x0b\udce9")
    text = junit_from_suites([Suite(ESCAPE, [result])])
    root = ElementTree.fromstring(text.encode())
    assert "\\x1b" in root.find("testcase/failure").get("message")


@pytest.mark.parametrize("where", ["file", "folder"])
def test_names_that_are_not_utf8_work(world: Path, where: str, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("TRTBENCH_CACHE", str(world / "kept"))
    folder = world / os.fsdecode(b"caf\xe9") if where == "folder" else world
    folder.mkdir(exist_ok=True)
    model = folder / ("m.onnx" if where == "folder" else os.fsdecode(b"m\xff.onnx"))
    models.tiny_model(world / "plain.onnx")
    (world / "plain.onnx").rename(model)
    trtbench("bench", model, *QUICK, folder=world, status=0)
    assert any((world / "kept").rglob("*"))  # links with names that are, in the folder for caches
    for words in (("runs",), ("runs", "show", "last"), ("report", "last", "-o", "report"),
                  ("site", "-o", "site"), ("inspect", model)):  # fmt: skip
        typed(*words, status=0)
    assert typed("bench", folder / os.fsdecode(b"missing\xff.onnx")).returncode != 0


def test_a_store_and_an_output_whose_names_are_not_utf8_work(world: Path) -> None:
    models.tiny_model(world / "m.onnx")
    odd = os.fsdecode(b"st\xe9re")
    typed("bench", "m.onnx", *QUICK, "--store", odd, "-o", os.fsdecode(b"out\xff"), status=0)
    assert typed("runs", "--store", odd).returncode == 0
    assert typed("runs", "show", "last", "--store", odd).returncode == 0
