"""TensorRT-RTX for the tests of this folder; they skip with the reason where there is none."""

from __future__ import annotations

import pytest

from bindings.rtx import NoRtx, Rtx, find_rtx


@pytest.fixture(scope="session")
def found_rtx() -> Rtx:
    try:
        return find_rtx()
    except NoRtx as problem:
        pytest.skip(str(problem))


@pytest.fixture
def rtx(found_rtx: Rtx, monkeypatch: pytest.MonkeyPatch) -> Rtx:
    """TensorRT-RTX within reach of the workers that a test starts."""
    for name, value in found_rtx.env.items():
        monkeypatch.setenv(name, value)
    return found_rtx
