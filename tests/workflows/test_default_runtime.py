"""What executes an engine, and what builds one, when nobody says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from trtbench.domain.spec import ModelRef
from trtbench.workflows.make import build as build_module
from trtbench.workflows.make.build import default_builder
from trtbench.workflows.request import spec as module
from trtbench.workflows.request.config import Config, RuntimeSettings
from trtbench.workflows.request.spec import default_runtime


def engine(path: Path, head: bytes = b"ftrt") -> ModelRef:
    path.write_bytes(head + bytes(60))
    return ModelRef(path=str(path), format="engine")


def here(monkeypatch: pytest.MonkeyPatch, **problems: str | None) -> None:
    """Let runtimes be there or not: ``None`` is no problem."""
    found = {name: SimpleNamespace(available=lambda p=p: p) for name, p in problems.items()}
    monkeypatch.setattr(module, "RUNTIMES", SimpleNamespace(load=found.__getitem__))


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
    here(monkeypatch, tensorrt=tensorrt, trtexec=trtexec)
    assert default_runtime(engine(tmp_path / "a.engine"), Config(store="x")) == chosen


def test_a_configured_interpreter_counts_as_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here(monkeypatch, tensorrt="not installed", trtexec=None)
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
    problems = {"tensorrt": tensorrt, "trtexec": trtexec}
    found = {name: SimpleNamespace(available=lambda p=p: p) for name, p in problems.items()}
    monkeypatch.setattr(build_module, "BUILDERS", SimpleNamespace(load=found.__getitem__))
    assert default_builder(Config(store="x"), options) == chosen
