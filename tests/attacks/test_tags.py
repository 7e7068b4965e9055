"""Tags reach screens, files and other tools: what cannot be one is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from models import tiny_model
from trtbench.cli import run


@pytest.mark.parametrize("tag", ["\x1b[2Jgone", "../up", "two\nlines", "", "=cmd()"])
def test_a_tag_that_steers_something_is_refused(
    tag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, store = str(tiny_model(tmp_path / "m.onnx")), str(tmp_path / "store")
    assert run(["bench", model, "--tag", tag, "--store", store]) != 0
    told = capsys.readouterr().err
    assert "cannot be a tag" in told
    assert "\x1b" not in told
    assert not (tmp_path / "store" / "runs").exists()
