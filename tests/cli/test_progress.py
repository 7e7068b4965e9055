"""Progress on a terminal: a bar that is drawn before anything has been told."""

from __future__ import annotations

import pytest

from trtbench.requests.execution import Event
from trtbench.verbs._screen import Talk


def test_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with Talk("check") as talk:
        talk(Event(kind="stage", text="a.onnx: 3 of 9 items", done=0.3))
    told = capsys.readouterr().err
    assert "check" in told
    assert "3 of 9 items" in told
