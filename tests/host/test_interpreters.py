"""What a worker in another interpreter inherits, and which interpreters are refused."""

import os
import sys
from pathlib import Path

import pytest

import trtbench
from trtbench.core.errors import UnavailableError
from trtbench.host.workers import check_interpreter, environment_for, worker_command

OWN = sys.implementation.cache_tag
OTHER = "/opt/other/bin/python"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder as pip's --target leaves it, for the version that is running."""
    (tmp_path / "site" / "msgspec").mkdir(parents=True)
    (tmp_path / "site" / "msgspec" / f"_core.{OWN}-some-machine.so").touch()
    return tmp_path / "site"


def test_compiled_modules_are_not_handed_on(packages: Path, tmp_path: Path) -> None:
    plain = tmp_path / "mine"
    plain.mkdir()
    (plain / "my_model.py").touch()
    path = os.pathsep.join([str(plain), str(packages)])
    given = {"PYTHONPATH": path, "PYTHONHOME": "/x", "A": "1"}
    assert environment_for(OTHER, given) == {"PYTHONPATH": str(plain), "A": "1"}
    assert environment_for(None, given) == given
    assert environment_for(sys.executable, given) == given


@pytest.mark.parametrize(
    ("says", "message", "facts", "fix"),
    [
        ("echo trtbench-probe 3.8", "too old", {"Python": "3.8", "needed": "3.10"}, "3.10 or"),
        ("echo trtbench-probe 3.9 numpy", "too old", {"Python": "3.9"}, "3.10 or"),
        ("echo hi; echo trtbench-probe 3.12 numpy", "lacks", {"missing": "numpy"}, "install numpy"),
        ("exit 1", "not a working Python", {"output": "none"}, "bin/python"),
        ("echo; echo odd; exit 1", "not a working Python", {"output": "odd"}, "bin/python"),
    ],
)
def test_an_interpreter_that_cannot_work_is_refused(
    tmp_path: Path, says: str, message: str, facts: dict[str, str], fix: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{says}\n")
    python.chmod(0o755)
    with pytest.raises(UnavailableError, match=message) as caught:
        check_interpreter(str(python))
    assert caught.value.facts.items() >= facts.items()
    assert fix in (caught.value.fix or "")


def test_a_worker_elsewhere_is_lent_this_very_package(monkeypatch: pytest.MonkeyPatch) -> None:
    program, flag, code = worker_command(OTHER)
    assert (program, flag) == (OTHER, "-c")
    assert str(Path(trtbench.__file__)) in code
    if sys.version_info >= (3, 11):
        assert worker_command(None) == [sys.executable, "-m", "trtbench.worker"]
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))  # would import from the working folder
    assert worker_command(None)[:2] == [sys.executable, "-c"]
