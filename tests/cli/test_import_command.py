from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import leftovers
import trtbench
from trtbench.cli import run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in with a store beside it."""
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def bring(*words: str) -> int:
    return run(["import", "--no-pictures", *words])


def ids(capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert run(["runs", "--json"]) == 0
    return [entry["id"] for entry in json.loads(capsys.readouterr().out)]


def by_time(found: list[str]) -> list[str]:
    """The fastest first: files of one second have no order."""
    return sorted(found, key=lambda each: float(np.median(trtbench.load(each).times.gpu)))


def test_a_folder_is_imported_and_explained(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leftovers.run_set(here / "set")
    (here / "set" / "readme.md").write_text("# hello\n")
    assert bring("set", "--tag", "nightly") == 0
    out, err = capsys.readouterr()
    assert "net.engine" in out
    assert "8.6.1" in out
    assert "net.log + times, graph, profile" in out
    assert "~batch 4" in out
    assert "?TF32" in out
    assert "not recognised" in out
    assert "1 run imported, 1 file not used" in err
    assert run(["runs", "--tag", "nightly", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["samples"], entry["provenance"]) == (80, "imported")


def test_status_tells_when_a_named_file_was_of_no_use(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leftovers.run_set(here)
    (here / "cut.json").write_text(leftovers.times_text()[:1500])
    assert bring("net.times.json", "cut.json") == 1
    out, _ = capsys.readouterr()
    assert "is cut off" in out
    assert len(ids(capsys)) == 1
    assert bring("*.log") == 0
    assert bring("nothing.json") == 1
    assert "error: there is no file or folder nothing.json" in capsys.readouterr().err


def test_json_is_one_document(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leftovers.run_set(here / "set")
    assert bring("set", "--json", "--dry-run") == 0
    document = json.loads(capsys.readouterr().out)
    (found,) = document["runs"]
    assert found["record"]["conditions"]["cuda_graph"] == {"value": False, "source": "stated"}
    assert found["samples"] == 80
    assert ids(capsys) == []


def test_files_known_already_are_said_to_be(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leftovers.run_set(here / "set")
    assert bring("set") == 0
    assert bring("set") == 0
    out, err = capsys.readouterr()
    assert "(known)" in out
    assert "--again" in err
    assert len(ids(capsys)) == 1
    assert bring("set", "--again") == 0
    assert len(ids(capsys)) == 2


def test_flags_of_evaluation_toolkit(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leftovers.folder_000(here / "run")
    engine = here / "pose.engine"
    engine.write_bytes(b"ftrt" + bytes(60))
    words = ("run", "--batch", "8", "--engine", str(engine), "-o", "out", "--warmup", "250ms")
    assert bring(*words) == 0
    out, err = capsys.readouterr()
    assert "batch 4 is on record; --batch 8 is used instead" in err
    summary = json.loads((here / "out" / "summary.json").read_text())
    assert summary["batch"] == 8
    assert summary["engine"]["size_bytes"] == 64
    assert (here / "out" / "latency_percentiles.csv").is_file()
    assert "batch 8" in out


def test_printed_numbers_are_marked_everywhere(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, gpu_ms in (("a", 2.0), ("b", 5.0)):
        times = leftovers.times_text(gpu_ms=gpu_ms)
        (here / f"{name}.log").write_text(leftovers.log_text(times))
    assert bring("a.log", "b.log") == 0
    assert "(reported)" in capsys.readouterr().out
    assert run(["runs"]) == 0
    assert capsys.readouterr().out.count("ms*") == 2
    assert run(["runs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)  # logs of one second have no order in time
    fast, slow = (each["id"] for each in sorted(listed, key=lambda each: each["median_s"]))
    assert run(["runs", "show", fast]) == 0
    shown = capsys.readouterr().out
    assert "as reported by the tool that measured" in shown
    assert "stated" in shown
    assert run(["compare", fast, slow]) in (0, 3)
    compared = capsys.readouterr().out
    assert "as printed, without samples" in compared
    assert "slower" in compared
    assert run(["report", fast, slow, "-o", "report", "--format", "md,csv"]) == 0
    assert run(["gate", slow, "--against", fast, "--max-slowdown", "5%"]) == 3
    assert run(["gate", fast, "--metric", "p99<5ms"]) in (0, 3)
    capsys.readouterr()
    assert run(["runs", "reindex"]) == 0
    assert run(["runs"]) == 0
    assert capsys.readouterr().out.count("ms*") == 2


def test_imported_runs_with_samples_compare_like_any_other(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, gpu_ms in (("a", 2.0), ("b", 5.0)):
        times = leftovers.times_text(gpu_ms=gpu_ms)
        (here / f"{name}.times.json").write_text(times)
        (here / f"{name}.log").write_text(leftovers.log_text(times))
    assert bring(".") == 0
    fast, slow = by_time(ids(capsys))
    assert run(["compare", fast, slow]) in (0, 3)
    assert "slower" in capsys.readouterr().out
    assert run(["gate", fast, "--metric", "latency<5ms"]) == 0
