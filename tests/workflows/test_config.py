"""Settings: where they are found, which one wins, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtbench.core.errors import UsageError
from trtbench.requests import settings as config
from trtbench.requests.settings import load_config


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("TRTBENCH_STORE", raising=False)
    (tmp_path / "config" / "trtbench").mkdir(parents=True)
    (tmp_path / "project" / "deep" / "deeper").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "deep" / "deeper")
    return tmp_path


def user(home: Path, text: str) -> Path:
    path = home / "config" / "trtbench" / "config.toml"
    path.write_text(text)
    return path


def project(home: Path, text: str) -> Path:
    path = home / "project" / "trtbench.toml"
    path.write_text(text)
    return path


def test_flag_beats_environment_beats_project_beats_user_beats_default(home, monkeypatch):
    mine = user(home, "store = '/user'")
    assert (load_config().store, load_config().origins["store"]) == ("/user", str(mine))
    theirs = project(home, "store = '/project'")
    assert (load_config().store, load_config().origins["store"]) == ("/project", str(theirs))
    monkeypatch.setenv("TRTBENCH_STORE", "/environment")
    found = load_config()
    assert (found.store, found.origins["store"]) == ("/environment", "environment TRTBENCH_STORE")
    found = load_config(store="/flag")
    assert (found.store, found.origins["store"]) == ("/flag", "flag")


def test_files_are_merged_setting_by_setting_and_each_keeps_its_origin(home):
    mine = user(
        home,
        """
        [defaults]
        duration = "1s"
        threads = 2
        [runtimes.onnxruntime]
        python = "/user/python"
        [runtimes.onnxruntime.options]
        spinning = "off"
        """,
    )
    theirs = project(
        home,
        """
        [defaults]
        duration = "5s"
        [runtimes.onnxruntime.options]
        "session.dotted" = "x"
        """,
    )
    found = load_config()
    assert found.defaults == {"duration": "5s", "threads": 2}
    assert found.python_for("onnxruntime") == "/user/python"
    assert found.options_for("onnxruntime") == {"spinning": "off", "session.dotted": "x"}
    assert found.python_for("torch") is None
    assert found.origins["defaults.duration"] == str(theirs)
    assert found.origins["defaults.threads"] == str(mine)
    assert found.origins["runtimes.onnxruntime.options.session.dotted"] == str(theirs)
    assert set(found.origins) == set(found.settings())


def test_the_nearest_project_file_upward_is_the_one(home):
    project(home, "store = '/far'")
    (home / "project" / "deep" / "trtbench.toml").write_text("store = '/near'")
    assert load_config().store == "/near"
    assert load_config(folder=home / "project").store == "/far"


def test_paths_are_meant_from_the_file_that_says_them(home, monkeypatch):
    project(home, "store = 'runs-here'\n[runtimes.torch]\npython = 'envs/torch/bin/python'")
    found = load_config()
    assert found.store == str(home / "project" / "runs-here")
    assert found.python_for("torch") == str(home / "project" / "envs/torch/bin/python")
    project(home, "store = '~/runs'\n[runtimes.torch]\npython = 'python3.12'")
    monkeypatch.setenv("HOME", "/home/someone")
    found = load_config()
    assert found.store == "/home/someone/runs"
    assert found.python_for("torch") == "python3.12", "a bare name is looked up on the path"


@pytest.mark.parametrize(
    ("text", "reason", "fix"),
    [
        ("stor = 'x'", "unknown field `stor`", "did you mean store?"),
        ("[defaults]\ndurations = '3s'", "unknown field `durations`", "did you mean duration?"),
        ("[runtimes.torch]\npyton = 'x'", "unknown field `pyton`", "did you mean python?"),
        ("[defaults]\nthreads = 'two'", "Expected `int", "defaults.threads = 4"),
        ("[runtimes]\ntorch = 'x'", "Expected `object`, got `str`", "[runtimes.NAME]"),
        ("store = 3", "Expected `str", 'store = "..."'),
        ("xyzzy = 3", "unknown field `xyzzy`", "one of store, runs, machine"),
        ("store = ", "Invalid value", "TOML"),
        ("[defaults\n", "line 1", "TOML"),
    ],
)
def test_a_wrong_file_is_named_with_the_reason(home, text, reason, fix):
    path = project(home, text)
    with pytest.raises(UsageError) as caught:
        load_config()
    assert str(path) in caught.value.message
    assert reason in caught.value.facts["reason"]
    if fix:
        assert fix in caught.value.fix


def test_a_file_that_is_no_text(home):
    project(home, "").write_bytes(b"\xff\xfe\x00store")
    with pytest.raises(UsageError, match="cannot be read"):
        load_config()


def test_a_home_of_nobody_stays_as_it_is_written(home):
    """Python's own way raises an exception that is not ours."""
    project(home, "[runtimes.torch]\npython = '~nobody-is-called-so/x'")
    assert str(load_config().python_for("torch")).endswith("/~nobody-is-called-so/x")


def test_a_user_without_a_home(home, monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr(config.Path, "home", no_home)
    with pytest.raises(UsageError, match="no home folder") as caught:
        load_config()
    assert "TRTBENCH_STORE" in caught.value.fix
    assert load_config(store="/x").store == "/x"
