"""What executes an engine, and what builds one, when nobody says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models import tiny_model
from trtbench.cli import run
from trtbench.convert.build import default_builder, refuse_without_builder
from trtbench.convert.builders import BUILDERS
from trtbench.core.errors import UnavailableError
from trtbench.core.plugins import Registry
from trtbench.core.spec import ModelRef
from trtbench.requests.run_spec import default_runtime
from trtbench.requests.settings import Config, RuntimeSettings
from trtbench.runtimes import RUNTIMES


def engine(path: Path, head: bytes = b"ftrt") -> ModelRef:
    path.write_bytes(head + bytes(60))
    return ModelRef(path=str(path), format="engine")


def here(monkeypatch: pytest.MonkeyPatch, registry: Registry[Any], **problems: str | None) -> None:
    """Let plug-ins be there or not: ``None`` is no problem."""
    for name, problem in problems.items():
        monkeypatch.setattr(registry.load(name), "available", lambda told=problem: told)


@pytest.mark.parametrize(
    ("tensorrt", "trtexec", "chosen"),
    [
        (None, None, "tensorrt"),
        ("not installed", None, "trtexec"),
        ("not installed", "not found", "tensorrt"),
    ],
)
def test_an_engine_goes_to_what_is_there(
    tensorrt: str | None,
    trtexec: str | None,
    chosen: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here(monkeypatch, RUNTIMES, tensorrt=tensorrt, trtexec=trtexec)
    assert default_runtime(engine(tmp_path / "a.engine"), Config(store="x")) == chosen


def test_a_configured_interpreter_counts_as_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here(monkeypatch, RUNTIMES, tensorrt="not installed", trtexec=None)
    config = Config(store="x", runtimes={"tensorrt": RuntimeSettings(python="/opt/trt/python")})
    assert default_runtime(engine(tmp_path / "a.engine"), config) == "tensorrt"


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


def test_without_the_others_tensorrt_rtx_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, BUILDERS, tensorrt="not installed", trtexec="not found")
    here(monkeypatch, BUILDERS, **{"tensorrt-rtx": None})
    assert default_builder(Config(store="x"), {}) == "tensorrt-rtx"


def test_without_any_builder_a_build_says_what_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here(monkeypatch, BUILDERS, tensorrt="not installed", trtexec="not found")
    here(monkeypatch, BUILDERS, **{"tensorrt-rtx": "not installed"})
    with pytest.raises(UnavailableError, match="nothing that builds engines") as caught:
        refuse_without_builder(Config(store="x"), {})
    assert "trtbench[rtx]" in str(caught.value.fix)
    assert {"trtexec", "tensorrt", "tensorrt-rtx"} <= set(caught.value.facts)
    assert run(["build", str(tiny_model(tmp_path / "tiny.onnx", batch=1))]) == 4
    assert "trtbench[rtx]" in capsys.readouterr().err


def test_outputs_come_from_a_runtime_that_hands_them_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here(monkeypatch, RUNTIMES, tensorrt="not installed", trtexec=None)
    found = engine(tmp_path / "a.engine")
    assert default_runtime(found, Config(store="x")) == "trtexec"
    assert default_runtime(found, Config(store="x"), with_outputs=True) == "tensorrt"
