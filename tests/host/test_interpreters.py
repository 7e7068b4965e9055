"""What another interpreter inherits, tried with other versions of Python where they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trtbench.executors._interpreter import check_interpreter, worker_environment
from trtbench.host.interpreters import cache_tag, environment_for

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
