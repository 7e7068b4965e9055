"""The stand-in is honest: our parsers read its files, and its log says what the files hold."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from trtbench.trtexec.conditions import conditions_from_log
from trtbench.trtexec.log import log_from_text
from trtbench.trtexec.log_values import LogRun
from trtbench.trtexec.times import read_times, statistics_as_printed
from trtbench.trtexec.version import SINCE, abilities_from_help, abilities_of_version

VERSIONS = ("8.6.1", "10.9.0", "11.1.0")


def call(trtexec: Any, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [str(trtexec.binary), *arguments], capture_output=True, text=True, errors="replace"
    )
    assert not done.stderr
    return done.returncode, done.stdout


def run(trtexec: Any, folder: Path, *arguments: str) -> LogRun:
    status, text = call(
        trtexec,
        f"--loadEngine={trtexec.engine()}",
        "--duration=0.1",
        "--warmUp=50",
        f"--exportTimes={folder / 't.json'}",
        *arguments,
    )
    assert status == 0, text
    return log_from_text(text, where="log")[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_log_prints_what_the_times_file_gives(
    version: str, trtexec: Any, tmp_path: Path
) -> None:
    trtexec.version(version)
    log = run(trtexec, tmp_path)
    data = (tmp_path / "t.json").read_bytes()
    columns = read_times(data, where="t.json", warmup_ms=50).arrays[0].columns
    ours = statistics_as_printed(columns, warmup_ms=50)
    assert log.version == version
    assert log.outcome == "passed"
    assert log.queries == len(columns["computeMs"])
    assert log.summary is not None
    for label, metric in ours.items():
        for name, value in metric.items():
            printed = getattr(log.summary.metrics[label], name)
            assert value == pytest.approx(printed, rel=2e-5)


@pytest.mark.parametrize("version", VERSIONS)
def test_its_help_lists_the_flags_of_the_version(version: str, trtexec: Any) -> None:
    trtexec.version(version)
    status, text = call(trtexec, "--help")
    found, known = abilities_from_help(text), abilities_of_version(version)
    assert status == 0
    assert found.version == version
    assert {f for f in SINCE if found.has(f)} == {f for f in SINCE if known.has(f)}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("8.6.1", (True, False, False)),
        ("10.9.0", (True, False, False)),
        ("11.1.0", (False, True, True)),
    ],
)
def test_defaults_are_those_of_the_version(
    version: str, expected: tuple[bool, ...], trtexec: Any, tmp_path: Path
) -> None:
    trtexec.version(version)
    conditions = conditions_from_log(run(trtexec, tmp_path))
    names = ("transfers", "cuda_graph", "spin_wait")
    assert tuple(conditions[name].value for name in names) == expected
    data = (tmp_path / "t.json").read_bytes()
    columns = read_times(data, where="t", warmup_ms=50).arrays[0].columns
    assert bool(columns["h2dMs"].any()) is expected[0]


def test_a_profile_in_the_timed_run_withholds_the_times(trtexec: Any, tmp_path: Path) -> None:
    log = run(trtexec, tmp_path, "--dumpProfile")
    assert log.timing_withheld
    assert not (tmp_path / "t.json").exists()
