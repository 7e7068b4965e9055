"""Whole folders of logs: of our own making, and from other machines where they lie beside us."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from trtbench.core.errors import ParseError
from trtbench.trtexec.conditions import (
    build_metadata_from_log,
    conditions_from_log,
    profile_metadata_from_log,
)
from trtbench.trtexec.log import log_from_text
from trtbench.trtexec.log_values import LogRun

NOT_LOGS = {
    "log-main.py.log",
    "model-trained-exportLayerInfo.log",
    "resnet18_trafficcamnet_pruned_int8.txt",
}


def _texts(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.rglob("*.log"))
    yield from sorted(folder.rglob("*.txt"))


def _runs(folder: Path, pattern: str) -> tuple[LogRun, ...]:
    path = next(folder.glob(pattern))
    return log_from_text(path.read_bytes(), where=path.name)


def test_every_log_is_read(artefacts: Path) -> None:
    seen = 0
    for path in _texts(artefacts):
        if path.name in NOT_LOGS:
            with pytest.raises(ParseError, match="is not a log of trtexec"):
                log_from_text(path.read_bytes(), where=path.name)
            continue
        runs = log_from_text(path.read_bytes(), where=path.name)
        seen += len(runs)
        for run in runs:
            assert conditions_from_log(run)
            assert build_metadata_from_log(run)
            assert profile_metadata_from_log(run)
            timed = run.queries is not None and run.summary is None
            assert not timed, f"{path.name}: a timed run without a summary"
    assert seen >= 20


def test_truncated_and_cut_logs(artefacts: Path) -> None:
    pattern = "h200__*/vit_b_16_fp16_b1.log" if artefacts.name == "artefacts" else "*/loaded.log"
    data = next(artefacts.glob(pattern)).read_bytes()
    whole = log_from_text(data, where="x")[0]
    for length in range(500, len(data), 997):
        (run,) = log_from_text(data[:length], where="x")
        assert run.outcome == "cut"
        assert run.sections[0].name == whole.sections[0].name if run.sections else True


@pytest.mark.parametrize(
    ("pattern", "count", "version", "outcome", "code"),
    [
        ("trtexec-8.6.1/built.log", 1, "8.6.1", "passed", "timing-cache-new"),
        ("trtexec-10.9.0/loaded.log", 1, "10.9.0", "passed", None),
        ("trtexec-11.1.0/help.txt", 1, "11.1.0", "help", None),
        ("failures/flag.log", 1, "10.9.0", "failed", "unknown-option"),
        ("failures/version.log", 1, "10.9.0", "failed", "version-mismatch"),
        ("failures/memory.log", 1, "10.9.0", "failed", "out-of-memory"),
        ("failures/tactic.log", 1, "10.9.0", "failed", "tactic-memory"),
        ("failures/crash.log", 1, "10.9.0", "cut", None),
        ("old/five.log", 1, None, "passed", None),
        ("old/eight.log", 1, "8.2.5", "passed", None),
        ("old/raw_net.txt", 3, None, "passed", None),
    ],
)
def test_runs_versions_and_outcomes(
    made: Path, pattern: str, count: int, version: str | None, outcome: str, code: str | None
) -> None:
    runs = _runs(made, pattern)
    assert len(runs) == count
    assert {run.version for run in runs} == {version}
    assert {run.outcome for run in runs} == {outcome}
    assert code is None or runs[0].messages[0].code == code
