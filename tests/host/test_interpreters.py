"""What another interpreter inherits, tried with other versions of Python where they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trtbench
from trtbench.core.errors import UnavailableError
from trtbench.host.workers import (
    cache_tag,
    can_import,
    check_interpreter,
    environment_for,
    worker_command,
    worker_environment,
)

OWN = sys.implementation.cache_tag


@pytest.fixture
def other(tmp_path: Path) -> str:
    """What answers as an interpreter of another version does; none need be here."""
    path = tmp_path / "other-python"
    path.write_text("#!/bin/sh\necho cpython-399\n")
    path.chmod(0o755)
    return str(path)


def real_other() -> str | None:
    """An interpreter of another version that works on its own."""
    named = [shutil.which(f"python3.{minor}") for minor in (10, 11, 12, 13)]
    beside = [str(path) for path in Path(sys.base_prefix).parent.glob("3.1*/bin/python3")]
    found = [each for each in [*named, *beside] if each]
    return next((each for each in found if cache_tag(each) not in (None, OWN)), None)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder as pip's --target leaves it, for the version that is running."""
    (tmp_path / "site" / "msgspec").mkdir(parents=True)
    (tmp_path / "site" / "msgspec" / f"_core.{OWN}-some-machine.so").touch()
    return tmp_path / "site"


def test_what_is_for_this_version_is_not_handed_on(
    packages: Path, tmp_path: Path, other: str
) -> None:
    plain = tmp_path / "mine"
    plain.mkdir()
    (plain / "my_model.py").touch()
    given = {
        "PYTHONPATH": os.pathsep.join([str(plain), str(packages)]),
        "PYTHONHOME": "/x",
        "A": "1",
    }
    assert environment_for(other, given) == {"PYTHONPATH": str(plain), "A": "1"}
    assert environment_for(None, given) == given
    assert environment_for(sys.executable, given) == given


def test_modules_of_the_other_version_and_of_all_are_kept(tmp_path: Path, other: str) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / f"x.{cache_tag(other)}-m.so").touch()
    (tmp_path / "deep" / "any.abi3.so").touch()
    given = {"PYTHONPATH": str(tmp_path)}
    assert environment_for(other, given) == given


@pytest.mark.real("another version of Python")
def test_another_interpreter_starts_beside_a_foreign_home(
    monkeypatch: pytest.MonkeyPatch, packages: Path
) -> None:
    """Both variables as a packed Python sets them for itself."""
    other = real_other()
    if other is None:
        pytest.skip("no other version of Python here")
    monkeypatch.setenv("PYTHONHOME", sys.base_prefix)
    broken = subprocess.run([other, "-c", "pass"], capture_output=True, check=False)
    assert broken.returncode != 0, "this would not start otherwise"
    told = subprocess.run(
        [other, "-c", "import sys; print(sys.version_info.minor)"],
        env=worker_environment(other), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.strip() == str(cache_tag(other)).removeprefix("cpython-3")


def test_what_is_no_interpreter_is_told(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho hello\n")
    fake.chmod(0o755)
    assert cache_tag(str(fake)) is None
    with pytest.raises(Exception, match="not a Python interpreter that works"):
        check_interpreter(str(fake))


@pytest.mark.parametrize(
    ("says", "message", "facts", "fix"),
    [
        ("echo trtbench-probe 3.8", "too old", {"Python": "3.8", "needed": "3.10"}, "3.10 or"),
        ("echo trtbench-probe 3.9 numpy", "too old", {"Python": "3.9"}, "3.10 or"),
        ("echo hi; echo trtbench-probe 3.12 numpy", "lacks", {"missing": "numpy"}, "install numpy"),
        ("exit 1", "not a Python interpreter", {"it said": "nothing"}, "bin/python"),
        ("echo; echo odd; exit 1", "not a Python interpreter", {"it said": "odd"}, "bin/python"),
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


def test_a_folder_or_nothing_in_the_place_of_an_interpreter(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_bytes(b"no program")
    with pytest.raises(UnavailableError, match="no Python interpreter at") as caught:
        check_interpreter(str(tmp_path))
    assert caught.value.fix == f"--python {tmp_path}/bin/python"
    with pytest.raises(UnavailableError, match="no Python interpreter at") as caught:
        check_interpreter("/no/such/python")
    assert "trtbench.toml" in (caught.value.fix or "")
    (tmp_path / "bin" / "python").chmod(0o755)
    with pytest.raises(UnavailableError, match="not a Python interpreter") as caught:
        check_interpreter(str(tmp_path / "bin" / "python"))
    assert "format" in caught.value.facts["it said"]


def test_what_an_interpreter_can_import() -> None:
    assert can_import(sys.executable, "numpy")
    assert not can_import(sys.executable, "no_such_module")
    assert not can_import("/no/such/python", "numpy")


def test_a_worker_elsewhere_is_lent_this_very_package(monkeypatch: pytest.MonkeyPatch) -> None:
    program, flag, code = worker_command("/opt/other/bin/python")
    assert (program, flag) == ("/opt/other/bin/python", "-c")
    assert str(Path(trtbench.__file__)) in code
    if sys.version_info >= (3, 11):
        assert worker_command(None) == [sys.executable, "-m", "trtbench.worker"]
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))  # would import from the working folder
    assert worker_command(None)[:2] == [sys.executable, "-c"]
