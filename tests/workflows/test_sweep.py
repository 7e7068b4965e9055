"""Sweeps: planned as a graph, carried out in rounds, gone on with after any interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sweeps import matrix, runs_of

from models import conv_model, tiny_model
from trtbench.convert.builders import trtexec as trtexec_builder
from trtbench.core.errors import UnavailableError, UsageError
from trtbench.executors.contract import AGAIN, WAITING, Executor, Needs, Notify, RemoteJob
from trtbench.requests.execution import Execution
from trtbench.requests.settings import Config, load_config
from trtbench.store.store import Store
from trtbench.sweep import result
from trtbench.sweep.matrix import Matrix, matrix_from_table
from trtbench.sweep.plan import Cache, estimate, plan_sweep
from trtbench.sweep.records import JOURNAL, Journal, start_sweep
from trtbench.sweep.result import results_from_sweep, write_results
from trtbench.sweep.run import Sweep, run_sweep


@pytest.fixture
def store(place: Path) -> Store:
    return Store(place / "store")


@pytest.fixture
def config(store: Store) -> Config:
    return load_config()


def sweep(asked: Matrix, folder: Path, store: Store, config: Config, **kw: Any) -> Sweep:
    if not (folder / "sweep.json").exists():
        start_sweep(asked, folder, store=store)
    kw.setdefault("execution", Execution())
    return run_sweep(folder, store=store, config=config, **kw)


class Waiting(Executor):
    """An executor whose machine does not come."""

    elsewhere = False

    def width(self, needs: Needs) -> int:
        return 1

    def run(self, job: RemoteJob, *, folder: Path, notify: Notify) -> None:
        notify("looking around")
        notify(f"{WAITING} to join that has {job.needs}")
        notify("a machine has joined")
        notify("measuring")
        notify(f"it was lost; {AGAIN}")
        raise UnavailableError("no machine can ever measure this run")


def test_a_case_that_waits_for_a_machine_or_loses_it_says_so(tmp_path, store, config):
    start_sweep(matrix(tiny_model(tmp_path / "n.onnx")), tmp_path / "sweep", store=store)
    shown: dict[str, None] = {}
    execution = Execution(
        executor=Waiting(), listen=lambda event: shown.setdefault(event.text.partition(": ")[2])
    )
    found = run_sweep(tmp_path / "sweep", store=store, config=config, execution=execution)
    assert [*filter(None, shown)][:3] == [
        "waiting for a machine to join that has a processor",
        "a machine has joined",
        "it was lost; once more elsewhere",
    ]
    assert "no machine can ever" in found.failures[0].text


def test_a_sweep_measures_every_case_in_every_round(tmp_path, store, config):
    model = tiny_model(tmp_path / "net.onnx")
    data = tmp_path / "val.npz"
    rng = np.random.default_rng(0)
    np.savez(data, x=rng.random((40, 16), np.float32), labels=rng.integers(0, 4, 40))
    asked = matrix(model, precision=["fp32", "int8", "fp8"], batch=[4], rounds=2, data=str(data))
    seen: list[str] = []
    execution = Execution(listen=lambda event: seen.append(event.text))
    found = sweep(asked, tmp_path / "out", store, config, execution=execution)
    results = results_from_sweep(found)
    rows = {row.precision: row for row in results.rows}
    assert [len(rows[precision].runs) for precision in ("fp32", "int8", "fp8")] == [2, 2, 0]
    assert rows["fp32"].summary is not None
    assert rows["fp32"].summary.launches == 2
    assert rows["fp32"].parameters == 64
    assert "top1" in rows["int8"].scores
    assert "random data" in (rows["int8"].remark or "")
    failed = rows["fp8"]
    assert failed.reason.startswith("quantize:")
    assert len(store.index.find(tag=found.outline.tag)) == 4
    assert any(text[:1] == "[" and text[2:15] == "/6] round 2/2" for text in seen)
    assert any(text.startswith("failed: net · onnxruntime · fp8") for text in seen)
    written = write_results(results, tmp_path / "out", title="T", formats=["md"])
    paths = {path.name: path for path in written}
    table = paths["results.md"].read_text()
    assert "| Batch | Case | Median |" in table
    assert "| 4 | onnxruntime fp8 | failed |" in table
    assert "onnxruntime fp8 · batch 4: quantize:" in table
    lines = paths["results.csv"].read_text().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("median,mean")
    document = json.loads(paths["results.json"].read_text())
    assert document["rows"][0]["summary"]["launches"] == 2
    assert "report.md" in paths


def test_what_was_made_is_kept_for_the_next_sweep(tmp_path, store, config):
    model = tiny_model(tmp_path / "net.onnx")
    asked = matrix(model, precision=["int8"], batch=[1])
    first = sweep(asked, tmp_path / "one", store, config)
    step = next(iter(first.plan.steps.values()))
    made = Cache(store).find(step)
    assert made is not None
    kinds = {each.kind: each for each in estimate(first.plan, store=store)}
    assert (kinds["quantize"].count, kinds["quantize"].cached) == (1, 1)
    assert kinds["bench"].guessed == 0
    sweep(asked, tmp_path / "two", store, config)
    assert Cache(store).find(step) == made  # not made again: the same time stands in it
    file = Cache(store).folder(step) / str(made.file)
    file.write_bytes(file.read_bytes() + b"x")  # damaged: made again, but not measured again
    assert Cache(store).find(step) is None
    sweep(asked, tmp_path / "two", store, config)
    assert Cache(store).find(step) is not None
    assert len(runs_of(tmp_path / "two")) == 1


def test_a_failed_case_is_a_row_and_not_repeated_and_no_folder_is_swept_by_two(
    tmp_path, store, config
):
    fixed = tiny_model(tmp_path / "fixed.onnx", batch=2)
    asked = matrix(fixed, batch=[2, 3], rounds=2)
    found = sweep(asked, tmp_path / "out", store, config)
    results = results_from_sweep(found)
    good, bad = sorted(results.rows, key=lambda row: row.batch or 0)
    assert good.reason is None
    assert bad.reason.startswith("bench:")
    assert len(runs_of(tmp_path / "out")) == 2
    before = (tmp_path / "out" / JOURNAL).read_text()
    sweep(asked, tmp_path / "out", store, config)
    assert (tmp_path / "out" / JOURNAL).read_text() == before
    sweep(asked, tmp_path / "out", store, config, retry_failed=True)
    assert (tmp_path / "out" / JOURNAL).read_text().count('"failed"') == 2
    with pytest.raises(UsageError, match="already contains a sweep"):
        start_sweep(asked, tmp_path / "out", store=store)
    with (
        Journal(tmp_path / "out").locked(),
        pytest.raises(UnavailableError, match="another process"),
    ):
        sweep(asked, tmp_path / "out", store, config)


def test_samples_of_finished_cases_are_on_the_disk_and_not_in_memory(
    tmp_path: Path, store: Store, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "SPOOLED_ROWS", 1)
    asked = matrix(tiny_model(tmp_path / "net.onnx"), batch=[1, 2], rounds=2)
    done = sweep(asked, tmp_path / "out", store, config)
    found = results_from_sweep(done)
    assert len(found.runs) == 2
    for run in found.runs:
        for _, column in run.times.columns():
            assert not column.flags.owndata
            assert isinstance(column if column.base is None else column.base, np.memmap | mmap)
        own = next(row.runs for row in found.rows if run.id in row.runs)
        assert len(run.times) == sum(len(store.load(name).times) for name in own)
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [JOURNAL, "sweep.json"]
    assert write_results(found, tmp_path / "out", title="t", formats=("md",))


@pytest.mark.process
def test_a_sweep_goes_on_after_kill_9_without_repeating(tmp_path, store, config):
    model = tiny_model(tmp_path / "net.onnx")
    folder = tmp_path / "out"
    command = [
        sys.executable, "-m", "trtbench", "sweep", str(model), "--batch", "1,2,4", "--rounds", "2",
        "--duration", "150ms", "--axis", "warmup=5ms", "--axis", "until_steady=false",
        "-o", str(folder), "--format", "none",
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not (folder / JOURNAL).exists() or len(runs_of(folder)) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = runs_of(folder)
    assert 2 <= len(kept) < 6
    found = sweep(Matrix(), folder, store, config)
    runs = runs_of(folder)
    assert runs[: len(kept)] == kept
    assert len(set(runs)) == 6
    stored = {entry.id for entry in store.index.find(tag=found.outline.tag)}
    assert stored == set(runs)
    rows = results_from_sweep(found).rows
    assert all(len(row.runs) == 2 for row in rows)


@pytest.mark.parametrize("indexed", [True, False])
def test_a_run_stored_just_before_the_end_is_taken_over(indexed, tmp_path, store, config):
    asked = matrix(tiny_model(tmp_path / "net.onnx"), batch=[1, 2])
    folder = tmp_path / "out"
    sweep(asked, folder, store, config)
    lines = (folder / JOURNAL).read_text().splitlines(keepends=True)
    lost = json.loads(lines[-1])["run"]
    (folder / JOURNAL).write_text("".join(lines[:-1]) + lines[-1][:20])  # torn in the middle
    if not indexed:
        store.index.remove(lost)
    sweep(asked, folder, store, config)
    assert runs_of(folder)[-1] == lost
    assert len(store.index.find(kind="run")) == 2


def test_tensorrt_11_gets_a_typed_file_first(trtexec: Any, tmp_path: Path) -> None:
    trtexec.version("11.1.0")
    asked = matrix_from_table(
        {"models": [str(conv_model(tmp_path / "n.onnx"))], "runtime": "trtexec",
         "precision": ["fp32", "fp16"], "batch": [1]},
        where="test",
    )  # fmt: skip
    trtexec_builder._abilities.cache_clear()
    plan = plan_sweep(asked, config=load_config())
    trtexec_builder._abilities.cache_clear()
    kinds = [[plan.steps[key].kind for key in each.chain] for each in plan.cases]
    assert kinds == [["build"], ["quantize", "build"]]
