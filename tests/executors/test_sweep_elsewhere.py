"""A sweep through an executor: several cases at a time, and it goes on after kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import runs

from trtbench.cli import run as trtbench
from trtbench.store.store import Store
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("machines")]


def sweep_words(tmp_path, folder, *more: str) -> list[str]:
    model = runs.quick_spec(tmp_path).model.path
    return ["sweep", model, "-r", "clocked", "--axis", "opt.case=0,1,2,3,4,5",
            "--axis", "opt.sleep=0.5", "--batch", "1", "--format", "none", "-o", str(folder),
            "--store", str(tmp_path / "store"), "--json",
            "--executor", "local", "--beside", "2", *more]  # fmt: skip


def test_cases_are_measured_beside_each_other_and_all_are_there(tmp_path, clocked, capsys):
    assert trtbench(sweep_words(tmp_path, tmp_path / "sweep")) == 0
    found = [entry for entry in Store(tmp_path / "store").index.find() if entry.kind == "run"]
    assert len(found) == 6
    lines = (tmp_path / "clocked.log").read_text().splitlines()
    assert sorted(json.loads(line)["case"] for line in lines) == list("012345")


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
    assert f"--resume {tmp_path / 'sweep'} --executor local --beside 2" in said
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
    resume += ["--format", "none", "--executor", "local", "--beside", "2"]
    done = subprocess.run([*command, *resume], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {entry.id for entry in store.index.find(kind="run")}
    assert len(found) == 6
    assert kept <= found
    cases = [store.load(each).record.spec.options["case"] for each in found]
    assert sorted(cases) == list("012345")
    assert not list((tmp_path / "tmp").iterdir())
