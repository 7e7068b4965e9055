"""A sweep needs only its folder: its store is on record, and what was lost is measured again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from sweeps import matrix

from models import tiny_model
from trtbench.errors import UsageError
from trtbench.store.store import Store
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.sweep import content
from trtbench.workflows.sweep.cache import Cache
from trtbench.workflows.sweep.content import builder_tools, data_digest, packages_of
from trtbench.workflows.sweep.journal import JOURNAL, read_outline
from trtbench.workflows.sweep.request import check_choice, config_of_sweep
from trtbench.workflows.sweep.result import results_from_sweep
from trtbench.workflows.sweep.run import Sweep, carry_out, start_sweep


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    asked = matrix(tiny_model(tmp_path / "net.onnx"), batch=[1, 2])
    store = Store(tmp_path / "store")
    start_sweep(asked, tmp_path / "out", store=store)
    go_on(tmp_path / "out")
    return tmp_path / "out"


def go_on(folder: Path) -> Sweep:
    """Go on with a sweep as ``--resume`` does, from settings that name another store."""
    config = config_of_sweep(folder, Config(store=str(folder.parent / "another")), given=None)
    return carry_out(folder, store=Store(config.store), config=config, conduct=Conduct())


def runs_of(folder: Path) -> list[str]:
    lines = [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]
    return [line["run"] for line in lines if line["what"] == "done"]


def test_going_on_uses_the_store_that_the_sweep_recorded(folder: Path) -> None:
    before = runs_of(folder)
    found = go_on(folder)
    assert runs_of(folder) == before
    assert found.notes == []
    assert not (folder.parent / "another").exists()
    assert read_outline(folder).store == str(folder.parent / "store")


def test_another_store_is_refused_while_the_recorded_one_is_there(folder: Path) -> None:
    with pytest.raises(UsageError, match="another store"):
        config_of_sweep(folder, Config(store="x"), given="x")
    same = str(folder.parent / "store")
    assert config_of_sweep(folder, Config(store=same), given=same).store == same
    shutil.move(same, folder.parent / "moved")
    assert config_of_sweep(folder, Config(store="moved"), given="moved").store == "moved"


def test_a_store_with_a_password_is_recorded_without_it_and_asked_for(tmp_path: Path) -> None:
    asked = matrix(tiny_model(tmp_path / "net.onnx"))
    url = f"file://me:hunter2@localhost{tmp_path / 'store'}"
    start_sweep(asked, tmp_path / "out", store=Store(url))
    assert "hunter2" not in (tmp_path / "out" / "sweep.json").read_text()
    with pytest.raises(UsageError, match="password"):
        config_of_sweep(tmp_path / "out", Config(store="x"), given=None)
    assert config_of_sweep(tmp_path / "out", Config(store=url), given=url).store == url


@pytest.mark.parametrize("how", ["removed", "folder", "record", "samples"])
def test_a_run_that_was_lost_is_measured_again_and_said(folder: Path, how: str) -> None:
    store = Store(folder.parent / "store")
    lost, kept = runs_of(folder)
    if how == "removed":
        store.remove(lost)
    elif how == "folder":
        shutil.rmtree(store.runs / lost)
    elif how == "record":
        (store.runs / lost / "run.json").write_text("{")
    else:
        (store.runs / lost / "samples.npz").write_text("x")
    found = go_on(folder)
    assert any(lost in note for note in found.notes)
    assert len(runs_of(folder)) == 3
    rows = results_from_sweep(found, store=Store(folder.parent / "store")).rows
    assert {row.reason for row in rows} == {None}
    assert sorted(run for row in rows for run in row.runs) == sorted([kept, runs_of(folder)[-1]])
    assert go_on(folder).notes == found.notes  # the old line is still in the journal
    assert len(runs_of(folder)) == 3


def test_a_damaged_line_of_the_journal_is_measured_again_and_said(folder: Path) -> None:
    lines = (folder / JOURNAL).read_bytes().split(b"\n")
    place = next(k for k, line in enumerate(lines) if b'"done"' in line)
    lines[place] = b"\x00\xff{nonsense"
    (folder / JOURNAL).write_bytes(b"\n".join(lines))
    found = go_on(folder)
    assert any("line" in note for note in found.notes)
    rows = results_from_sweep(found, store=Store(folder.parent / "store")).rows
    assert {row.reason for row in rows} == {None}


def test_a_lost_step_is_done_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    asked = matrix(tiny_model(tmp_path / "net.onnx"), batch=[1], precision=["fp16"])
    start_sweep(asked, tmp_path / "out", store=store)
    go_on(tmp_path / "out")
    shutil.rmtree(store.root / "steps")
    found = go_on(tmp_path / "out")
    (step,) = found.plan.steps.values()
    assert Cache(store).find(step) is not None
    assert len(runs_of(tmp_path / "out")) == 1


@pytest.mark.parametrize(
    ("where", "best"),
    [("p98<5ms", "items"), ("median<", "items"), ("nosuch<5", "items"), ("median<5ms", "itms"),
     ("not " * 5000 + "median<5ms", "items"), ("median<" + "-" * 5000 + "5ms", "items"),
     ("(" * 5000, "items"), ("median<" + "+".join(["1ms"] * 5000), "items")],
    ids=range(8),
)  # fmt: skip
def test_conditions_are_checked_before_anything_is_measured(
    tmp_path: Path, where: str, best: str
) -> None:
    with pytest.raises(UsageError):
        check_choice(where, best, matrix(tmp_path / "net.onnx"))


def test_conditions_may_name_axes_and_scores(tmp_path: Path) -> None:
    asked = matrix(tmp_path / "net.onnx", options={"threads": [1, 2]}, data="x.npz")
    check_choice("threads<2 and abs_rel<5% and p99<5ms", "top1", asked)


def test_data_with_the_same_names_and_sizes_is_other_data(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"one")
    before = data_digest(str(tmp_path))
    (tmp_path / "a.png").write_bytes(b"two")
    assert data_digest(str(tmp_path)) != before


def test_large_data_is_read_once_and_known_by_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(content, "KEPT_FROM_BYTES", 0)
    monkeypatch.setattr(content, "TICK_NS", -1)
    read: list[str] = []

    def counted(path: Path) -> str:
        read.append(path.name)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(content, "sha256_of", counted)
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a.png", "b.png"):
        (data / name).write_bytes(b"one")
    before = data_digest(str(data))
    assert data_digest(str(data)) == before
    assert read == ["a.png", "b.png"]
    times = (data / "a.png").stat()
    (data / "a.png").write_bytes(b"two")
    os.utime(data / "a.png", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert data_digest(str(data)) != before  # the same size, and the old date given back
    assert read == ["a.png", "b.png", "a.png"]
    for each in (tmp_path / "cache").rglob("*.json"):
        each.write_bytes(b"damaged")
    (data / "a.png").write_bytes(b"one")
    assert data_digest(str(data)) == before


def test_engines_are_known_by_the_interpreter_that_builds_them(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for folder in (python.parent, packages / "tensorrt-10.9.0.dist-info"):
        folder.mkdir(parents=True)
    before = builder_tools("trtexec", device="cuda:0", python=str(python))
    assert packages_of(str(python))["packages"] == "tensorrt-10.9.0.dist-info"
    (packages / "tensorrt-10.9.0.dist-info").rename(packages / "tensorrt-10.13.0.dist-info")
    assert builder_tools("trtexec", device="cuda:0", python=str(python)) != before
