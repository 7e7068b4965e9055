"""A command as a user types it, and what came of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trtbench.cli import run

QUICK = ("--iterations", "20", "--warmup", "5ms", "--no-until-steady")


class Said(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.status == 0, self.err
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """All that was printed, whatever the width of the terminal."""
        return " ".join((self.out + self.err).split())


Say = Callable[..., Said]


def in_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Say:
    """Types commands in a folder that has a store and settings of its own.

    With ``status``, a command that ends otherwise fails the test.
    """
    monkeypatch.setenv("TRTBENCH_STORE", str(folder / "store"))
    monkeypatch.setenv("TRTBENCH_CACHE", str(folder / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.chdir(folder)

    def say(*words: object, status: int | None = None) -> Said:
        capsys.readouterr()
        said = Said(run([str(each) for each in words]), *capsys.readouterr())
        assert "Traceback" not in said.err
        assert status in (None, said.status), said
        return said

    return say
