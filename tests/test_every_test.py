"""The rules that hold for every test, tried on small suites of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import every_test

HERE = Path(__file__).resolve().parent
CONFTEST = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import every_test

def pytest_configure(config):
    every_test.set_up(config)

def pytest_collection_modifyitems(items):
    every_test.mark_parts(items)

def pytest_xdist_make_scheduler(config, log):
    return every_test.scheduler(config, log)
"""
SKIPS = """
import pytest

@pytest.fixture
def nodes():
    pytest.skip("Ray is not installed")

def test_that_runs():
    pass

def test_with_a_part(nodes):
    pass

@pytest.mark.real("Ray")
@pytest.mark.skipif(True, reason="Ray is not installed")
def test_that_looks_for_a_part():
    pass

def test_with_a_gpu():
    pytest.skip("no GPU: none at all")
"""


SHARES = """
import os, pytest

@pytest.fixture(scope="module")
def start():
    with open("starts", "a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"])

@pytest.mark.parametrize("number", range(6))
def test_it(start, number):
    pass
"""


def run_suite(folder: Path, text: str, *flags: str, **more: object) -> tuple[int, str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = real(part): a part\n")
    (folder / "test_it.py").write_text(text)
    settings = {k: v for k, v in os.environ.items() if not k.startswith(("TRTBENCH_T", "PYTEST_"))}
    environment = {**settings, **more.pop("env", {})}  # type: ignore[dict-item]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags, str(folder)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, **more
    )  # type: ignore[call-overload]
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("real", "complete", "status", "words"),
    [
        (None, None, 0, "   2 Ray is not installed  (test_it.py)"),
        (None, "1", 1, "error: skipped for no reason that counts: Ray is not installed"),
        ("0", "1", 0, "   2 needs Ray: make test-all runs it"),
    ],
)
def test_skips_are_listed_and_few_reasons_count_where_all_must_run(
    tmp_path: Path, real: str | None, complete: str | None, status: int, words: str
) -> None:
    asked = {"TRTBENCH_TEST_REAL": real, "TRTBENCH_TEST_COMPLETE": complete}
    env = {name: value for name, value in asked.items() if value is not None}
    for workers in ((), ("-n", "1")) if status else ((),):
        found, said = run_suite(tmp_path, SKIPS, *workers, env=env)
        assert words in said
        assert "   1 no GPU: none at all  (test_it.py)" in said
        assert found == status, said


@pytest.mark.process
def test_one_worker_runs_what_shares_a_costly_start(tmp_path: Path) -> None:
    status, said = run_suite(tmp_path, SHARES, "-n", "2", "--dist", "loadgroup")
    assert status == 0, said
    assert len((tmp_path / "starts").read_text()) == len("gw0")
    assert every_test.group_of(HERE / "cli" / "test_screens.py") == "screens"
    assert every_test.group_of(HERE / "test_units.py") is None
