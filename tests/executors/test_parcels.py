"""What travels with a request, and what comes back of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import runs

import models
from trtbench import errors
from trtbench.domain.codec import json_from_value
from trtbench.domain.spec import InputSpec
from trtbench.errors import InputError, JobError, TrtbenchError
from trtbench.executors import Request, Told
from trtbench.executors._folders import keep_blob
from trtbench.executors._node import HERE, result_of
from trtbench.executors._parcel import (
    Parcel,
    bytes_from_parcel,
    parcel_from_bytes,
    parcel_from_request,
    place_parcel,
)
from trtbench.executors._request import Partner
from trtbench.models.identity import model_ref
from trtbench.workflows.measure.remote import request_from_spec
from trtbench.workflows.request.conduct import Conduct


def request(folder: Path, **changes: object) -> Request:
    spec = runs.quick_spec(folder).having(**changes)
    return request_from_spec(spec, "r1", Conduct())


def send(parcel: Parcel, cache: Path, folder: Path) -> Request:
    """Go the way a parcel goes: contents into the cache there, the request by itself."""
    for sha256, path in parcel.contents.items():
        keep_blob(cache, sha256, [path.read_bytes()])
    return place_parcel(parcel_from_bytes(bytes_from_parcel(parcel)), cache=cache, folder=folder)


def names(parcel: Parcel) -> list[str]:
    return sorted(part.name for part in parcel.parts)


def test_a_model_and_its_inputs_arrive(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones((1, 16), np.float32))
    asked = request(tmp_path, inputs=InputSpec(source=str(tmp_path / "in.npz")))
    parcel = parcel_from_request(asked)
    assert names(parcel) == ["files/0/in.npz", "files/1/tiny.onnx"]
    arrived = send(parcel, tmp_path / "cache", tmp_path / "there")
    model = Path(arrived.spec.model.path)
    assert model.read_bytes() == (tmp_path / "tiny.onnx").read_bytes()
    assert model.is_relative_to(tmp_path / "there")
    assert arrived.spec.inputs.source == str(tmp_path / "there" / "files" / "0" / "in.npz")
    assert arrived.id == "r1"


def test_two_sides_with_the_same_content_send_it_once(tmp_path: Path) -> None:
    asked = request(tmp_path)
    partner = Partner(
        spec=asked.spec, launches=3, most_launches=3, pairs=10, mode="launches", margin=0.01
    )
    asked = asked.having(partner=partner)
    parcel = parcel_from_request(asked)
    assert names(parcel) == ["files/0/tiny.onnx"]
    arrived = send(parcel, tmp_path / "cache", tmp_path / "there")
    assert arrived.partner is not None
    place = tmp_path / "there" / "files" / "0" / "tiny.onnx"
    assert Path(arrived.partner.spec.model.path) == place


def test_weights_beside_a_model_travel_and_those_elsewhere_do_not(tmp_path: Path) -> None:
    path = models.external_data_model(tmp_path / "big.onnx")
    weights = [each.name for each in tmp_path.iterdir() if each != path]
    asked = request(tmp_path, model=model_ref(path))
    assert names(parcel_from_request(asked)) == sorted(
        f"files/0/{name}" for name in ("big.onnx", *weights)
    )
    bag = asked.bags["0"]
    for name, words in (("../secret", "leads out"), ("gone.bin", "cannot be sent")):
        with pytest.raises(InputError, match=words):
            parcel_from_request(asked.having(bags={"0": bag.having(names=(*bag.names, name))}))


def test_a_folder_of_inputs_travels_whole_but_for_links_that_lead_out(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    (folder / "cats").mkdir(parents=True)
    (folder / "cats" / "1.png").write_bytes(b"1")
    (folder / "2.png").write_bytes(b"2")
    asked = request(tmp_path, inputs=InputSpec(source=str(folder)))
    parcel = parcel_from_request(asked)
    assert names(parcel)[:2] == ["files/0/images/2.png", "files/0/images/cats/1.png"]
    arrived = send(parcel, tmp_path / "cache", tmp_path / "there")
    assert (Path(str(arrived.spec.inputs.source)) / "cats" / "1.png").read_bytes() == b"1"
    (tmp_path / "secret").write_bytes(b"s")
    (folder / "link.png").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="leads out"):
        parcel_from_request(asked)


def test_a_parcel_that_names_places_outside_is_refused(tmp_path: Path) -> None:
    data = json.loads(bytes_from_parcel(parcel_from_request(request(tmp_path))))
    data["parts"][0]["name"] = "../../evil"
    parcel = parcel_from_bytes(json.dumps(data).encode())
    with pytest.raises(TrtbenchError):
        send(parcel, tmp_path / "cache", tmp_path / "there" / "deep")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("kind", ["InputError", "UsageError", "UnavailableError", "bug"])
def test_an_error_in_words_is_the_same_error_here(tmp_path: Path, kind: str) -> None:
    told = Told(kind=kind, message="it is bitter", facts={"taste": "bitter"}, fix="sugar")
    (tmp_path / "error.json").write_bytes(json_from_value(told))
    expected = getattr(errors, kind, JobError)
    with pytest.raises(expected, match="it is bitter") as caught:
        result_of(tmp_path, where="the board", how="status 3")
    assert caught.value.facts == {"taste": "bitter", "where": "the board"}
    assert caught.value.fix == "sugar"


def test_a_disk_that_is_full_elsewhere_is_no_matter_of_the_store_here(tmp_path: Path) -> None:
    """Without its store no sweep goes on; without one of its machines it does."""
    told = Told(kind="StoreError", message="the disk is full", fix="--store")
    (tmp_path / "error.json").write_bytes(json_from_value(told))
    with pytest.raises(errors.UnavailableError, match="the disk is full") as caught:
        result_of(tmp_path, where="the board", how="status 3")
    assert caught.value.fix == "make room there, or leave this machine out"
    with pytest.raises(errors.StoreError, match="the disk is full"):
        result_of(tmp_path, where=HERE, how="status 3")


def test_a_node_that_leaves_nothing_shows_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "node.log").write_text("one\ntwo\n")
    with pytest.raises(JobError, match="not carried out") as caught:
        result_of(tmp_path, where="the board", how="SIGKILL")
    assert caught.value.facts == {"where": "the board", "how it ended": "SIGKILL"}
    assert caught.value.log_tail == ("one", "two")


def test_of_two_sides_both_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "run" / "0").mkdir(parents=True)
    (tmp_path / "run" / "0" / "run.json").write_text("{}")
    with pytest.raises(JobError):
        result_of(tmp_path, where="x", how="y")
    (tmp_path / "run" / "1").mkdir()
    (tmp_path / "run" / "1" / "run.json").write_text("{}")
    assert result_of(tmp_path, where="x", how="y") == tmp_path / "run"


FIRST = """
import sys, threading
from typing import Optional
import msgspec
from trtbench.domain.codec import value_from_json

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
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
