"""Somebody else was at the folder of locks first; nothing of ours is changed through it."""

import errno
import fcntl
import json
import os
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest

from trtbench.core.errors import UnavailableError
from trtbench.host import locks

DEVICE = "cpu"


def untouched(precious: Path) -> bool:
    file = precious / "thesis.tex"
    return (
        file.read_text() == "years of work"
        and stat.S_IMODE(file.stat().st_mode) == 0o600
        and stat.S_IMODE(precious.stat().st_mode) == 0o700
        and [each.name for each in precious.iterdir()] == ["thesis.tex"]
    )


@pytest.mark.parametrize("kind", ["folder of locks", "symbolic", "hard", "pipe", "folder"])
def test_another_file_under_the_name_of_a_lock_is_refused(tmp_path, precious, monkeypatch, kind):
    folder = tmp_path / "locks"
    planted = folder / "cpu.lock"
    if kind != "folder of locks":
        folder.mkdir()
    {
        "folder of locks": lambda: folder.symlink_to(precious),
        "symbolic": lambda: planted.symlink_to(precious / "thesis.tex"),
        "hard": lambda: os.link(precious / "thesis.tex", planted),
        "pipe": lambda: os.mkfifo(planted),
        "folder": planted.mkdir,
    }[kind]()
    monkeypatch.setenv(locks.FOLDER_VARIABLE, str(folder))
    monkeypatch.delenv("TRTBENCH_CPU_SLOT", raising=False)
    with pytest.raises(UnavailableError, match="no lock"), locks.hold(DEVICE, what="x"):
        pass
    assert untouched(precious)


def test_a_file_that_holds_something_is_locked_and_keeps_it(tmp_path, monkeypatch):
    (tmp_path / "cpu.lock").write_text("notes of the administrator")
    monkeypatch.setenv(locks.FOLDER_VARIABLE, str(tmp_path))
    with locks.hold(DEVICE, what="x"):
        assert (tmp_path / "cpu.lock").read_text() == "notes of the administrator"


def test_a_folder_that_was_there_keeps_its_mode_and_a_new_one_is_for_everyone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").mkdir(mode=0o750)
    for name, mode in (("old", 0o750), ("new", 0o1777)):
        monkeypatch.setenv(locks.FOLDER_VARIABLE, str(tmp_path / name))
        with locks.hold(DEVICE, what="trtbench bench m.onnx"):
            note = json.loads((tmp_path / name / "cpu.lock").read_text())
            assert note["pid"] == os.getpid()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
        assert stat.S_IMODE((tmp_path / name / "cpu.lock").stat().st_mode) == 0o666


def test_a_machine_without_a_common_folder_locks_in_one_of_the_user(tmp_path, monkeypatch):
    monkeypatch.delenv(locks.FOLDER_VARIABLE)
    monkeypatch.setattr(locks, "MACHINE_FOLDER", str(tmp_path / "missing" / "locks"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    with locks.hold(DEVICE, what="x"):
        own = tmp_path / "run" / "trtbench-locks"
        assert (own / "cpu.lock").is_file()
        assert stat.S_IMODE(own.stat().st_mode) == 0o700


def test_a_file_system_without_locks_is_said(tmp_path, monkeypatch):
    problem = OSError(errno.ENOTSUP, "Operation not supported")
    monkeypatch.setenv(locks.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=problem))
    with pytest.raises(UnavailableError) as found, locks.hold(DEVICE, what="x"):
        pass
    assert "no locks" in str(found.value)
    assert locks.FOLDER_VARIABLE in (found.value.fix or "")


def test_a_holder_cannot_steer_the_terminal_of_who_waits(tmp_path, monkeypatch):
    monkeypatch.setenv(locks.FOLDER_VARIABLE, str(tmp_path))
    taken = locks.hold(DEVICE, what="\x1b]0;owned\x07")
    refused = locks.hold(DEVICE, what="x", wait=False)
    with taken, pytest.raises(UnavailableError) as found, refused:
        pass
    assert "owned" in str(found.value)
    assert "\x1b" not in str(found.value)
