"""``trtbench import``: what is printed, kept and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Said, Say

import leftovers


@pytest.fixture
def bring(say: Say) -> Say:
    """Imports in a folder without pictures; other words are typed as they are."""

    def bring(*words: str) -> Said:
        return say("import", "--no-pictures", *words)

    return bring


def ids(say: Say) -> list[str]:
    return [entry["id"] for entry in say("runs", "--json").json]


def test_the_status_reports_a_named_file_that_was_of_no_use(say: Say, bring: Say) -> None:
    leftovers.run_set(Path())
    Path("cut.json").write_text(leftovers.times_text()[:1500])
    said = bring("net.times.json", "cut.json")
    assert (said.status, "is cut off" in said.out, len(ids(say))) == (1, True, 1)
    assert bring("*.log").status == 0
    said = bring("nothing.json")
    assert (said.status, said.err.splitlines()[0]) == (
        1, "error: there is no file or folder nothing.json",
    )  # fmt: skip


def test_flags_of_evaluation_toolkit(say: Say, bring: Say) -> None:
    leftovers.folder_000(Path("run"))
    Path("pose.engine").write_bytes(b"ftrt" + bytes(60))
    said = bring("run", "--batch", "8", "--engine", "pose.engine", "-o", "out", "--warmup", "250ms")
    assert "batch 4 is on record; --batch 8 is used instead" in said.err
    assert "batch 8" in said.out
    summary = json.loads(Path("out/summary.json").read_text())
    assert (summary["batch"], summary["engine"]["size_bytes"]) == (8, 64)
    assert Path("out/latency_percentiles.csv").is_file()


def test_printed_numbers_are_marked_everywhere(say: Say, bring: Say) -> None:
    for name, gpu_ms in (("a", 2.0), ("b", 5.0)):
        times = leftovers.times_text(gpu_ms=gpu_ms)
        Path(f"{name}.log").write_text(leftovers.log_text(times))
    assert "(reported)" in bring("a.log", "b.log").out
    assert say("runs").out.count("ms*") == 2
    listed = say("runs", "--json").json  # logs of one second have no order in time
    fast, slow = (each["id"] for each in sorted(listed, key=lambda each: each["median_s"]))
    shown = say("runs", "show", fast).out
    assert ("Latency (reported)" in shown, "stated" in shown) == (True, True)
    compared = say("compare", fast, slow).out
    assert ("as printed, without samples" in compared, "slower" in compared) == (True, True)
    assert say("report", fast, slow, "-o", "report", "--format", "md,csv").status == 0
    assert say("gate", slow, "--against", fast, "--max-slowdown", "5%").status == 3
    assert say("gate", fast, "--metric", "p99<5ms").status in (0, 3)
    assert say("runs", "reindex").status == 0
    assert say("runs").out.count("ms*") == 2
