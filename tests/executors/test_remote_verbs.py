"""Verbs that other machines carry out: files go there, engines and numbers come back."""

import numpy as np
import onnx
import pytest
from machines import hosts_file

import models
import trtbench
from trtbench.core.codec import value_from_json
from trtbench.core.errors import InputError
from trtbench.core.results import Artefact
from trtbench.executors._transfer import with_files_in, with_local_paths, with_marks
from trtbench.executors.contract import FileGroup, RemoteJob
from trtbench.models.identity import sha256_of

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("machines")]


@pytest.fixture
def away(tmp_path, sshd, clocked) -> dict[str, str]:
    """Arguments that send work to a host behind a real sshd."""
    return {"executor": "ssh", "hosts": str(hosts_file(tmp_path, sshd, clocked, "a"))}


def asking(asked: dict[str, object]) -> RemoteJob:
    return RemoteJob(id="r", verb="check", arguments=asked)


def two_models(folder):
    models.tiny_model(folder / "one.onnx")
    other = onnx.load(models.tiny_model(folder / "two.onnx"))
    weight = other.graph.initializer[0]
    changed = onnx.numpy_helper.to_array(weight) * np.float32(1.01)
    weight.CopyFrom(onnx.numpy_helper.from_array(changed, weight.name))
    onnx.save(other, folder / "two.onnx")
    return folder / "one.onnx", folder / "two.onnx"


@pytest.mark.slow
def test_a_check_elsewhere_says_what_one_here_says(tmp_path, away):
    one, two = two_models(tmp_path)
    asked = {"random": 20, "store": tmp_path / "store"}
    here = trtbench.check(one, two, output=tmp_path / "here", **asked)
    there = trtbench.check(one, two, output=tmp_path / "there", **asked, **away)
    assert there.inputs_sha256 == here.inputs_sha256
    assert there.candidates[0].checks == here.candidates[0].checks
    assert there.reference.model.path == str(one)
    names = {path.name for path in (tmp_path / "here" / "worst").iterdir()}
    assert {path.name for path in (tmp_path / "there" / "worst").iterdir()} == names
    assert all((tmp_path / "there" / "worst").samefile(str(each).rpartition("/")[0])
               for each in there.files)  # fmt: skip
    text = (tmp_path / "there" / "check.json").read_text()
    assert str(tmp_path / "a") not in text  # no name of the other machine
    blobs = list((tmp_path / "a" / "kept" / "blobs").iterdir())
    assert len(blobs) == len({sha256_of(one), sha256_of(two)})


@pytest.mark.slow
def test_an_engine_is_built_elsewhere_and_comes_back_with_its_record(tmp_path, away, tensorrt_rtx):
    one, _ = two_models(tmp_path)
    made = trtbench.build(one, runtime="tensorrt-rtx", output=tmp_path / "e" / "x.engine", **away)
    engine = tmp_path / "e" / "x.engine"
    assert (made.path, made.host) == (str(engine), "a")
    assert sha256_of(engine) == made.sha256
    assert made.spec.model.path == str(one)
    record = value_from_json((tmp_path / "e" / "x.engine.json").read_bytes(), Artefact, where="")
    assert record == made
    assert str(tmp_path / "a") not in (tmp_path / "e" / "x.engine.json").read_text()
    assert (tmp_path / "e" / "x.engine.build.log").is_file()


@pytest.mark.slow
def test_what_a_build_elsewhere_times_comes_back(tmp_path, away, trtexec):
    """The stand-in of trtexec adds to the cache that it is given."""
    path = tmp_path / "hosts.toml"
    path.write_text(path.read_text() + "gpus = 1\n")
    cache, engine = tmp_path / "fleet.cache", tmp_path / "e" / "x.engine"
    asked = {"runtime": "trtexec", "options": {"binary": str(trtexec.binary)}, "output": engine}
    trtbench.build(trtexec.onnx(), **asked, **away)
    assert engine.with_name("x.engine.timing.cache").read_bytes() == b"ptrttactic"
    cache.write_bytes(b"ptrttactic")
    trtbench.build(trtexec.onnx(), timing_cache=cache, **asked, **away)
    assert cache.read_bytes() == b"ptrttactic"  # it goes along, and stays as it is


def test_names_that_lead_out_are_refused_on_both_ways(tmp_path):
    with pytest.raises(InputError, match="leads out"):
        with_files_in(asking({"model": "trtbench-file:../../x"}), tmp_path)
    with pytest.raises(InputError, match="leads out"):
        with_local_paths(["trtbench-output:../x"], files={}, output=tmp_path)
    groups = {"0": FileGroup(folder=str(tmp_path), names=("m",))}
    with pytest.raises(InputError, match="leads out"):
        with_local_paths(["trtbench-file:0/m/../../x"], files=groups, output=tmp_path)


def test_files_are_called_by_their_own_names_on_each_machine(tmp_path):
    """There and back again: what an answer says of files, also in the midst of a command line."""
    there, here = tmp_path / "there", tmp_path / "here"
    groups = {"0": FileGroup(folder=str(here), names=("my net.onnx",)),
            "1": FileGroup(folder=str(here), names=("val",))}  # fmt: skip
    asked = {"model": "trtbench-file:0/my net.onnx", "batch": 3, "more": ["trtbench-file:1/val"],
             "several": "a:trtbench-file:0/my net.onnx,b:trtbench-file:1/val"}  # fmt: skip
    placed = with_files_in(asking(asked), there / "files").arguments
    model, val = str(there / "files" / "0" / "my net.onnx"), str(there / "files" / "1" / "val")
    assert placed == {"model": model, "batch": 3, "more": [val], "several": f"a:{model},b:{val}"}
    answer = {
        "path": str(there / "out" / "e.engine"),
        "made": {"of": placed["model"], "first": str(there / "files" / "1" / "val" / "0.png")},
        "command": f"trtexec --onnx='{placed['model']}' --data {placed['more'][0]} -o x",
        "left": f"see {there}/out/a.log and {there}/files/2/unknown.bin",
        "score": 0.5, "none": None, "pair": ("a", 1),
    }  # fmt: skip
    told = with_marks(answer, files=there / "files", output=there / "out")
    assert str(there) not in str(told)
    own = with_local_paths(told, files=groups, output=here / "made")
    assert own == {
        "path": str(here / "made" / "e.engine"),
        "made": {"of": str(here / "my net.onnx"), "first": str(here / "val" / "0.png")},
        "command": f"trtexec --onnx='{here / 'my net.onnx'}' --data {here / 'val'} -o x",
        "left": f"see {here}/made/a.log and 2/unknown.bin",
        "score": 0.5, "none": None, "pair": ["a", 1],
    }  # fmt: skip
