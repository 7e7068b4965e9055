"""Names that name nothing, numbers that are none, models that cannot be read, and full disks."""

import errno
import io
import os
import shlex
import shutil
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
import records
from commands import trtbench, typed
from evil_models import model_with_weights_at

import models
from disks import fill, small_disk
from trtbench.core.errors import InputError
from trtbench.models.identity import model_ref, raise_if_changed
from trtbench.store.store import Store

VERBS = """runs show, runs path, runs rm -y, runs tag NAME new, runs series -o series, profile,
    compare last, gate last --against, report, diff last, history, runs --model, runs --since,
    runs --tag, runs export --to parquet -o out"""


@pytest.mark.parametrize("name", ["", " ", "\t\n", "x" * 20_000, "tag:" + "x" * 20_000])
@pytest.mark.parametrize("words", VERBS.split(","))
def test_a_name_that_is_blank_or_endless_names_nothing(world, monkeypatch, words, name) -> None:
    monkeypatch.chdir(records.add(Store(world / "store"), records.record("r1")))
    given = [name if each == "NAME" else each for each in words.split()]
    said = typed(*given, *([] if "NAME" in words else [name]), status=2)
    assert said.stdout == ""
    assert "names nothing" in said.stderr
    assert Store(world / "store").entry("r1").tags == ()


def test_a_no_deletes_nothing_and_is_no_interruption(world, monkeypatch) -> None:
    folder = records.add(Store(world / "store"), records.record("r1"))
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    said = typed("runs", "rm", "r1", status=0)
    assert folder.is_dir()
    assert said.stderr.endswith("nothing was deleted\n")


PRINTED = (
    "Average over 10 runs is {0} ms", "Throughput: {0} qps\nGPU Compute Time: mean = {0} ms",
    "Average over 10 runs is {0} ms (host walltime is {0} ms, 99% percentile time is {0}).",
    "Average on 10 runs - GPU latency: {0} ms - Host latency: {0} ms (end to end {0} ms)",
    "Latency: min = {0} ms, mean = {0} ms, median = {0} ms, percentile(99%) = {0} ms",
    "GPU Compute\nmin: {0} ms\nmean: {0} ms\nmedian: {0} ms\npercentile: {0} ms at 99%",
    '[{{"startComputeMs": {0}, "endComputeMs": {0}, "computeMs": {0}, "latencyMs": {0}}}]',
)  # fmt: skip


@pytest.mark.parametrize("number", ["Infinity", "-inf", "NaN", "1e999"])
@pytest.mark.parametrize("printed", PRINTED)
def test_numbers_without_end_make_no_run(world: Path, printed: str, number: str) -> None:
    Path("a.log").write_text(printed.format(number) + "\n")
    assert "0 runs imported" in typed("import", "a.log").stderr


@pytest.mark.parametrize("number", ["1e305", "-1e305", "1e-320", "nan", "inf"])
def test_numbers_that_nobody_measured_hide_no_run(world: Path, number: str) -> None:
    for name in ("r1", "r2"):
        folder = records.add(Store(world / "store"), records.record(name))
    np.savez(folder / "samples.npz", host=np.full(50, 1e-3), gpu=np.full(50, float(number)))
    (folder.with_name("r1") / "checks.json").write_text("{")
    times = f"Latency: min = 0.1 ms, max = {number} ms, mean = 0.1 ms, median = 0.1 ms"
    Path("a.log").write_text(f"Throughput: {number} qps\n{times}, percentile(99%) = 0.1 ms\n")
    typed("import", "a.log", status=0 if "1" in number else None)
    assert "samples.npz is damaged" in typed("runs", "show", "r2", status=1).stderr
    for words in ("runs show r1", "runs", "report last r1 r2 -o made --format md", "site -o site"):
        assert max(map(len, typed(*words.split(), status=0).stdout.split("\n"))) < 300


def test_notes_above_the_error_of_a_log_are_read(world: Path) -> None:
    error = "[10/05/2025-10:46:31] [E] Unknown option: --explicitBatch\n"
    Path("a.log").write_text(f"Notes on the failed build\n{error}")
    assert "1 run imported" in typed("import", "a.log").stderr


@pytest.mark.parametrize("place", ["-64", "x", "9" * 5000])
@pytest.mark.parametrize("which", [1, 2])
def test_weights_at_no_place_are_refused(world: Path, place: str, which: int) -> None:
    path = model_with_weights_at(world / "m.onnx", "w.bin")
    (world / "w.bin").write_bytes(bytes(64))
    model = onnx.load(str(path), load_external_data=False)
    model.graph.initializer[0].external_data[which].value = place
    path.write_bytes(model.SerializeToString())
    assert typed("inspect", path).stderr.startswith("error: m.onnx is not an ONNX file, or")


def test_a_model_that_cannot_be_opened_has_not_changed(world, monkeypatch) -> None:
    model = model_ref(models.tiny_model(world / "m.onnx"))
    full = OSError(errno.EMFILE, "Too many open files")
    monkeypatch.setattr("builtins.open", Mock(side_effect=full))
    with pytest.raises(InputError, match=r"^\S+ cannot be read"):
        raise_if_changed(model)


def test_the_fix_for_a_lost_run_is_for_the_store_that_lacks_it(world: Path) -> None:
    shutil.rmtree(records.add(Store(place := world / "a store"), records.record("r1")))
    fix = typed("runs", "show", "r1", "--store", place, status=1).stderr.partition("fix: ")[2]
    assert "1 entry without a directory dropped" in typed(*shlex.split(fix)[1:], status=0).stderr


def test_a_full_disk_is_read_and_no_run_that_it_cut_off_is_clean(world: Path) -> None:
    model = models.tiny_model(world / "m.onnx")
    with small_disk(world / "full", "1m") as disk:
        place = ["--duration", "5ms", "--launches", "1", "--store", disk / "store"]
        records.add(Store(disk / "store"), records.record("r1"))
        fill(disk)
        os.truncate(disk / "filler", (disk / "filler").stat().st_size - 4096 * 8)
        assert trtbench("bench", model, *place).returncode == 1
        fill(disk)
        for words in ("", "show r1", "path r1", "rm -y r1"):
            assert typed("runs", *words.split(), *place[-2:]).returncode == 0
        (disk / "filler").unlink()
        assert all(entry.warnings for entry in Store(disk / "store").index.find())
