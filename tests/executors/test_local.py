"""Devices of this machine, and contents that jobs were sent."""

import errno
import hashlib
import multiprocessing
import shutil
import time
from pathlib import Path

import pytest
import runs

from trtbench.cli import run as trtbench
from trtbench.core.errors import StoreError, UnavailableError, UsageError
from trtbench.core.run import Gpu
from trtbench.executors._transfer import blob_path, link_blob, store_blob
from trtbench.executors.contract import Executor, Needs
from trtbench.host import nvml as gpu_names
from trtbench.host.locks import hold
from trtbench.measure.bench import run_bench
from trtbench.requests.execution import Execution, needs_from_request
from trtbench.requests.fields import ExecutorFields
from trtbench.store.store import Store
from waiting import wait_for

GPUS = (
    Gpu(name="NVIDIA H100", uuid="GPU-aaaa", memory_bytes=80 << 30),
    Gpu(name="NVIDIA L4", uuid="GPU-bbbb", memory_bytes=24 << 30),
)


DIGEST = hashlib.sha256(b"model").hexdigest()


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpu_names, "gpus", lambda: GPUS)


def hold_for_long(device: str, held: Path) -> None:
    with hold(device, what="another"):
        held.touch()
        time.sleep(3600)


@pytest.mark.process
def test_a_gpu_is_held_by_its_uuid_whatever_it_is_called(tmp_path, monkeypatch, two_gpus):
    monkeypatch.setenv("TRTBENCH_LOCKS", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    other = multiprocessing.get_context("fork").Process(
        target=hold_for_long, args=("cuda:0", tmp_path / "held"), daemon=True
    )
    other.start()
    wait_for((tmp_path / "held").is_file)
    assert (tmp_path / "GPU-bbbb.lock").is_file()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with hold("cuda:0", what="the first", wait=False):
        pass
    with (
        pytest.raises(UnavailableError, match="being measured"),
        hold("cuda:1", what="the second", wait=False),
    ):
        pass
    other.kill()
    other.join()


@pytest.mark.parametrize(
    ("visible", "device", "uuid"),
    [
        (None, "cuda:1", "GPU-bbbb"), ("1,0", "cuda:0", "GPU-bbbb"), ("GPU-bb", "cuda", "GPU-bbbb"),
        ("MIG-1234", "cuda:0", "MIG-1234"), ("0", "cuda:1", None), ("", "cuda:0", None),
        (None, "cpu", None),
    ],
)  # fmt: skip
def test_the_uuid_of_a_device(two_gpus, monkeypatch, visible, device, uuid):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_names.gpu_uuid(device) == uuid


def test_contents_are_copied_where_the_disk_has_no_links(tmp_path, monkeypatch):
    """As between two file systems, where a second name for the same bytes cannot be made."""
    store_blob(tmp_path, DIGEST, [b"model"])

    def link(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr("trtbench.executors._transfer.os.link", link)
    target = tmp_path / "job" / "net.onnx"
    link_blob(tmp_path, DIGEST, target)
    assert target.read_bytes() == b"model"
    assert target.stat().st_ino != blob_path(tmp_path, DIGEST).stat().st_ino


def test_a_second_run_leaves_the_files_of_the_first_alone(tmp_path):
    """Whoever measures watches the times of its files, which links and their ends would change."""
    store_blob(tmp_path, DIGEST, [b"model"])
    first, second = (tmp_path / name / "net.onnx" for name in ("one", "other"))
    link_blob(tmp_path, DIGEST, first)
    assert first.stat().st_ino == blob_path(tmp_path, DIGEST).stat().st_ino
    before = first.stat()
    link_blob(tmp_path, DIGEST, second)
    assert second.read_bytes() == b"model"
    shutil.rmtree(second.parent)
    after = first.stat()
    assert (after.st_ctime_ns, after.st_nlink) == (before.st_ctime_ns, before.st_nlink)


@pytest.mark.process
def test_a_process_that_cannot_be_started_is_said(tmp_path, monkeypatch):
    """The kernel takes no variable as long as this one."""
    monkeypatch.setenv("TRTBENCH_TEST_STARTS", "all")
    monkeypatch.setenv("MUCH", "x" * 200_000)
    store = Store(tmp_path / "store")
    with pytest.raises(UnavailableError, match="no process can be started") as caught:
        run_bench(runs.quick_spec(tmp_path), store=store, execution=Execution())
    assert "too long" in caught.value.facts["reason"]
    assert store.index.find() == []


def test_flags(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    needs = needs_from_request(
        ExecutorFields(executor="ray", needs=("gpu=H100", "memory=16GiB", "camera=2"))
    )
    assert needs == Needs(gpu_type="H100", resources={"memory": 16 << 30, "camera": 2.0})
    for bad in ("gpu", "camera=many", "=1", "camera=-1", "camera=0", "camera=nan", "camera=inf"):
        with pytest.raises(UsageError):
            needs_from_request(ExecutorFields(executor="ray", needs=(bad,)))
    model = str(runs.quick_spec(tmp_path).model.path)
    assert trtbench(["bench", model, "--batch", "1", "--executor", "rya"]) == 2
    assert "did you mean ray" in capsys.readouterr().err
    assert trtbench(["bench", model, "--batch", "1", "--hosts", "x.toml"]) == 2
    assert trtbench(["bench", model, "--batch", "1", "--executor", "ssh"]) == 2
    assert "--hosts" in capsys.readouterr().err


def test_another_run_that_comes_back_takes_no_place(tmp_path):
    """A machine answers with the record of a run that is in the store already."""
    store = Store(tmp_path / "store")
    first = run_bench(runs.quick_spec(tmp_path), store=store)

    class Liar(Executor):
        def run(self, job, *, folder, notify):
            shutil.copytree(first.path, folder, dirs_exist_ok=True)

    with pytest.raises(StoreError, match="another run"):
        run_bench(runs.quick_spec(tmp_path), store=store, execution=Execution(executor=Liar()))
    (entry,) = store.index.find()
    assert (entry.id, store.path(entry)) == (first.id, first.path)
    assert [each.name for each in store.runs.iterdir()] == [first.id]
