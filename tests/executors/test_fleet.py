"""A sweep over other machines: they quantize, build, measure and judge; results come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import runs
from machines import hosts_file

import models
import trtbench
from trtbench.core.errors import UsageError
from trtbench.executors.ssh import ARCHIVE_BYTES, SMALL_BYTES, _groups
from trtbench.store.store import Store
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("machines")]


def model_and_data(folder: Path) -> tuple[Path, Path]:
    rows = np.random.default_rng(0).normal(size=(12, 16)).astype(np.float32)
    np.savez(folder / "val.npz", data=rows, labels=np.zeros(12, dtype=np.int64))
    return models.tiny_model(folder / "tiny.onnx"), folder / "val.npz"


def steps_of(folder: Path, kind: str) -> list[Path]:
    """What a machine made for sweeps."""
    return list(folder.glob(f"store/steps/{kind}-*/made.json"))


def test_a_case_is_quantized_measured_and_judged_where_it_is_sent(tmp_path, sshd, clocked):
    model, data = model_and_data(tmp_path)
    hosts = hosts_file(tmp_path, sshd, clocked, "a", "b")
    found = trtbench.sweep(
        model, precision=["fp32", "int8"], batch=[1], runtime="onnxruntime", data=data,
        axis={"machine": ["a", "b"], "duration": ["50ms"]}, output=tmp_path / "sweep",
        store=tmp_path / "store", executor="ssh", hosts=hosts,
    )  # fmt: skip
    assert [row.reason for row in found.rows] == [None] * 4
    assert len(Store(tmp_path / "store").index.find(kind="run")) == 4
    assert not (tmp_path / "store" / "steps").exists()  # nothing was made here
    for name in ("a", "b"):
        kept = tmp_path / name / "kept"
        assert len(steps_of(kept, "quantize")) == 1
        assert len(steps_of(kept, "eval")) == 2
        assert len(list((kept / "blobs").iterdir())) == 2  # the model and the data, once
        assert list((kept / "work").iterdir()) == []
    again = trtbench.sweep(output=tmp_path / "sweep", store=tmp_path / "store", executor="ssh",
                           hosts=hosts)  # fmt: skip
    assert [row.remark for row in again.rows] == [row.remark for row in found.rows]
    assert "random data" in str(found.rows[2].remark)
    for run in found.runs:
        assert run.extra["scores"]


def test_machines_are_no_axis_where_there_is_but_this_one(tmp_path):
    model, _ = model_and_data(tmp_path)
    with pytest.raises(UsageError, match="axis of machines"):
        trtbench.sweep(
            model, axis={"machine": ["a", "b"]}, output=tmp_path / "sweep", store=tmp_path / "store"
        )


def test_small_files_go_together_and_large_ones_alone(tmp_path):
    sizes = {"a": 10, "b": SMALL_BYTES, "c": SMALL_BYTES - 1, "d": 20}
    sizes |= {f"e{number}": SMALL_BYTES - 1 for number in range(ARCHIVE_BYTES // SMALL_BYTES)}
    for name, size in sizes.items():
        with open(tmp_path / name, "wb") as file:
            file.truncate(size)
    groups = list(_groups({name: tmp_path / name for name in sizes}))
    assert ["b"] in groups
    assert sorted(name for group in groups for name in group) == sorted(sizes)
    for group in groups:
        assert len(group) == 1 or sum(sizes[name] for name in group) <= ARCHIVE_BYTES
    assert len(groups) == 3


def sweep_words(tmp_path, folder, *more: str) -> list[str]:
    model = runs.quick_spec(tmp_path).model.path
    return ["sweep", model, "-r", "clocked", "--axis", "opt.case=0,1,2,3,4,5",
            "--axis", "opt.sleep=0.5", "--batch", "1", "--format", "none", "-o", str(folder),
            "--store", str(tmp_path / "store"), "--json",
            "--executor", "local", "--jobs", "2", *more]  # fmt: skip


def test_an_interrupted_sweep_ends_at_once_and_blames_no_case(tmp_path, clocked):
    words = [word.replace("opt.sleep=0.5", "opt.sleep=3600") for word in
             sweep_words(tmp_path, tmp_path / "sweep")]  # fmt: skip
    started = subprocess.Popen(
        [sys.executable, "-m", "trtbench", *words], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    journal = tmp_path / "sweep" / "journal.jsonl"
    wait_for(lambda: journal.is_file() and journal.read_text().count("begin") == 2)
    wait_for(lambda: (tmp_path / "clocked.begun").is_file())
    started.send_signal(signal.SIGINT)
    said = started.communicate()[1]
    assert started.returncode == 130
    assert f"--resume {tmp_path / 'sweep'} and the same --executor" in said
    assert '"failed"' not in journal.read_text()
    assert Store(tmp_path / "store").index.find() == []


def test_a_killed_sweep_goes_on_and_repeats_nothing_that_was_kept(tmp_path, clocked, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    command = [sys.executable, "-m", "trtbench"]
    started = subprocess.Popen(
        [*command, *sweep_words(tmp_path, tmp_path / "sweep")], stdout=subprocess.DEVNULL
    )
    store = Store(tmp_path / "store")

    def caught_at_work() -> bool:
        """Stop it, and let it go on where it has nothing in hand, as between two cases."""
        if len(store.index.find()) < 2:
            return False
        os.kill(started.pid, signal.SIGSTOP)  # it may hold the index now: nobody asks for that
        if any((tmp_path / "tmp").iterdir()):
            return True
        os.kill(started.pid, signal.SIGCONT)
        return False

    wait_for(caught_at_work)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    kept = {entry.id for entry in store.index.find()}
    assert 2 <= len(kept) < 6
    assert list((tmp_path / "tmp").iterdir()), "what it worked on is still there"
    resume = ["sweep", "--resume", str(tmp_path / "sweep"), "--store", str(tmp_path / "store")]
    resume += ["--format", "none", "--executor", "local", "--jobs", "2"]
    done = subprocess.run([*command, *resume], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {entry.id for entry in store.index.find(kind="run")}
    assert len(found) == 6
    assert kept <= found
    cases = [store.load(each).record.spec.options["case"] for each in found]
    assert sorted(cases) == list("012345")
    assert not list((tmp_path / "tmp").iterdir())
