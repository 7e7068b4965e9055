"""Settings: where they are found and which one wins; what executes and builds by default."""

from pathlib import Path
from typing import Any

import pytest

from command import Say
from models import tiny_model
from trtbench.convert.build import default_builder, refuse_without_builder
from trtbench.convert.builders import BUILDERS
from trtbench.core.errors import UnavailableError, UsageError
from trtbench.core.plugins import Registry
from trtbench.core.spec import ModelRef
from trtbench.requests.run_spec import default_runtime
from trtbench.requests.settings import Config, RuntimeSettings, load_config
from trtbench.runtimes import RUNTIMES


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
        ("[runtimes.torch]\npyton = 'x'", "unknown field `pyton`", "did you mean python?"),
        ("[defaults]\nthreads = 'two'", "Expected `int", "correct defaults.threads"),
        ("[runtimes]\ntorch = 'x'", "Expected `object`, got `str`", "correct runtimes"),
        ("store = 3", "Expected `str", "correct store"),
        ("xyzzy = 3", "unknown field `xyzzy`", "one of store, runs, machine"),
        ("[defaults\n", "line 1", "TOML"),
        ("[defaults]\nduration = 5", "defaults.duration: the duration '5' has no unit", "500ms"),
        ("[defaults]\nruntime = 'onnx'", "defaults.runtime: there is no runtime", "onnxruntime"),
        ("[runtimes.pytorch]\npython = 'x'", "runtimes.pytorch", "did you mean torch?"),
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


def test_a_home_of_nobody_stays_as_it_is_written(home):
    """Python's own way raises an exception that is not ours."""
    project(home, "[runtimes.torch]\npython = '~nobody-is-called-so/x'")
    assert str(load_config().python_for("torch")).endswith("/~nobody-is-called-so/x")


def engine(path: Path, head: bytes = b"ftrt") -> ModelRef:
    path.write_bytes(head + bytes(60))
    return ModelRef(path=str(path), format="engine")


def here(monkeypatch: pytest.MonkeyPatch, registry: Registry[Any], **problems: str | None) -> None:
    """Let plug-ins be there or not: ``None`` is no problem."""
    for name, problem in problems.items():
        monkeypatch.setattr(registry.load(name), "available", lambda told=problem: told)


PYTHON_OF_TENSORRT = {"tensorrt": RuntimeSettings(python="/opt/trt/python")}


@pytest.mark.parametrize(
    ("tensorrt", "trtexec", "runtimes", "with_outputs", "chosen"),
    [
        (None, None, {}, False, "tensorrt"),
        ("not installed", None, {}, False, "trtexec"),
        ("not installed", None, {}, True, "tensorrt"),
        ("not installed", None, PYTHON_OF_TENSORRT, False, "tensorrt"),
        ("not installed", "not found", {}, False, "tensorrt"),
    ],
)
def test_an_engine_goes_to_what_is_there_and_hands_out_what_is_asked_for(
    tensorrt: str | None,
    trtexec: str | None,
    runtimes: dict[str, RuntimeSettings],
    with_outputs: bool,
    chosen: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here(monkeypatch, RUNTIMES, tensorrt=tensorrt, trtexec=trtexec)
    found, config = engine(tmp_path / "a.engine"), Config(store="x", runtimes=runtimes)
    assert default_runtime(found, config, with_outputs=with_outputs) == chosen


def test_an_engine_of_rtx_goes_to_rtx(tmp_path: Path) -> None:
    assert default_runtime(engine(tmp_path / "a", b"vtrt"), Config(store="x")) == "tensorrt-rtx"


@pytest.mark.parametrize(
    ("tensorrt", "trtexec", "options", "chosen"),
    [
        (None, None, {}, "trtexec"),
        (None, "not found", {}, "tensorrt"),
        (None, "not found", {"binary": "/opt/trtexec"}, "trtexec"),
        ("not installed", "not found", {}, "trtexec"),
    ],
)
def test_an_engine_is_built_by_what_is_there(
    tensorrt: str | None,
    trtexec: str | None,
    options: dict[str, str],
    chosen: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here(monkeypatch, BUILDERS, tensorrt=tensorrt, trtexec=trtexec)
    here(monkeypatch, BUILDERS, **{"tensorrt-rtx": "not installed"})
    assert default_builder(Config(store="x"), options) == chosen


def test_without_any_builder_a_build_says_what_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    here(monkeypatch, BUILDERS, tensorrt="not installed", trtexec="not found")
    here(monkeypatch, BUILDERS, **{"tensorrt-rtx": "not installed"})
    with pytest.raises(UnavailableError, match="no builder of engines") as caught:
        refuse_without_builder(Config(store="x"), {})
    assert "trtbench[rtx]" in str(caught.value.fix)
    assert {"trtexec", "tensorrt", "tensorrt-rtx"} <= set(caught.value.facts)
    model = tiny_model(tmp_path / "tiny.onnx", batch=1)
    assert "trtbench[rtx]" in say("build", model, status=4).err
