"""What a host does for whoever reached it by ssh, and a node for Ray, without either of them."""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import runs

from trtbench.errors import StoreError
from trtbench.executors._folders import blob, unpack
from trtbench.executors._hosts import Host
from trtbench.executors._parcel import bytes_from_parcel, parcel_from_request
from trtbench.executors._ray_task import _fetch, on_node
from trtbench.executors._shell import Shell
from trtbench.executors._ssh_services import main
from trtbench.workflows.measure.remote import request_from_spec
from trtbench.workflows.request.conduct import Conduct


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
        assert main(list(words)) == 0
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


def test_contents_are_kept_by_their_hashes_and_asked_for_but_once(host):
    one, two, three = (digest(data) for data in (b"one", b"two", b"three"))
    asked = "\n".join([one, two, three]).encode()
    assert host("missing", given=asked).decode().split() == [one, two, three]
    host("keep", one, given=b"one")
    host("keep-all", given=archive((two, b"two"), (three, b"three")))
    assert host("missing", given=asked) == b""
    assert blob(Path.cwd(), two).read_bytes() == b"two"


@pytest.mark.parametrize(
    ("member", "match"), [(("0" * 64, b"two"), "damaged"), (("folder", None), "only files")]
)
def test_what_is_not_what_it_should_be_is_not_kept(host, member, match):
    with pytest.raises(StoreError, match=match):
        host("keep-all", given=archive(member))
    assert not [path for path in Path.cwd().rglob("*") if path.is_file()]


def test_a_request_is_placed_packed_and_removed(host, tmp_path):
    request = request_from_spec(runs.quick_spec(tmp_path), "r1", Conduct())
    parcel = parcel_from_request(request)
    for sha256, path in parcel.contents.items():
        host("keep", sha256, given=path.read_bytes())
    host("place", "work/r1", given=bytes_from_parcel(parcel))
    assert Path("work/r1/request.json").is_file()
    assert Path("work/r1/files/0/tiny.onnx").is_file()
    Path("work/r1/error.json").write_text("{}")
    (tmp_path / "left.tar").write_bytes(host("pack", "work/r1"))
    unpack(tmp_path / "left.tar", tmp_path / "left")
    assert [path.name for path in (tmp_path / "left").iterdir()] == ["error.json"]
    host("remove", "work/r1")
    assert list(Path("work").iterdir()) == []
    assert main(["dance"]) == 2


@pytest.mark.process
def test_a_node_fetches_what_it_lacks_and_measures(tmp_path, clocked, monkeypatch):
    """Ray's own parts, handing over pieces of files and variables, are all that stands in."""
    context = types.SimpleNamespace(runtime_env={})
    ray = types.SimpleNamespace(get=lambda piece: piece, get_runtime_context=lambda: context)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("TRTBENCH_CACHE", str(tmp_path / "cache"))
    spec = runs.quick_spec(tmp_path, runtime="clocked")
    parcel = parcel_from_request(request_from_spec(spec, "r1", Conduct()))
    contents = {sha256: [path.read_bytes()] for sha256, path in parcel.contents.items()}
    answer = on_node(bytes_from_parcel(parcel), contents, 0)
    assert (answer.fetched, answer.error) == (1, None)
    (tmp_path / "run.tar").write_bytes(answer.run)
    unpack(tmp_path / "run.tar", tmp_path / "run")
    assert (tmp_path / "run" / "run.json").is_file()
    refused = runs.quick_spec(tmp_path, runtime="clocked", options={"do": "refuse"})
    parcel = parcel_from_request(request_from_spec(refused, "r2", Conduct()))
    told = on_node(bytes_from_parcel(parcel), contents, 0)
    assert (told.run, told.fetched) == (None, 0)  # it has the model by now
    assert "refused" in told.error.message


def test_a_node_that_cannot_keep_what_it_is_sent_says_so(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRTBENCH_CACHE", str(tmp_path / "file" / "cache"))
    spec = runs.quick_spec(tmp_path)
    parcel = parcel_from_request(request_from_spec(spec, "r1", Conduct()))
    told = on_node(bytes_from_parcel(parcel), {}, 0)
    assert (told.run, told.fetched) == (None, 0)
    assert told.error.message == "the cache of the node cannot be written"
    assert told.error.facts == {"reason": "Not a directory"}


def test_two_tasks_that_want_the_same_fetch_it_once(tmp_path, monkeypatch):
    fetched, begun = [], threading.Event()

    def get(piece: bytes) -> bytes:
        fetched.append(piece)
        begun.wait()
        return piece

    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(get=get))
    sha256 = digest(b"model")
    with ThreadPoolExecutor(2) as pool:
        one, two = (pool.submit(_fetch, tmp_path, sha256, [b"mo", b"del"]) for _ in range(2))
        begun.set()
    assert sorted([one.result(), two.result()]) == [False, True]
    assert fetched == [b"mo", b"del"]
    assert _fetch(tmp_path, sha256, []) is False


@pytest.mark.parametrize(
    ("status", "said", "fix"),
    [
        (255, "Connection refused", "ssh -T"),
        (127, "env: 'py': No such file or directory", "set python of lab"),
        (1, "OSError: [Errno 28] No space left on device", "make room"),
        (1, "ValueError: odd", None),
    ],
)
def test_a_host_that_cannot_be_used_is_said_with_what_helps(status, said, fix, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: name)
    shell = Shell(Host(name="lab", address="lab"))
    problem = shell._unreachable(('  File "x.py", line 3', said), status=status)
    assert problem.facts["reason"].endswith(said)
    assert ("File" in problem.facts["reason"]) == (status == 255)
    assert (problem.fix is None) if fix is None else problem.fix.startswith(fix)
