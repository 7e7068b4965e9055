from pathlib import Path

import pytest
from command import Say, in_folder


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    return in_folder(tmp_path, monkeypatch, capsys)
