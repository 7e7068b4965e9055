"""Both sides alive on a stand-in GPU: bursts and series in turn."""

import json
import os
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_standin import Clock, Cudart, plan_bytes
from trtbench.analysis.verdict import burst_effects
from trtbench.compare import turns as in_turns
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.host.cuda import Cuda, CudaError
from trtbench.requests.execution import Execution
from trtbench.requests.measure import CompareRequest
from trtbench.runtimes._gpu_query import Lane, burst_of_queries
from trtbench.store.directory import read_record
from trtbench.store.store import Store

STANDIN = Path(__file__).resolve().parents[1] / "standin_gpu"


def compared(tmp_path: Path, gpu_s: tuple[float, float], *flags: str, marks: str = "") -> Any:
    """Compare two engines by the command; gives what it prints as JSON, and both records."""
    for name, seconds in zip("ab", gpu_s, strict=True):
        extra = marks.encode() if name == "b" else b""
        (tmp_path / f"{name}.engine").write_bytes(plan_bytes(gpu_s=seconds) + extra)
    paths = f"{STANDIN}{os.pathsep}{tmp_path / 'nvml'}"
    environment = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "trtbench", "compare", "a.engine", "b.engine", "--batch", "2"]
    command += ["-r", "tensorrt", "--store", "store", "--json", *flags]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode in (0, 3), ended.stderr
    (tmp_path / "notes.txt").write_text(ended.stderr)
    found = [read_record(path.parent) for path in (tmp_path / "store").glob("**/run.json")]
    return json.loads(ended.stdout), sorted(found, key=lambda each: each.duet.side)


TWO = ("--launches", "2", "--max-launches", "2", "--pairs", "10")
FOUR = ("--launches", "4", "--max-launches", "4", "--pairs", "10")


@pytest.mark.process
@pytest.mark.parametrize(("other", "kind"), [(1.0, "same"), (1.01, "slower"), (0.98, "faster")])
def test_a_comparison_without_flags_takes_bursts_in_turn(tmp_path: Path, other: float, kind: str):
    told, records = compared(tmp_path, (2e-3, 2e-3 * other), *TWO)
    verdicts = {each["metric"]: each for each in told["comparison"]["verdicts"]}
    assert verdicts["gpu"]["kind"] == kind
    assert verdicts["gpu"]["design"] == "bursts"
    assert verdicts["gpu"]["ratio"] == pytest.approx(other, rel=1e-3)
    for record in records:
        assert record.conditions["cuda_graph"].value is True
        assert record.conditions["spin_wait"].value is True
        assert "bursts of" in str(record.conditions["interleaved"].value)
        assert [len(each.burst_s) for each in record.launches] == [10, 10]
        assert record.launches[0].burst_size == records[0].launches[0].burst_size


@pytest.mark.process
def test_a_graph_that_one_side_lacks_is_left_out_on_both(tmp_path: Path) -> None:
    told, records = compared(tmp_path, (2e-3, 2e-3), *TWO, marks="no_graph;")
    verdicts = {each["metric"]: each["kind"] for each in told["comparison"]["verdicts"]}
    assert verdicts["gpu"] == "same"
    assert all(record.conditions["cuda_graph"].value is False for record in records)
    assert any("the other side cannot be captured" in note for note in records[0].notes)
    assert any("measured without a CUDA graph" in note for note in records[1].notes)


def test_a_burst_is_timed_without_its_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock().install(monkeypatch)
    api = Cudart()
    with closing(Cuda(api)) as cuda:
        stream = cuda.stream()
        done: list[int] = []

        def enqueue() -> bool:
            done.append(1)
            stream.busy(1e-3)
            return True

        lane = Lane(enqueue=enqueue, stream=stream, copies_in=_none, copies_out=_none)
        seconds, enqueueing = burst_of_queries(cuda, lane, size=20, lead=3)()
        assert len(done) == 23
        assert seconds == pytest.approx(1e-3, rel=1e-3)
        assert 0 < enqueueing < 1e-3
        lane.enqueue = lambda: False
        with pytest.raises(CudaError, match="could not be enqueued"):
            burst_of_queries(cuda, lane, size=2, lead=1)()


def _none(stream: object) -> tuple[()]:
    return ()


def tell_free_memory(tmp_path: Path, count: int) -> None:
    """Let NVML tell so many free bytes, a clock that is half as high for side 1, and no more."""
    (tmp_path / "nvml").mkdir()
    (tmp_path / "nvml" / "pynvml.py").write_text(
        "import json, sys\n"
        "from types import SimpleNamespace\n"
        "def nvmlInit(): pass\n"
        "def nvmlDeviceGetHandleByIndex(index): return index\n"
        "def nvmlDeviceGetMemoryInfo(handle):\n"
        f"    return SimpleNamespace(free={count}, total={count})\n"
        "def nvmlDeviceGetClockInfo(handle, kind):\n"
        "    return [1800, 900][json.load(open(sys.argv[1]))['mine']]\n"
        "def note(*words): print(*words, file=open('clocks.txt', 'a'))\n"
        "def nvmlDeviceSetGpuLockedClocks(handle, *clocks): note('lock', *clocks)\n"
        "def nvmlDeviceResetGpuLockedClocks(handle): note('free')\n"
    )


@pytest.mark.process
@pytest.mark.parametrize("at_once", [4, 2, 1])
def test_launches_load_in_order_and_measure_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Each process notes when it has loaded and when it measures; its clock is everybody's."""
    monkeypatch.setenv("STANDIN_GPU_ENGINES", str(tmp_path / "loaded"))
    monkeypatch.setenv("STANDIN_GPU_MOMENTS", str(tmp_path / "moments"))
    tell_free_memory(tmp_path, (2 * at_once << 30) + (1 << 20))
    _, records = compared(tmp_path, (1e-3, 1e-3), *FOUR)
    loaded = (tmp_path / "loaded").read_text().split()
    assert len(set(loaded)) == len(loaded) == 8, "four launches of both sides, a process for each"
    assert not list((tmp_path / "store").glob("**/.partial*")), "what they were started in"
    assert all(each.load_s is None for record in records for each in record.launches)
    moments = noted_moments(tmp_path / "moments")
    runs = [[when for (at, _), when in moments["run"] if at == launch] for launch in range(4)]
    for one, other in pairwise(runs):
        assert max(one) <= min(other), "no two launches measure at once"
    group = min(2, at_once)  # as many follow them, with the sides exchanged
    for launch in range(4):
        loads = [when for (at, _), when in moments["load"] if at == launch]
        beginning = group * (launch // group)
        assert max(loads) < min(runs[beginning]), "all of a group load before one measures"
        assert beginning == 0 or min(loads) > max(runs[beginning - 1]), "the one before is over"
    if group == 2:
        order = [(0, 0), (0, 1), (1, 1), (1, 0), (2, 1), (2, 0), (3, 0), (3, 1)]
        places = [[0, 3, 1, 2], [1, 2, 0, 3]]
    else:
        order = [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1), (3, 1), (3, 0)]
        places = [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert [who for who, _ in sorted(moments["load"], key=itemgetter(1))] == order
    assert [[each.load_order for each in record.launches] for record in records] == places


Moments = dict[str, list[tuple[tuple[int, int], float]]]


def noted_moments(path: Path) -> Moments:
    """By word: the launch and side of each process that noted it, and when."""
    found: Moments = {}
    for line in path.read_text().splitlines():
        launch, side, word, moment = line.split()
        found.setdefault(word, []).append(((int(launch), int(side)), float(moment)))
    return found


@pytest.mark.process
def test_where_engines_come_to_lie_is_in_neither_sides_favour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches lie 0.9 % apart by their places; what they have in common is known much better."""
    monkeypatch.setenv("STANDIN_GPU_PLACES", str(tmp_path / "places"))
    tell_free_memory(tmp_path, 16 << 30)
    told, records = compared(tmp_path, (1e-3, 1.006e-3), *FOUR)
    verdict = next(each for each in told["comparison"]["verdicts"] if each["metric"] == "gpu")
    assert verdict["ratio"] == pytest.approx(1.006, abs=1e-4)
    assert verdict["interval"]["low"] == pytest.approx(1.006, abs=1e-3)
    assert verdict["interval"]["high"] == pytest.approx(1.006, abs=1e-3)
    assert verdict["launches"] == 4
    effects = burst_effects(*(record.launches for record in records))
    assert np.std(effects, ddof=1) > 0.007


@pytest.mark.parametrize(
    ("wanted", "at_once", "expected"),
    [
        (6, 8, [[(0, 1), (3, 2), (4, 5)], [(1, 0), (2, 3), (5, 4)]]),
        (6, 2, [[(0, 1), (3, 2)], [(1, 0), (2, 3)]]),
        (5, 8, [[(0, 1), (3, 2), (4, 5)], [(1, 0), (2, 3)]]),
        (1, 8, [[(0, 1)]]),
        (6, 1, [[(0, 1)], [(1, 0)], [(0, 1)], [(1, 0)]]),
        (2, 0, [[(0, 1)], [(1, 0)]]),
    ],
)
def test_each_place_in_the_order_is_had_by_both_sides(
    wanted: int, at_once: int, expected: list[list[tuple[int, int]]]
) -> None:
    assert in_turns.load_orders(wanted, at_once=at_once) == expected


@pytest.mark.process
def test_launches_that_do_not_fit_at_once_load_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_free_memory(tmp_path, 16 << 30)
    monkeypatch.setenv("STANDIN_GPU_MOST_ENGINES", f"{tmp_path / 'alive'}:2")
    told, records = compared(tmp_path, (1e-3, 1e-3), "--lock-clocks", "1800", *FOUR)
    assert (tmp_path / "clocks.txt").read_text() == "lock 1800 1800\nfree\n", "around all launches"
    assert all(record.conditions["clocks_locked"].value is True for record in records)
    elsewhere = "clock locked to 1800 MHz but seen at 900 MHz"
    assert [elsewhere in record.notes for record in records] == [False, True]
    verdicts = {each["metric"]: each["kind"] for each in told["comparison"]["verdicts"]}
    assert verdicts["gpu"] == "same"
    assert [each["clock_ratio"] for each in told["comparison"]["verdicts"]].count(0.5) == 1
    seen = [[each.burst_clock_hz for each in record.launches] for record in records]
    assert seen == [[hz, hz, None, None] for hz in (1.8e9, 0.9e9)], "seen in two launches"
    notes = [
        line for line in (tmp_path / "notes.txt").read_text().splitlines() if "at once" in line
    ]
    assert [note.rpartition(": ")[2] for note in notes] == [
        "starting them again", "loading them one after the other",
    ]  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize(
    ("crashes", "told", "again"),
    [
        ("ONCE", "could start at once (SIGSEGV, stage load): starting them again", 1),
        ("AT_END", "exited: ended by SIGSEGV (a crash in native code); its results are kept", 0),
    ],
)
def test_a_launch_that_crashes_is_started_again_unless_it_has_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crashes: str, told: str, again: int
) -> None:
    tell_free_memory(tmp_path, 16 << 30)
    monkeypatch.setenv(f"STANDIN_GPU_CRASHES_{crashes}", str(tmp_path / "crashed"))
    _, records = compared(tmp_path, (1e-3, 1e-3), *TWO)
    assert [len(record.launches) for record in records] == [2, 2]
    said = (tmp_path / "notes.txt").read_text()
    assert told in said
    assert said.count("at once") == again


@pytest.mark.process
def test_a_launch_that_crashes_once_it_has_measured_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.engine").write_bytes(plan_bytes(gpu_s=1e-3))
    crashes = {"STANDIN_GPU_CRASHES_AT_END": str(tmp_path / "crashed")}
    words = ("bench", "a.engine", "-r", "tensorrt", "--batch", "2", "--iterations", "20", "--json")
    ended = subprocess.run(
        [sys.executable, "-m", "trtbench", *words, "--launches", "2", "--store", "store"],
        env={**os.environ, "PYTHONPATH": str(STANDIN), **crashes},
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "crashed").exists()
    assert "exited: ended by SIGSEGV (a crash in native code); its results are kept" in ended.stderr
    [record] = (tmp_path / "store").glob("**/run.json")
    assert len(read_record(record.parent).launches) == 2


@pytest.mark.parametrize(
    ("asked", "changes", "mode", "graph", "spins"),
    [
        ({}, {}, "bursts", "auto", True),
        ({"cuda_graph": "off"}, {}, "bursts", "off", True),
        ({"cuda_graph": "on"}, {"cuda_graph": "on"}, "bursts", "on", True),
        ({"duration": "1s"}, {}, "launches", "off", False),
        ({"mode": "launches"}, {}, "launches", "off", False),
        ({}, {"protocol": "gpu"}, "auto", "off", False),
        ({}, {"streams": 2}, "auto", "off", False),
        ({}, {"runtime": "onnxruntime", "device": "cpu"}, "auto", "off", False),
    ],
)
def test_what_is_asked_for_settles_how_sides_take_turns(
    asked: dict[str, Any], changes: dict[str, Any], mode: str, graph: str, spins: bool
) -> None:
    model = ModelRef(path="a.engine", format="engine")
    spec = RunSpec(model=model, runtime="tensorrt").having(**changes)
    request = CompareRequest(baseline="a.engine", candidates=["b.engine"], **asked)
    found, sides = in_turns.resolve_turns(in_turns.Sides(baseline=spec, candidate=spec), request)
    assert found == mode
    assert {each.cuda_graph for each in sides.both} == {graph}
    assert {each.spin_wait for each in sides.both} == {spins}


@pytest.mark.parametrize("runtime", ["tensorrt", "onnxruntime"])
def test_nobody_waits_for_ever_for_an_answer(tmp_path: Path, runtime: str) -> None:
    device = "cpu" if runtime == "onnxruntime" else None
    spec = RunSpec(model=ModelRef(path="a", format="engine"), runtime=runtime, device=device)
    sides = in_turns.Sides(baseline=spec, candidate=spec)
    request = CompareRequest(baseline="a", candidates=["a"])
    store = Store(tmp_path / "store")
    duet = in_turns.Duet(sides, request, store=store, execution=Execution())
    bursts = runtime == "tensorrt"
    assert duet.mode == ("bursts" if bursts else "one-process")
    duet._launches = ([None] * 12, [None] * 12)  # type: ignore[list-item]
    limit_s = in_turns.BURSTS_LIMIT_S if bursts else in_turns.LIMIT_S
    duet.seconds = limit_s / 4
    assert not duet.out_of_time
    assert duet.next_launches == 6
    duet.seconds = limit_s * 0.9  # one launch of 12 takes 0.075 of it
    assert duet.next_launches == 1
    duet.seconds = limit_s * 0.95
    assert duet.out_of_time
    asked = CompareRequest(baseline="a", candidates=["a"], max_launches=100)
    patient = in_turns.Duet(sides, asked, store=store, execution=Execution())
    patient._launches, patient.seconds = duet._launches, 10 * limit_s
    assert not patient.out_of_time
