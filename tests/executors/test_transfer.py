"""What travels with a request, and what comes back of it."""

import hashlib
import io
import sys
import tarfile
import threading
import types
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import runs
from machines import hosts_file

import models
import trtbench
from trtbench.cli import trtbench as group
from trtbench.cli import verb_named
from trtbench.core import errors
from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, JobError, StoreError
from trtbench.core.jobs import ReportedError
from trtbench.core.spec import InputSpec, RunSpec
from trtbench.executors import _transfer as parcels
from trtbench.executors import _transfer as transfer
from trtbench.executors._node import receive, result_of
from trtbench.executors.contract import FileGroup, RemoteJob
from trtbench.executors.ray import _fetch_content, run_on_node
from trtbench.measure.remote import InputFiles, job_from_spec
from trtbench.models.identity import changed, model_ref, with_parts
from trtbench.requests.execution import Execution
from trtbench.requests.fields import ExecutorFields, RequestField, VerbRequest, fields_of
from trtbench.requests.models import CheckRequest, EvalRequest
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes import torch as torch_runtime
from trtbench.sweep.matrix import Case, Matrix
from trtbench.sweep.run import case_arguments
from waiting import printed


def request(folder: Path, **changes: object) -> RemoteJob:
    spec = runs.quick_spec(folder).having(**changes)
    return job_from_spec(spec, "r1", Execution())


def send(upload: transfer.Upload, cache: Path, folder: Path) -> RemoteJob:
    """Go the way a parcel goes: contents into the cache there, the request by itself."""
    for sha256, path in upload.contents.items():
        transfer.store_blob(cache, sha256, [path.read_bytes()])
    return transfer.place_upload(upload, cache=cache, folder=folder)


def names(upload: transfer.Upload) -> list[str]:
    return sorted(part.name for part in upload.files)


def test_a_model_and_its_inputs_arrive(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones((1, 16), np.float32))
    asked = request(tmp_path, inputs=InputSpec(source=str(tmp_path / "in.npz")))
    upload = transfer.upload_from_job(asked)
    assert names(upload) == ["files/0/in.npz", "files/1/tiny.onnx"]
    arrived = send(upload, tmp_path / "cache", tmp_path / "there")
    model = Path(arrived.spec.model.path)
    assert model.read_bytes() == (tmp_path / "tiny.onnx").read_bytes()
    assert model.is_relative_to(tmp_path / "there")
    assert arrived.spec.inputs.source == str(tmp_path / "there" / "files" / "0" / "in.npz")
    assert arrived.id == "r1"


def test_weights_beside_a_model_travel_and_those_elsewhere_do_not(tmp_path: Path) -> None:
    path = models.external_data_model(tmp_path / "big.onnx")
    weights = [each.name for each in tmp_path.iterdir() if each != path]
    asked = request(tmp_path, model=model_ref(path))
    assert names(transfer.upload_from_job(asked)) == sorted(
        f"files/0/{name}" for name in ("big.onnx", *weights)
    )
    group = asked.files["0"]
    for name, words in (("../secret", "leads out"), ("gone.bin", "cannot be sent")):
        with pytest.raises(InputError, match=words):
            transfer.upload_from_job(
                asked.having(files={"0": group.having(names=(*group.names, name))})
            )


def test_a_folder_of_inputs_travels_whole_but_for_links_that_lead_out(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    (folder / "cats").mkdir(parents=True)
    (folder / "cats" / "1.png").write_bytes(b"1")
    (folder / "2.png").write_bytes(b"2")
    asked = request(tmp_path, inputs=InputSpec(source=str(folder)))
    upload = transfer.upload_from_job(asked)
    assert names(upload)[:2] == ["files/0/images/2.png", "files/0/images/cats/1.png"]
    arrived = send(upload, tmp_path / "cache", tmp_path / "there")
    assert (Path(str(arrived.spec.inputs.source)) / "cats" / "1.png").read_bytes() == b"1"
    (tmp_path / "secret").write_bytes(b"s")
    (folder / "link.png").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="leads out"):
        transfer.upload_from_job(asked)


@pytest.mark.parametrize(
    "kind", ["InputError", "UsageError", "UnavailableError", "bug", "StoreError"]
)
def test_an_error_in_words_is_the_same_error_here(tmp_path: Path, kind: str) -> None:
    """But a full disk there: without its store no sweep goes on, without a machine it does."""
    told = ReportedError(kind=kind, message="it is bitter", facts={"taste": "bitter"}, fix="sugar")
    (tmp_path / "error.json").write_bytes(json_from_value(told))
    expected, full = getattr(errors, kind, JobError), kind == "StoreError"
    with pytest.raises(errors.UnavailableError if full else expected, match="bitter") as caught:
        result_of(tmp_path, where="the board", how="status 3")
    assert caught.value.facts == {"taste": "bitter", "where": "the board"}
    fix = "free disk space there, or leave out this machine" if full else "sugar"
    assert caught.value.fix == fix


FIRST = """
import sys, threading
from typing import Optional
import msgspec
from trtbench.core.codec import value_from_json

def kind(number):
    inner = msgspec.defstruct(f"I{number}", [("a", Optional[int]), ("b", dict[str, list[int]], {})])
    outer = [("i", Optional[inner]), ("t", tuple[inner, ...], ()), ("x", dict[str, inner], {})]
    return msgspec.defstruct(f"O{number}", outer)

def read():
    for each in kinds:
        together.wait()
        value_from_json('{"i": {"a": 1}}', each, where="here")

sys.setswitchinterval(1e-6)
kinds, together = [kind(number) for number in range(200)], threading.Barrier(4)
threads = [threading.Thread(target=read) for _ in range(4)]
for step in (threading.Thread.start, threading.Thread.join):
    for each in threads:
        step(each)
"""


@pytest.mark.process
def test_answers_of_one_kind_that_come_at_the_same_time_are_read() -> None:
    """As cases that end together on several machines do; msgspec alone ends the process."""
    printed([sys.executable, "-c", FIRST])


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A working folder, and standard streams as ssh would give them."""
    here = tmp_path / "host"
    here.mkdir()
    monkeypatch.chdir(here)

    def serve(*words: str, given: bytes = b"") -> bytes:
        told = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        monkeypatch.setattr(sys, "stdout", told)
        assert transfer.main(list(words)) == 0
        told.flush()
        return told.buffer.getvalue()

    return serve


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def archive(*members: tuple[str, bytes | None]) -> bytes:
    """An archive of contents; ``None`` is a folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as file:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.type, member.size = (
                (tarfile.REGTYPE, len(data)) if data else (tarfile.DIRTYPE, 0)
            )
            file.addfile(member, io.BytesIO(data or b""))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("member", "match"), [(("0" * 64, b"two"), "damaged"), (("folder", None), "only files")]
)
def test_what_is_not_what_it_should_be_is_not_kept(host, member, match):
    with pytest.raises(StoreError, match=match):
        host("keep-all", given=archive(member))
    assert not [path for path in Path.cwd().rglob("*") if path.is_file()]


@pytest.mark.process
def test_a_node_fetches_what_it_lacks_and_measures(tmp_path, clocked, monkeypatch):
    """Ray's own parts, handing over pieces of files and variables, are all that stands in."""
    context = types.SimpleNamespace(runtime_env={})
    ray = types.SimpleNamespace(get=lambda piece: piece, get_runtime_context=lambda: context)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("TRTBENCH_CACHE", str(tmp_path / "cache"))
    spec = runs.quick_spec(tmp_path, runtime="clocked")
    upload = transfer.upload_from_job(job_from_spec(spec, "r1", Execution()))
    contents = {sha256: [path.read_bytes()] for sha256, path in upload.contents.items()}
    packed, how = run_on_node(json_from_value(upload), contents, 0)
    (tmp_path / "left.tar").write_bytes(packed)
    receive(tmp_path / "left.tar", tmp_path / "run", where="node", how=how)
    assert (tmp_path / "run" / "run.json").is_file()
    refused = runs.quick_spec(tmp_path, runtime="clocked", options={"do": "refuse"})
    upload = transfer.upload_from_job(job_from_spec(refused, "r2", Execution()))
    packed, how = run_on_node(json_from_value(upload), contents, 0)
    (tmp_path / "run" / "left.tar").write_bytes(packed)
    with pytest.raises(InputError, match="refused") as caught:
        receive(tmp_path / "run" / "left.tar", tmp_path / "no run", where="node", how=how)
    assert caught.value.facts["where"] == "node"


def test_two_tasks_that_want_the_same_fetch_it_once(tmp_path, monkeypatch):
    fetched, begun = [], threading.Event()

    def get(piece: bytes) -> bytes:
        fetched.append(piece)
        begun.wait()
        return piece

    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(get=get))
    sha256 = digest(b"model")
    with ThreadPoolExecutor(2) as pool:
        args = (_fetch_content, tmp_path, sha256, [b"mo", b"del"])
        one, two = (pool.submit(*args) for _ in range(2))
        begun.set()
    assert [one.result(), two.result()] == [None, None]
    assert fetched == [b"mo", b"del"]


def sent(files: InputFiles) -> set[str]:
    """Names of what travels, without the numbers of groups."""
    upload = transfer.upload_from_job(RemoteJob(id="r", files=files.groups))
    return {name.split("/", 2)[2] for name in (*(p.name for p in upload.files), *upload.folders)}


def arrived(files: InputFiles, folder: Path, spec: RunSpec | None = None) -> RemoteJob:
    """Have everything travel to a folder that stands for another machine."""
    asked = RemoteJob(id="r", spec=spec, files=files.groups, code=tuple(files.code))
    return send(transfer.upload_from_job(asked), folder / "cache", folder / "there")


def requests_with_executor() -> list[type[VerbRequest]]:
    names = group.list_commands(None)
    named = [verb.request for name in names if (verb := verb_named(name))]
    kinds = {each for each in named if issubclass(each, ExecutorFields)}
    return sorted(kinds, key=lambda each: each.__name__)


def names_a_file(field: RequestField) -> bool:
    types = {field.type, field.item, *typing.get_args(field.type), *typing.get_args(field.item)}
    words = str(field.about.metavar or "").split("|")
    return Path in types or not {"FILE", "PATH", "DIR", "FOLDER", "DATA"}.isdisjoint(words)


def test_every_field_that_names_a_file_travels_or_says_why_not() -> None:
    known = requests_with_executor()
    assert len(known) >= 8
    silent = [
        f"{kind.__name__}.{field.name}"
        for kind in known
        for field in fields_of(kind)
        if names_a_file(field) and not (field.about.travels or field.about.stays)
    ]
    assert not silent, "say travels=... or stays='why' in their option(...)"


def test_every_option_of_a_runtime_that_names_a_file_travels_or_is_there_already() -> None:
    there = {"binary"}  # a program of the machine that measures
    for name in RUNTIMES.names():
        module = RUNTIMES.load(name)
        told = {key for key, text in module.OPTIONS.items() if names_a_thing(text)}
        assert told - there <= set(module.TRAVELS), name


def names_a_thing(text: str) -> bool:
    return (
        any(word in text for word in ("path of", "state dict", "librar", "FILE", ":function"))
        and "pool" not in text
    )


def test_the_code_of_a_factory_travels_with_what_it_imports(tmp_path, monkeypatch) -> None:
    (tmp_path / "nets" / "parts").mkdir(parents=True)
    (tmp_path / "nets" / "__init__.py").write_text("")
    (tmp_path / "nets" / "small.py").write_text("from nets.parts.conv import make\nimport numpy\n")
    (tmp_path / "nets" / "parts" / "__init__.py").write_text("")
    (tmp_path / "nets" / "parts" / "conv.py").write_text("def make(): pass\n")
    (tmp_path / "nets" / "other.py").write_text("secret = 1\n")
    (tmp_path / "w.pt").write_bytes(b"weights")
    (tmp_path / "net.pt").write_bytes(b"a state dict")
    monkeypatch.chdir(tmp_path)
    options = {"weights": "w.pt", "factory": "nets.small:make"}
    files, made_with = torch_runtime.model_parts("net.pt", options)
    model = with_parts(model_ref(Path("net.pt")), files, made_with=made_with)
    spec = RunSpec(model=model, runtime="torch", options=options)
    files = InputFiles()
    moved = files.add_spec(spec)
    assert sent(files) == {
        "net.pt", "w.pt", "nets/__init__.py", "nets/small.py", "nets/parts/__init__.py",
        "nets/parts/conv.py",
    }  # fmt: skip
    there = arrived(files, tmp_path / "far", moved)
    assert (Path(there.code[0]) / "nets" / "small.py").is_file()
    assert there.spec.options["factory"] == "nets.small:make"
    assert Path(there.spec.options["weights"]).read_bytes() == b"weights"
    assert changed(there.spec.model) is None  # all its parts are found there, and are the same
    assert there.spec.model.sha256 == model.sha256


def test_a_case_of_a_sweep_takes_what_its_axes_name(tmp_path, monkeypatch) -> None:
    (tmp_path / "m").mkdir()
    model = models.tiny_model(tmp_path / "m" / "tiny.onnx")
    for name in ("a.so", "b.so", "w.pt", "scales.cache"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "net.py").write_text("def make(): pass\n")
    monkeypatch.chdir(tmp_path)
    axes = {
        "opt.weights": str(tmp_path / "w.pt"), "opt.factory": "net:make",
        "opt.plugins": "a.so,b.so", "build.calibration_cache": "scales.cache",
    }  # fmt: skip
    matrix = Matrix(models=(str(model),), options={key: (text,) for key, text in axes.items()})
    case = Case(model=str(model), runtime="torch", fixed=axes)
    arguments, files = case_arguments(matrix, case, "r1")
    assert sent(files) == {"tiny.onnx", "a.so", "b.so", "w.pt", "scales.cache", "net.py"}
    assert arguments["case"]["fixed"]["opt.factory"] == "net:make"
    for key in ("opt.weights", "opt.plugins", "build.calibration_cache"):
        told = arguments["case"]["fixed"][key]
        assert told.startswith("trtbench-file:")
        assert arguments["matrix"]["options"][key] == [told]


def yolo(folder: Path, text: str) -> Path:
    """A data set whose description lies apart from its images."""
    for part in ("train", "val"):
        for kind, name in (("images", "1.jpg"), ("labels", "1.txt")):
            (folder / "set" / kind / part).mkdir(parents=True, exist_ok=True)
            (folder / "set" / kind / part / name).write_bytes(f"{kind} {part}".encode())
    (folder / "set" / "images" / "val" / "id_rsa").write_bytes(b"secret")
    (folder / "cfg").mkdir(exist_ok=True)
    (folder / "cfg" / "data.yaml").write_text(text)
    return folder / "cfg" / "data.yaml"


def test_a_data_yaml_leads_out_of_its_folder_to_images_and_labels_alone(tmp_path) -> None:
    data = yolo(tmp_path, "path: ../set\ntrain: images/train\nval: images/val\nnames: [a]\n")
    files = InputFiles(task="detection", settings={})
    mark = files.add_value("data", data)
    assert sent(files) == {"cfg/data.yaml", "set/images/val/1.jpg", "set/labels/val/1.txt"}
    there = arrived(files, tmp_path / "far")
    place = Path(str(there.placed)) / mark.removeprefix("trtbench-file:")
    from trtbench.tasks._boxes import find_dataset

    assert [p.name for p in find_dataset({"data": str(place)}).paths] == ["1.jpg"]
    files = InputFiles(task="detection", settings={})
    files.add_value("calibration", data)  # others than those that are judged on
    assert "set/images/train/1.jpg" in sent(files)


def test_a_class_without_images_is_a_class_there_too(tmp_path) -> None:
    for name in ("cat", "dog", "emu"):
        (tmp_path / "val" / name).mkdir(parents=True)
    (tmp_path / "val" / "cat" / "1.png").write_bytes(b"1")
    request = EvalRequest(models=[], task="classification", data=tmp_path / "val")
    files = InputFiles(task="classification", settings={})
    files.add_request(request)
    there = arrived(files, tmp_path / "far")
    folders = sorted(p.name for p in (Path(str(there.placed)) / "0" / "val").iterdir())
    assert folders == ["cat", "dog", "emu"]


def test_one_file_under_two_names_is_sent_once(tmp_path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones(3))
    (tmp_path / "again.npz").write_bytes((tmp_path / "in.npz").read_bytes())
    files = InputFiles()
    for name in ("in.npz", "in.npz", "again.npz"):
        files.add_value("file", tmp_path / name)
    assert len(files.groups) == 2
    assert len(transfer.upload_from_job(RemoteJob(id="r", files=files.groups)).contents) == 1


def test_a_folder_of_too_many_files_is_refused_before_any_is_read(tmp_path, monkeypatch) -> None:
    (tmp_path / "all").mkdir()
    for number in range(4):
        (tmp_path / "all" / str(number)).write_bytes(b"")
    monkeypatch.setattr(parcels, "MOST_FILES", 3)
    monkeypatch.setattr(parcels, "sha256_of", lambda path: pytest.fail("was read"))
    with pytest.raises(InputError, match="more than 3 files"):
        transfer.upload_from_job(
            RemoteJob(id="r", files={"0": FileGroup(folder=str(tmp_path), names=("all",))})
        )


def test_what_is_named_from_a_folder_above_keeps_its_name(tmp_path, monkeypatch) -> None:
    models.tiny_model(tmp_path / "v1.onnx")
    (tmp_path / "latest.onnx").symlink_to("v1.onnx")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    files = InputFiles()
    request = CheckRequest(reference="../latest.onnx", candidates=["../v1.onnx"], batch=2)
    asked = files.add_request(request)
    assert sent(files) == {"latest.onnx", "v1.onnx"}
    assert asked["batch"] == 2


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.xdist_group("machines")
def test_interpreters_of_this_machine_are_not_looked_for_on_others(
    tmp_path, sshd, clocked, monkeypatch
):
    """Settings name one for here; a host has settings of its own, or none."""
    (tmp_path / "laptop").mkdir()
    monkeypatch.chdir(tmp_path / "laptop")
    settings = "[runtimes.onnxruntime]\npython = '/nowhere/python'\n"
    (tmp_path / "laptop" / "trtbench.toml").write_text(settings)
    asked = {"executor": "ssh", "hosts": hosts_file(tmp_path, sshd, clocked, "a"), "batch": 1}
    model = runs.quick_spec(tmp_path).model.path
    short = {"duration": "20ms", "warmup": "10ms", "until_steady": False}
    assert trtbench.bench(model, store=tmp_path / "store", **short, **asked).id
    turns = {"launches": 2, "pairs": 10, "store": tmp_path / "store"}
    assert trtbench.compare(model, model, **turns, **asked).verdicts
