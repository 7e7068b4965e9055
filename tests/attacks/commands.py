"""The command line in a process of its own, as a user types it."""

import ctypes
import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest


def _without_privileges() -> None:
    for capability in (1, 2):  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def trtbench(
    *words: object,
    folder: Path | None = None,
    text: bool = True,
    plain: bool = False,
    status: int | None = None,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end; ``plain``: the modes of files count for root too.

    With ``status``, a command that ends otherwise fails the test.
    """
    named = [os.fspath(word) if isinstance(word, Path) else str(word) for word in words]
    done = subprocess.run(
        [sys.executable, "-m", "trtbench", *named],
        capture_output=True, text=text, check=False, cwd=folder,
        preexec_fn=_without_privileges if plain else None,
        errors="surrogateescape" if text else None,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables},
    )  # fmt: skip
    assert status in (None, done.returncode), done
    return done


def files(folder: Path) -> set[str]:
    """The names of all files below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@dataclass(frozen=True)
class Done:
    """What a command left on the screen."""

    returncode: int
    stdout: str
    stderr: str


def typed(*words: object, status: int | None = None) -> Done:
    """Run one command in this process, which takes a tenth of the time, as ``trtbench`` does."""
    from trtbench import cli

    named = [os.fspath(word) if isinstance(word, Path) else str(word) for word in words]
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["trtbench", *named]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            ended = cli.run(named)
    except SystemExit as end:
        ended = int(end.code or 0)
    finally:
        sys.argv = before
    done = Done(ended, out.getvalue(), err.getvalue())
    assert status in (None, ended), done
    return done


def as_another_user(*words: object, folder: Path) -> None:
    """Run a program as another user of this machine, in a folder that everybody can write to."""
    if os.getuid() != 0:
        pytest.skip("only root can be another user")
    folder.chmod(0o777)
    command = [str(word) for word in words]
    subprocess.run(command, cwd=folder, user=65534, group=65534, extra_groups=[], check=True)
