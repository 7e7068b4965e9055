"""Many files at once: how often the index is written, what a kill leaves, what is drawn."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from imports import bring

import logs
from trtbench.importing.run import LOG, import_artefacts
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
