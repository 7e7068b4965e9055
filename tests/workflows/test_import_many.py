"""Many files at once, some in archives: how often the index is written, what a kill leaves."""

import bz2
import gzip
import io
import json
import lzma
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from imports import bring, reasons, record

import logs
from trtbench.core.errors import InputError
from trtbench.importing import archives
from trtbench.importing.run import LOG, ORIGIN, import_artefacts
from trtbench.requests.execution import Event
from trtbench.requests.stored import ImportRequest
from trtbench.store.store import Store
from waiting import ended

PRINTED_PROFILE = logs.log_10().replace(
    "&&&& PASSED", logs.text(logs.NAME_LAST).rstrip("\n") + "\n&&&& PASSED", 1
)


def write(folder: Path, count: int, *, text: str = logs.log_82()) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"net{number}.log").write_text(text.replace("40 qps", f"{40 + number} qps"))
    return folder


def test_runs_enter_the_index_together_and_in_order(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    put_all = store.index.put_all

    def counting(entries) -> None:  # type: ignore[no-untyped-def]
        found = list(entries)
        written.append(len(found))
        put_all(found)

    monkeypatch.setattr(store.index, "put_all", counting)
    result = bring(write(tmp_path / "logs", 12), store=store)
    assert written == [12]
    made = [each.record.id for each in result.runs]
    assert [entry.id for entry in reversed(store.index.find(by_creation=True))] == made
    assert store.entry("last").id == made[-1]


def test_what_was_done_before_an_interrupt_is_in_the_index(tmp_path: Path, store: Store) -> None:
    def interrupt(event: Event) -> None:
        if event.text == "importing net2.log":
            raise KeyboardInterrupt

    request = ImportRequest(paths=(write(tmp_path / "logs", 4),))
    with pytest.raises(KeyboardInterrupt):
        import_artefacts(request, store=store, listen=interrupt)
    assert len(store.index.ids()) == 2


@pytest.mark.process
def test_an_import_that_is_killed_leaves_runs_that_the_next_command_takes_in(
    tmp_path: Path,
) -> None:
    place = write(tmp_path / "logs", 40)
    command = [sys.executable, "-m", "trtbench", "import", str(place), "--store"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ended(subprocess.Popen([*command, str(tmp_path / "store")], **quiet)) as doomed:
        while len(list((tmp_path / "store" / "runs").glob("2*/run.json"))) < 5:
            assert doomed.poll() is None
        os.kill(doomed.pid, signal.SIGKILL)
    found = Store(tmp_path / "store")
    kept = {folder.name for folder in found.runs.iterdir() if not folder.name.startswith(".")}
    assert found.index.ids() == kept
    assert len(kept) >= 5
    result = bring(place, store=found)  # each is known again by what it was made of
    assert sum(each.known_as is not None for each in result.runs) == len(kept)
    assert len(found.index.ids()) == 40


def test_layers_are_drawn_where_pictures_are_requested(tmp_path: Path, store: Store) -> None:
    pytest.importorskip("matplotlib")
    place = write(tmp_path / "logs", 1, text=PRINTED_PROFILE.replace("1234.5", "40"))
    for pictures in (False, True):
        bring(place, store=store, pictures=pictures, again=True)
        assert len(list(store.runs.glob("*/per_layer_time.png"))) == pictures


def test_a_run_keeps_its_own_lines_of_a_text_of_several(tmp_path: Path, store: Store) -> None:
    sides = [logs.log_82(), logs.log_82().replace("40 qps", "41 qps")]
    columns = [[f"{name}  | {line}\n" for line in text.splitlines()]
               for name, text in zip(("orin-1", "nano-1"), sides, strict=True)]  # fmt: skip
    file = tmp_path / "compose.txt"
    file.write_text("".join(line for pair in zip(*columns, strict=True) for line in pair))
    result = bring(file, store=store)
    kept = [(store.runs / each.record.id / LOG).read_text() for each in result.runs]
    assert kept == [f"{text.rstrip()}\n" for text in sides]


def test_runs_of_one_file_are_cut_at_its_lines_byte_for_byte(tmp_path: Path, store: Store) -> None:
    parts = [logs.log_82().replace("\n", "\r\n"), "words\r\n" + logs.log_10()]
    (tmp_path / "both.log").write_bytes("".join(parts).encode())
    result = bring(tmp_path / "both.log", store=store)
    kept = [(store.runs / each.record.id / LOG).read_bytes() for each in result.runs]
    assert b"".join(kept) == "".join(parts).replace("words\r\n", "").encode()


READ = """
import sys
from pathlib import Path
from trtbench.trtexec.log import read_log
with open(sys.argv[1], "rb") as stream:
    runs = read_log(stream, where="x").runs
print(len(runs), *{run.summary.throughput_qps for run in runs})
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


@pytest.mark.process
@pytest.mark.parametrize(("kind", "runs"), [("plain", 1), ("json", 1), ("two containers", 2)])
def test_memory_does_not_grow_with_a_verbose_log(kind: str, runs: int, tmp_path: Path) -> None:
    said = [f"[TRT] Searching for input: {'x' * 150}{n % 7}" for n in range(1000)]
    peaks = []
    for size in (15, 90):  # both longer than a piece that is read at once
        lines = [logs.banner("RUNNING"), *logs.lines(*said, level="V") * size, *logs.SUMMARY_10]
        if kind == "json":
            lines = [json.dumps({"log": f"{line}\n", "stream": "stdout"}) for line in lines]
        elif kind == "two containers":
            lines = [f"{name}-1 | {line}" for line in lines for name in "ab"]
        path = tmp_path / f"{size}.log"
        path.write_text("\n".join(lines))
        command = [sys.executable, "-c", READ, str(path)]
        found = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
        assert found[:2] == [str(runs), "1234.5"]
        peaks.append(int(found[2]) * 1024)
    assert peaks[1] - peaks[0] < 4e6 < path.stat().st_size / 4


Files = Mapping[str, bytes | str]


def as_zip(files: Files, *, how: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", how) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2024, 5, 6, 7, 8, 10)), content, how)
    return data.getvalue()


def as_tar(files: Files) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in files.items():
            content = content.encode() if isinstance(content, str) else content
            about = tarfile.TarInfo(name)
            about.size, about.mtime = len(content), 1_700_000_000
            archive.addfile(about, io.BytesIO(content))
    return data.getvalue()


def log(qps: str, *, stamp: str = "05:06:07") -> str:
    return logs.log_82().replace("40 qps", f"{qps} qps").replace("05:06:07", stamp)


FORMS: dict[str, Callable[[Files], bytes]] = {
    "logs.zip": as_zip,
    "plain.zip": lambda files: as_zip(files, how=zipfile.ZIP_STORED),
    "logs.tar": as_tar,
    "logs.tar.gz": lambda files: gzip.compress(as_tar(files)),
    "logs.tar.bz2": lambda files: bz2.compress(as_tar(files)),
    "logs.tar.xz": lambda files: lzma.compress(as_tar(files)),
    "no-ending": as_zip,
}


@pytest.mark.parametrize("name", FORMS)
def test_each_file_of_an_archive_is_its_own_source(name: str, tmp_path: Path, store: Store) -> None:
    files = {"a/net.log": log("41"), "./b/net.log": log("42"), "notes.txt": "nothing of trtexec's"}
    (tmp_path / name).write_bytes(FORMS[name](files))
    result = bring(tmp_path / name, store=store)
    assert {record(each).reported["throughput_qps"] for each in result.runs} == {41.0, 42.0}
    shown = {f"{tmp_path / name}/{inner}" for inner in ("a/net.log", "b/net.log")}
    assert {source for each in result.runs for source in record(each).sources} == shown
    assert {str(each.files[0]) for each in result.runs} == shown
    assert "1 other file in it" in reasons(result)[name]
    assert result.complete
    kept = [store.runs / each.record.id for each in result.runs]
    assert {(folder / LOG).read_text() for folder in kept} == {log("41"), log("42")}
    origins = [json.loads((folder / ORIGIN).read_text()) for folder in kept]
    assert {each["sources"][0]["path"] for each in origins} == shown
    assert not [each for each in store.runs.iterdir() if each.name.startswith(".")]


def test_a_job_that_is_kept_whole_and_by_step_is_one_run(tmp_path: Path, store: Store) -> None:
    """GitHub's archive of a job has its log as one file, and again a file for each step."""
    step = "\n".join(f"2024-05-06T07:08:09.1234567Z {line}" for line in log("41").splitlines())
    job = f"2024-05-06T07:08:01.0000000Z ##[group]Set up job\n{step}\n"
    other = step.replace("05:06:07", "05:09:09")
    files = {"0_bench.txt": job, "bench/3_Run trtexec.txt": step, "bench/4_Run again.txt": other}
    (tmp_path / "logs_123.zip").write_bytes(as_zip(files))
    result = bring(tmp_path / "logs_123.zip", store=store)
    assert len(result.runs) == 2
    assert reasons(result) == {"3_Run trtexec.txt": "the same run is in 0_bench.txt"}


def test_the_time_of_a_bare_log_is_that_of_its_archive(tmp_path: Path, store: Store) -> None:
    bare = log("41").replace(f"{logs.STAMP} ", "")
    (tmp_path / "logs.zip").write_bytes(as_zip({"net.log": bare}))
    (tmp_path / "old.tar").write_bytes(as_tar({"other.log": bare.replace("41 qps", "43 qps")}))
    made = bring(tmp_path / "logs.zip", tmp_path / "old.tar", store=store).runs
    assert sorted(each.record.created[:7] for each in made) == ["2023-11", "2024-05"]
    assert {record(each).facts["created_from"] for each in made} == {"file"}


def test_what_leads_out_of_an_archive_is_named_and_nothing_is_written_there(
    tmp_path: Path, store: Store
) -> None:
    place = tmp_path / "in"
    place.mkdir()
    files = {"../out.log": log("41"), "/abs.log": log("42"), "win\\net.log": log("43")}
    (place / "logs.zip").write_bytes(as_zip(files))
    (place / "bare.tar").write_bytes(_tar_with_links())
    result = bring(place, store=store)
    assert [record(each).reported["throughput_qps"] for each in result.runs] == [43.0]
    said = reasons(result)
    assert "leads out of its folder" in said["out.log"]
    assert "leads out of its folder" in said["abs.log"]
    assert said["passwd"] == said["hard.log"] == "a link, or no regular file"
    assert {each.name for each in tmp_path.iterdir()} <= {"in", "store"}
    assert not Path("/abs.log").exists()


def _tar_with_links() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, kind in (("passwd", tarfile.SYMTYPE), ("hard.log", tarfile.LNKTYPE)):
            about = tarfile.TarInfo(name)
            about.type, about.linkname = kind, "/etc/passwd"
            archive.addfile(about)
    return data.getvalue()


def test_an_archive_in_an_archive_and_models_are_named(tmp_path: Path, store: Store) -> None:
    inner = as_zip({"net.log": log("42")})
    packed = gzip.compress(log("43").encode())
    model = b"\x08\x07\x12\x04test" + bytes(1000)
    files = {"a.log": log("41"), "inner.zip": inner, "c.log.gz": packed, "net.onnx": model}
    (tmp_path / "logs.zip").write_bytes(as_zip(files))
    result = bring(tmp_path / "logs.zip", store=store)
    assert {record(each).reported["throughput_qps"] for each in result.runs} == {41.0, 43.0}
    said = reasons(result)
    assert "archive within an archive" in said["inner.zip"]
    assert "a model" in said["net.onnx"]


@pytest.mark.parametrize("kind", ["bytes", "files", "ratio"])
def test_more_than_may_be_taken_out_is_named_after_what_came_before(
    kind: str, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"a.log": log("41"), "b.txt": "x" * 3_000_000, "c.log": log("42")}
    (tmp_path / "logs.zip").write_bytes(as_zip(files))
    if kind == "ratio":
        monkeypatch.setattr(archives, "RATIO_FROM_BYTES", 100_000)
        monkeypatch.setattr(archives, "MOST_RATIO", 50)
    elif kind == "bytes":
        monkeypatch.setattr(archives, "MAX_BYTES", 1_000_000)
    else:
        monkeypatch.setattr(archives, "MOST_MEMBERS", 2)
    result = bring(tmp_path / "logs.zip", store=store)
    assert [record(each).reported["throughput_qps"] for each in result.runs] == [41.0]
    broken = next(each for each in result.unused if each.broken)
    first = "c.log" if kind == "files" else "b.txt"
    assert f"not read from {first} on" in broken.reason
    assert "unpack it" in broken.reason


@pytest.mark.parametrize("name", ["logs.zip", "logs.tar.gz", "logs.tar"])
def test_a_damaged_archive_stops_nothing(name: str, tmp_path: Path, store: Store) -> None:
    files = {"a.log": log("41"), "b.bin": os.urandom(60_000), "c.log": log("42")}
    data = FORMS[name](files)
    (tmp_path / name).write_bytes(data[: len(data) - 30_000])
    (tmp_path / "plain.log").write_text(log("50"))
    result = bring(tmp_path, store=store)
    rates = {record(each).reported["throughput_qps"] for each in result.runs}
    assert 50.0 in rates
    assert 42.0 not in rates
    assert any(each.broken and each.path.startswith(str(tmp_path / name)) for each in result.unused)


@pytest.mark.parametrize("how", ["damaged", "encrypted"])
def test_one_bad_file_of_a_zip_file_is_named_and_the_others_are_read(
    how: str, tmp_path: Path, store: Store
) -> None:
    data = bytearray(as_zip({"a.log": log("41"), "b.log": log("42")}, how=zipfile.ZIP_STORED))
    if how == "damaged":
        data[data.index(b"41 qps")] = ord("9")  # its sum no longer holds
    else:
        for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
            data[data.index(mark) + place] |= 1
    (tmp_path / "logs.zip").write_bytes(data)
    result = bring(tmp_path / "logs.zip", store=store)
    assert [record(each).reported["throughput_qps"] for each in result.runs] == [42.0]
    assert how in reasons(result)["a.log"]


def test_a_header_that_asks_for_gigabytes_is_damage(tmp_path: Path) -> None:
    about = tarfile.TarInfo("././@LongLink")
    about.type, about.size = tarfile.GNUTYPE_LONGNAME, 4 << 30
    header = about.tobuf(tarfile.GNU_FORMAT)
    path = tmp_path / "a.tar"
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(5 << 30)  # a hole
    taking = archives.Unpacking(tmp_path / "out")
    with pytest.raises(InputError, match="damaged"):
        list(taking.members(path, path.name))
