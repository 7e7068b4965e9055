"""What goes along to another machine: all that a request names, and nothing else."""

from __future__ import annotations

import typing
from pathlib import Path

import numpy as np
import pytest

import models
from trtbench import verbs, verbs_of_runs
from trtbench.domain.spec import ModelRef, RunSpec
from trtbench.errors import InputError
from trtbench.executors import Bag, Request
from trtbench.executors import _parcel as parcels
from trtbench.executors._parcel import parcel_from_request
from trtbench.models.identity import changed, model_ref, with_parts
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes import torch as torch_runtime
from trtbench.workflows.measure.luggage import Luggage
from trtbench.workflows.request.fields import Argument, RequestField, VerbRequest, fields_of
from trtbench.workflows.request.groups import ExecutorFields
from trtbench.workflows.request.judging import CheckRequest, EvalRequest
from trtbench.workflows.request.making import BuildRequest
from trtbench.workflows.sweep.matrix import Case, Matrix
from trtbench.workflows.sweep.remote import case_errand

from test_parcels import send  # isort: skip


def sent(luggage: Luggage) -> set[str]:
    """Names of what travels, without the numbers of bags."""
    parcel = parcel_from_request(Request(id="r", bags=luggage.bags))
    return {name.split("/", 2)[2] for name in (*(p.name for p in parcel.parts), *parcel.folders)}


def arrived(luggage: Luggage, folder: Path, spec: RunSpec | None = None) -> Request:
    """Have everything travel to a folder that stands for another machine."""
    asked = Request(id="r", spec=spec, bags=luggage.bags, code=tuple(luggage.code))
    return send(parcel_from_request(asked), folder / "cache", folder / "there")


def requests_with_executor() -> list[type[VerbRequest]]:
    named = [each for module in (verbs, verbs_of_runs) for each in vars(module).values()]
    kinds = {each for each in named if isinstance(each, type) and issubclass(each, ExecutorFields)}
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
    luggage = Luggage()
    moved = luggage.spec(spec)
    assert sent(luggage) == {
        "net.pt", "w.pt", "nets/__init__.py", "nets/small.py", "nets/parts/__init__.py",
        "nets/parts/conv.py",
    }  # fmt: skip
    there = arrived(luggage, tmp_path / "far", moved)
    assert (Path(there.code[0]) / "nets" / "small.py").is_file()
    assert there.spec.options["factory"] == "nets.small:make"
    assert Path(there.spec.options["weights"]).read_bytes() == b"weights"
    assert changed(there.spec.model) is None  # all its parts are found there, and are the same
    assert there.spec.model.sha256 == model.sha256


def test_a_factory_of_a_library_needs_no_luggage() -> None:
    luggage = Luggage()
    assert luggage.take("options", {"factory": "onnx.helper:make"}) == {
        "factory": "onnx.helper:make"
    }
    assert not luggage.bags


def test_files_of_a_build_travel_from_wherever_they_are(tmp_path) -> None:
    (tmp_path / "m").mkdir()
    model = models.tiny_model(tmp_path / "m" / "tiny.onnx")
    for name in ("a.so", "b.so", "scales.cache", "times.cache"):
        (tmp_path / name).write_bytes(name.encode())
    request = BuildRequest(
        model=model, plugins=(tmp_path / "a.so", tmp_path / "b.so"),
        calibration_cache=tmp_path / "scales.cache", timing_cache=tmp_path / "times.cache",
        calibration="random", output=tmp_path / "x.engine", python="/opt/python",
    )  # fmt: skip
    luggage = Luggage()
    asked = luggage.request(request)
    assert sent(luggage) == {"tiny.onnx", "a.so", "b.so", "scales.cache", "times.cache"}
    assert asked["calibration"] == "random"
    assert asked["python"] == "/opt/python"
    assert "output" not in asked


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
    errand, luggage = case_errand(matrix, case, "r1")
    assert sent(luggage) == {"tiny.onnx", "a.so", "b.so", "w.pt", "scales.cache", "net.py"}
    assert errand.asked["case"]["fixed"]["opt.factory"] == "net:make"
    for key in ("opt.weights", "opt.plugins", "build.calibration_cache"):
        told = errand.asked["case"]["fixed"][key]
        assert told.startswith("trtbench-file:")
        assert errand.asked["matrix"]["options"][key] == [told]


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
    luggage = Luggage(task="detection", settings={})
    mark = luggage.take("data", data)
    assert sent(luggage) == {"cfg/data.yaml", "set/images/val/1.jpg", "set/labels/val/1.txt"}
    there = arrived(luggage, tmp_path / "far")
    place = Path(str(there.placed)) / mark.removeprefix("trtbench-file:")
    from trtbench.tasks._detection_images import find_images_of

    assert [p.name for p in find_images_of({"data": str(place)}).paths] == ["1.jpg"]
    luggage = Luggage(task="detection", settings={})
    luggage.take("calibration", data)  # others than those that are judged on
    assert "set/images/train/1.jpg" in sent(luggage)


def test_a_list_of_images_travels_with_them(tmp_path) -> None:
    data = yolo(tmp_path, "path: ../set\nval: val.txt\nnames: [a]\n")
    (tmp_path / "set" / "val.txt").write_text("./images/val/1.jpg\n")
    luggage = Luggage(task="detection", settings={})
    luggage.take("data", data)
    assert "set/val.txt" in sent(luggage)


@pytest.mark.parametrize("where", ["yaml", "list"])
def test_images_by_a_path_that_only_this_machine_has_are_refused(tmp_path, where) -> None:
    data = yolo(tmp_path, f"path: {tmp_path}/set\nval: images/val\nnames: [a]\n")
    if where == "list":
        data.write_text("path: ../set\nval: val.txt\nnames: [a]\n")
        (tmp_path / "set" / "val.txt").write_text(f"{tmp_path}/set/images/val/1.jpg\n")
    with pytest.raises(InputError, match="only this machine has") as caught:
        Luggage(task="detection", settings={}).take("data", data)
    assert "../" in str(caught.value.fix)


def test_a_class_without_images_is_a_class_there_too(tmp_path) -> None:
    for name in ("cat", "dog", "emu"):
        (tmp_path / "val" / name).mkdir(parents=True)
    (tmp_path / "val" / "cat" / "1.png").write_bytes(b"1")
    request = EvalRequest(models=[], task="classification", data=tmp_path / "val")
    luggage = Luggage(task="classification", settings={})
    luggage.request(request)
    there = arrived(luggage, tmp_path / "far")
    folders = sorted(p.name for p in (Path(str(there.placed)) / "0" / "val").iterdir())
    assert folders == ["cat", "dog", "emu"]


def test_the_code_that_a_setting_names_travels(tmp_path) -> None:
    (tmp_path / "hook.py").write_text("def boxes(): pass\n")
    luggage = Luggage(task="detection")
    told = luggage.take("settings", {"decoder": f"{tmp_path}/hook.py:boxes", "nms": "off"})
    assert told == {"decoder": "trtbench-file:0/hook.py:boxes", "nms": "off"}
    assert sent(luggage) == {"hook.py"}


def test_one_file_under_two_names_is_sent_once(tmp_path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones(3))
    (tmp_path / "again.npz").write_bytes((tmp_path / "in.npz").read_bytes())
    luggage = Luggage()
    for name in ("in.npz", "in.npz", "again.npz"):
        luggage.take("file", tmp_path / name)
    assert len(luggage.bags) == 2
    assert len(parcel_from_request(Request(id="r", bags=luggage.bags)).contents) == 1


def test_a_folder_of_too_many_files_is_refused_before_any_is_read(tmp_path, monkeypatch) -> None:
    (tmp_path / "all").mkdir()
    for number in range(4):
        (tmp_path / "all" / str(number)).write_bytes(b"")
    monkeypatch.setattr(parcels, "MOST_FILES", 3)
    monkeypatch.setattr(parcels, "sha256_of", lambda path: pytest.fail("was read"))
    with pytest.raises(InputError, match="more than 3 files"):
        parcel_from_request(Request(id="r", bags={"0": Bag(folder=str(tmp_path), names=("all",))}))


def test_links_to_folders_are_not_left_out_in_silence(tmp_path) -> None:
    (tmp_path / "val").mkdir()
    (tmp_path / "far").mkdir()
    (tmp_path / "val" / "cat").symlink_to(tmp_path / "far")
    bag = Bag(folder=str(tmp_path), names=("val",))
    with pytest.raises(InputError, match="a link to a folder"):
        parcel_from_request(Request(id="r", bags={"0": bag}))
    (tmp_path / "given").symlink_to(tmp_path / "far")  # what was asked for may be one
    (tmp_path / "far" / "1.png").write_bytes(b"1")
    bag = Bag(folder=str(tmp_path), names=("given",))
    assert len(parcel_from_request(Request(id="r", bags={"0": bag})).parts) == 1


def test_a_repository_of_code_in_a_folder_is_refused_in_words(tmp_path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "hubconf.py").write_text("def net(): pass\n")
    with pytest.raises(InputError, match=r"torch\.hub"):
        Luggage().model(f"torch.hub:{tmp_path}/repo/net")


def test_what_is_named_from_a_folder_above_keeps_its_name(tmp_path, monkeypatch) -> None:
    models.tiny_model(tmp_path / "v1.onnx")
    (tmp_path / "latest.onnx").symlink_to("v1.onnx")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    luggage = Luggage()
    request = CheckRequest(reference="../latest.onnx", candidates=["../v1.onnx"], batch=2)
    asked = luggage.request(request)
    assert sent(luggage) == {"latest.onnx", "v1.onnx"}
    assert asked["batch"] == 2


def test_a_model_of_a_library_and_a_reference_without_files_name_nothing() -> None:
    spec = RunSpec(model=ModelRef(path="torchvision:resnet18", format="torch"), runtime="torch")
    luggage = Luggage()
    assert luggage.spec(spec) == spec
    assert luggage.bags == {}
    assert isinstance(fields_of(CheckRequest)[0].about, Argument)
