"""A trtbench.toml of another user in a parent folder; nothing in it is run or used."""

import os
import stat
from pathlib import Path

import pytest
from commands import trtbench

from trtbench.core.errors import UsageError
from trtbench.requests.settings import load_config, trust_settings, trusted_settings

STRANGER = 12345


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a stranger above the one we work in, with an interpreter that leaves a trace."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("TRTBENCH_STORE", raising=False)
    monkeypatch.delenv("SUDO_UID", raising=False)
    shared = tmp_path / "top" / "shared"
    (shared / "mine").mkdir(parents=True)
    python = shared / "python"
    python.write_text(f"#!/bin/sh\ntouch {tmp_path / 'owned'}\n")
    python.chmod(0o755)
    (shared / "trtbench.toml").write_text(f"[runtimes.onnxruntime]\npython = '{python}'\n")
    monkeypatch.chdir(shared / "mine")
    return shared


def make_strange(trap: Path, how: str) -> None:
    places = {"writable": trap / "trtbench.toml", "folder": trap, "above": trap.parent}
    if how in places:
        places[how].chmod(0o777)
    elif os.getuid() != 0:
        pytest.skip("only root can give files away")
    elif how.startswith("group"):
        path = trap if how == "group's folder" else trap / "trtbench.toml"
        os.chown(path, 0, STRANGER)
        path.chmod(0o775)
    else:
        os.chown(trap / "trtbench.toml", STRANGER, STRANGER)
        (trap / "trtbench.toml").chmod(0o664 if how == "owner and group" else 0o644)


HOW = ("owner", "owner and group", "writable", "folder", "above", "group", "group's folder")


@pytest.mark.parametrize("how", HOW)
def test_settings_of_others_are_refused_until_they_are_trusted(trap: Path, how: str) -> None:
    make_strange(trap, how)
    with pytest.raises(UsageError, match="are not trusted") as found:
        load_config()
    assert found.value.fix.startswith(f"trtbench doctor --trust {trap / 'trtbench.toml'}")
    assert trust_settings(trap) == trap / "trtbench.toml"
    assert load_config().python_for("onnxruntime") == str(trap / "python")
    assert stat.S_IMODE((trap.parents[1] / "config" / "trtbench").stat().st_mode) == 0o700


def test_doctor_alone_does_not_run_the_interpreter_of_a_stranger(trap: Path) -> None:
    make_strange(trap, "writable")
    done = trtbench("doctor")
    assert "are not trusted" in done.stdout
    assert "trtbench doctor --trust" in done.stdout
    assert not (trap.parents[1] / "owned").exists()


def test_doctor_says_what_a_project_sets_before_it_starts_any_of_it(trap: Path) -> None:
    first, again = trtbench("doctor"), trtbench("doctor")
    assert f"sets runtimes.onnxruntime.python to {trap / 'python'}" in first.stderr
    assert "shown once" not in again.stderr


def test_trusting_is_listed_and_taken_back(trap: Path) -> None:
    make_strange(trap, "writable")
    assert trtbench("doctor", "--trust", str(trap)).returncode == 0
    assert trtbench("doctor", "--trusted").stdout.strip() == str(trap / "trtbench.toml")
    assert trtbench("runs").returncode == 0
    assert "no longer" in trtbench("doctor", "--distrust", str(trap)).stdout
    assert "are not trusted" in trtbench("runs", status=2).stderr


def test_a_list_of_trust_that_everyone_can_write_counts_for_nothing(trap: Path) -> None:
    make_strange(trap, "writable")
    trust_settings(trap)
    (trap.parents[1] / "config" / "trtbench" / "trusted.json").chmod(0o666)
    assert trusted_settings() == ()
    with pytest.raises(UsageError, match="are not trusted"):
        load_config()


def test_what_a_project_steers_is_shown_the_first_time_and_when_it_changes(trap: Path) -> None:
    told = f"{trap / 'trtbench.toml'} sets runtimes.onnxruntime.python to {trap / 'python'}"
    assert load_config().unseen == (told,)
    assert load_config().unseen == ()
    (trap / "trtbench.toml").write_text("store = 'postgresql://me:hunter2@db/x'\n")
    (unseen,) = load_config().unseen
    assert "store to postgresql://me:***@db/x" in unseen
    assert load_config().unseen == ()


def test_a_project_shows_the_libraries_it_loads_and_trusts_nothing_for_the_user(trap: Path) -> None:
    """A folder that was copied whole belongs to the user, whoever wrote it."""
    file = trap / "trtbench.toml"
    file.write_text(
        "[runtimes.tensorrt.options]\nplugins = 'evil.so'\napi_key = 'hunter2'\n"
        "[runtimes.onnxruntime.options]\n'qnn.backend_path' = 'e.so'\nspinning = 'off'\n"
    )
    shown = ("tensorrt.options.plugins to evil", "onnxruntime.options.qnn.backend_path to e")
    config = load_config()
    assert config.unseen == tuple(f"{file} sets runtimes.{each}.so" for each in shown)
    assert "hunter2" not in str(config.settings())
    file.write_text("[runtimes.torch.options]\ntrust = 'on'\n")
    with pytest.raises(UsageError, match="only you can"):
        load_config()


def test_a_pipe_for_settings_is_refused_and_not_waited_for(trap: Path) -> None:
    (trap / "trtbench.toml").unlink()
    os.mkfifo(trap / "trtbench.toml")
    assert load_config(store="x").python_for("onnxruntime") is None
