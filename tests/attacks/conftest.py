"""A home of the test's own, and a folder of somebody else's."""

from pathlib import Path

import pytest


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with settings, caches and a store of its own."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """Somebody's folder, closed to others, with a file in it."""
    folder = tmp_path / "precious"
    folder.mkdir(mode=0o700)
    (folder / "thesis.tex").write_text("years of work")
    (folder / "thesis.tex").chmod(0o600)
    return folder
