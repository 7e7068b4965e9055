"""Run directories appear whole or not at all, damage is named, and long runs stay small."""

import os
import socket
import tempfile
from pathlib import Path

import numpy as np
import pytest
import records
from writers import CLEAN

from trtbench.core.errors import InputError, StoreError
from trtbench.core.run import FailedRun, Run
from trtbench.core.samples import IterationTimes
from trtbench.formats.toolkit import SERIES_ROWS
from trtbench.host import files
from trtbench.measure.bench import write_run_files
from trtbench.store import directory


@pytest.mark.parametrize(
    ("problem", "recorded", "kept"),
    [(ZeroDivisionError, False, False), (ZeroDivisionError, True, True),
     (KeyboardInterrupt, True, False)],
)  # fmt: skip
def test_an_error_keeps_only_what_has_a_record_and_an_interrupt_nothing(
    tmp_path, problem, recorded, kept
):
    with pytest.raises(problem), directory.partial_directory(tmp_path / "r") as folder:  # noqa: PT012
        directory.write_samples(folder, records.TIMES)
        if recorded:
            directory.write_record(folder, records.record("r"))
        raise problem
    assert [each.name for each in tmp_path.iterdir()] == (["r"] if kept else [])
    assert not kept or isinstance(directory.read_run(tmp_path / "r"), Run)


def test_an_occupied_folder_is_refused_and_an_empty_one_taken(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("dear")
    with (
        pytest.raises(StoreError, match="not empty"),
        directory.partial_directory(tmp_path / "full"),
    ):
        pass
    assert (tmp_path / "full" / "thesis.txt").read_text() == "dear"
    (tmp_path / "empty").mkdir()
    with directory.partial_directory(tmp_path / "empty") as folder:
        directory.write_record(folder, records.failed("x"))
    assert isinstance(directory.read_run(tmp_path / "empty"), FailedRun)


def test_only_the_unfinished_of_dead_processes_of_this_machine_is_removed(tmp_path):
    dead = records.dead_process()
    here = files.partial_name(tmp_path).name.split("-")[2]  # the kernel, and the container on it
    kernel, _, _ = here.partition(".")
    abandoned = tmp_path / f"{files.PARTIAL}{dead}-{here}-abc123"
    kept = [
        tmp_path / f"{files.PARTIAL}{os.getpid()}-{here}-abc123",
        tmp_path / f"{files.PARTIAL}{dead}-{kernel}.another-abc123",
        tmp_path / f"{files.PARTIAL}{dead}-another.{here}-abc123",
        tmp_path / f"{files.PARTIAL}{dead}-{socket.gethostname()}-abc123",
        tmp_path / f"{files.PARTIAL}nonsense",
        tmp_path / "20261115-120000-abc123",
    ]
    for folder in (abandoned, *kept):
        folder.mkdir()
        (folder / "file").touch()
    assert files.remove_abandoned(tmp_path) == 1
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_only_temporary_files_of_own_dead_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    with files.temporary_folder() as own:
        assert own.stat().st_mode & 0o777 == 0o700
        name = own.name.replace(f"-{os.getpid()}-", f"-{records.dead_process()}-")
        (own.parent / name).mkdir()
        (own.parent / f"{name}_2026-11-16_01-02-03.json").touch()  # as ONNX Runtime names a trace
        (tmp_path / "precious").mkdir()
        (own.parent / f"{name}-link").symlink_to(tmp_path / "precious")
        others = [own.parent / "trtbench-locks", own.parent / "trtbench-1-another.place-abc"]
        for each in others:
            each.mkdir()
        if os.getuid() == 0:
            others.append(own.parent / f"{name}-anothers")
            others[-1].mkdir()
            os.chown(others[-1], 12345, 12345)
        files.remove_temporary.cache_clear()
        files.remove_temporary()
        assert sorted(own.parent.iterdir()) == sorted([own, *others])
        assert (tmp_path / "precious").is_dir()
    assert not own.exists()


def test_a_directory_that_is_held_is_not_taken_for_abandoned(tmp_path, monkeypatch):
    """As seen from another container on the same host: the number of the process says nothing."""

    def gone(pid, signal):
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", gone)
    with files.scratch_directory(tmp_path) as folder:
        assert files.remove_abandoned(tmp_path) == 0
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []


def _write_and_remove(root, enough):
    number = 0
    while not enough.is_set():
        number += 1
        target = root / f"{os.getpid()}-{number:05d}"
        with directory.partial_directory(target) as folder:
            directory.write_samples(folder, records.TIMES)
            directory.write_record(folder, records.record(target.name))
        if number > 3:
            directory.remove_contents(root / f"{os.getpid()}-{number - 3:05d}")


@pytest.mark.process
def test_a_reader_never_sees_half_a_run(tmp_path):
    enough = CLEAN.Event()
    writers = [CLEAN.Process(target=_write_and_remove, args=(tmp_path, enough)) for _ in "ab"]
    for writer in writers:
        writer.start()
    seen: set[str] = set()
    try:
        while len(seen) < 200 and all(writer.is_alive() for writer in writers):
            for folder in directory.run_directories(tmp_path):
                try:
                    run = directory.read_run(folder)
                except InputError:
                    # It may be taken away between the listing and the look, never be half there.
                    assert not folder.exists()
                    continue
                assert len(run.times) == 50
                seen.add(folder.name)
    finally:
        enough.set()
        for writer in writers:
            writer.join()
    assert len(seen) >= 200
    assert [writer.exitcode for writer in writers] == [0, 0]


def make_run(folder):
    folder.mkdir()
    directory.write_samples(folder, records.TIMES)
    directory.write_record(folder, records.record("r"))
    return folder


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"null", b"[]", b'"text"', b"{}", b'{"kind": "run"}', b'{"kind": "dance"}',
        b'{"kind": "run", "schema": "1"}', b'{"kind": "run", "schema": 0}',
        b'{"kind": "run", "schema": -1}', b'{"kind": "run", "schema": true}',
        b'{"kind": "run", "schema": null}', b'{"kind": ["run"]}', b"\xff\xfe\x00",
        b'{"kind": "run", "id": "\xff\xff"}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_record_is_an_error_in_words(tmp_path, data):
    folder = make_run(tmp_path / "r")
    (folder / "run.json").write_bytes(data)
    with pytest.raises(InputError) as caught:
        directory.read_run(folder)
    assert str(folder / "run.json") in caught.value.message


def test_the_series_of_a_long_run_are_written_on_request(tmp_path: Path) -> None:
    times = IterationTimes(host=np.full(SERIES_ROWS + 1, 1e-3))
    run = Run(record=records.record("r1"), times=times)
    for name, series in (("kept", None), ("asked", True)):
        (tmp_path / name).mkdir()
        write_run_files(run, tmp_path / name, series=series)
    assert not (tmp_path / "kept" / "latency_series.csv").exists()
    assert not (tmp_path / "kept" / "times.json").exists()
    assert (tmp_path / "kept" / "latency_percentiles.csv").is_file()
    lines = (tmp_path / "asked" / "latency_series.csv").read_text().splitlines()
    assert len(lines) == SERIES_ROWS + 2
    assert (tmp_path / "asked" / "times.json").is_file()
