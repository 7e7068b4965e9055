"""Thousands of damaged files: whatever is wrong with one, it is said in words, soon, and cheaply.

``TRTBENCH_MUTATIONS`` says how many cases there are; the seed of each is in the message when it
fails, and ``TRTBENCH_MUTATION_SEED`` sets the first one.
"""

import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from mutations import damaged

import models
from trtbench.core.errors import TrtbenchError

ROOT = Path(__file__).resolve().parents[1]
for name in ("report", "standin", "store"):
    sys.path.append(str(ROOT / name))

from made_runs import full_runs  # noqa: E402

import many_runs  # noqa: E402

CASES = int(os.environ.get("TRTBENCH_MUTATIONS", "240"))
SEED = int(os.environ.get("TRTBENCH_MUTATION_SEED", "1"))
SHARES = {"importer": 5, "inspector": 4, "run": 5, "index": 2, "sweep": 4, "onnx": 4}
LIMIT_S = 10
MORE_BYTES = 1 << 30

Work = Callable[[random.Random, Path], object]


class TooLongError(BaseException):
    """A case took longer than it may."""


def _late(*_: object) -> None:
    raise TooLongError


@pytest.fixture(scope="module")
def bounded() -> Iterator[None]:
    """Let the whole module have a gibibyte more than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MORE_BYTES, hard))
    # Of the processor, so that a busy machine does not count; pytest minds the wall clock.
    before = signal.signal(signal.SIGPROF, _late)
    yield
    signal.signal(signal.SIGPROF, before)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def run_cases(target: str, work: Work, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = max(20, CASES * SHARES[target] // sum(SHARES.values()))
    with capsys.disabled():
        print(f"\n{target}: {count} cases from seed {SEED}", flush=True)
    fallen: dict[str, str] = {}
    for seed in range(SEED, SEED + count):
        folder = tmp_path / "case"
        folder.mkdir()
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
        try:
            work(random.Random(f"{target}:{seed}"), folder)
        except TrtbenchError as problem:
            if not str(problem).strip():
                fallen.setdefault("says nothing", f"seed {seed}")
        except (Exception, TooLongError) as problem:
            place = _place(problem)
            fallen.setdefault(place, f"seed {seed}: {type(problem).__name__} {problem}"[:300])
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            shutil.rmtree(folder, ignore_errors=True)
    assert fallen == {}, "\n".join(f"{place}: {what}" for place, what in fallen.items())


def _place(problem: BaseException) -> str:
    """The last line of our own that a problem came through."""
    found, trace = "?", problem.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "/trtbench/" in file:
            found = f"{file.rpartition('/trtbench/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Files as trtexec writes them, made by its stand-in."""
    import subprocess

    folder = tmp_path_factory.mktemp("artefacts")
    models.tiny_model(folder / "m.onnx")
    command = [
        sys.executable, str(ROOT / "standin" / "trtexec"), f"--onnx={folder / 'm.onnx'}",
        f"--exportTimes={folder / 'times.json'}", f"--exportProfile={folder / 'profile.json'}",
        f"--exportLayerInfo={folder / 'graph.json'}", "--iterations=20", "--dumpProfile",
        "--profilingVerbosity=detailed", "--duration=0", "--separateProfileRun",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, cwd=folder, check=False)
    (folder / "trtexec.log").write_bytes(done.stdout + done.stderr)
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix in (".json", ".log")}


@pytest.mark.usefixtures("bounded")
def test_the_importer(artefacts, tmp_path, capsys) -> None:
    from trtbench.importing.run import import_artefacts
    from trtbench.requests.stored import ImportRequest

    assert len(artefacts) >= 3, sorted(artefacts)

    def work(rng: random.Random, folder: Path) -> None:
        victim = rng.choice(sorted(artefacts))
        for name, data in artefacts.items():
            if name == victim or rng.random() < 0.4:
                (folder / name).write_bytes(damaged(data, rng) if name == victim else data)
        import_artefacts(ImportRequest(paths=(str(folder),), pictures=False), store=None)

    run_cases("importer", work, tmp_path, capsys)


@pytest.mark.usefixtures("bounded")
def test_the_inspector(artefacts, tmp_path, capsys) -> None:
    from trtbench.workflows.inspect import inspect

    def work(rng: random.Random, folder: Path) -> None:
        name = rng.choice(sorted(artefacts))
        (folder / name).write_bytes(damaged(artefacts[name], rng))
        inspect(folder / name)

    run_cases("inspector", work, tmp_path, capsys)


@pytest.mark.usefixtures("bounded")
def test_run_directories(tmp_path, capsys) -> None:
    from trtbench.analysis.summary import summary_from_run
    from trtbench.core.run import Run
    from trtbench.requests.settings import cached_from_run
    from trtbench.store.directory import (
        TELEMETRY,
        read_run,
        write_json,
        write_record,
        write_samples,
    )
    from trtbench.workflows.report import write_report

    whole = tmp_path / "whole"
    (tmp_path / "full").mkdir()
    made = full_runs(tmp_path / "full")
    for number, run in enumerate(made):
        folder = whole / str(number)
        folder.mkdir(parents=True)
        write_record(folder, run.record)
        write_samples(folder, run.times)
        write_json(folder / TELEMETRY, run.telemetry)
        for each in run.path.iterdir() if run.path else ():
            if each.is_file() and not (folder / each.name).exists():
                shutil.copyfile(each, folder / each.name)

    def work(rng: random.Random, folder: Path) -> None:
        source = rng.choice(sorted(whole.iterdir()))
        shutil.copytree(source, folder, dirs_exist_ok=True)
        victim = rng.choice([each for each in sorted(folder.iterdir()) if each.is_file()])
        if victim.name == "samples.npz" and rng.random() < 0.7:
            _odd_samples(victim, rng)
        else:
            victim.write_bytes(damaged(victim.read_bytes(), rng))
        run = read_run(folder)
        if isinstance(run, Run):
            cached_from_run(run)
            summary_from_run(run)
        if rng.random() < 0.15:
            runs = [run] if isinstance(run, Run) else []
            failed = [] if isinstance(run, Run) else [run]
            write_report(runs, folder / "report", failed=failed, formats=("md", "json"))

    run_cases("run", work, tmp_path, capsys)


def _odd_samples(path: Path, rng: random.Random) -> None:
    with np.load(path) as archive:
        columns = {name: archive[name] for name in archive.files}
    name = rng.choice(sorted(columns))
    column = columns[name].astype(float)
    how = rng.randrange(8)
    if how < 4:
        at = rng.sample(range(len(column)), rng.choice((1, len(column) // 2, len(column))))
        column[at] = (np.nan, np.inf, -1.0, 0.0)[how]
    columns[name] = (
        column, column, column, column, column[:0], column[:1], column.reshape(1, -1),
        np.array(["x"] * len(column)),
    )[how]  # fmt: skip
    if rng.random() < 0.3:
        columns = {each: values[: rng.choice((0, 1, 2))] for each, values in columns.items()}
    if rng.random() < 0.2:
        columns.pop(rng.choice(sorted(columns)))
    np.savez(path, **columns)


@pytest.mark.usefixtures("bounded")
def test_the_index(tmp_path, capsys) -> None:
    from trtbench.store.index import RUNS
    from trtbench.store.store import Store

    many_runs.fill_store(tmp_path / "whole", count=12)
    odd = (None, "", "x", -1, 2**62, 1.5, b"\xff", "../../etc", "/etc", "\x1b[2J", "nan", "9" * 99)

    def work(rng: random.Random, folder: Path) -> None:
        shutil.copytree(tmp_path / "whole", folder / "s")
        index = folder / "s" / "index.sqlite"
        if rng.random() < 0.6:
            index.write_bytes(damaged(index.read_bytes(), rng))
        else:
            with sqlite3.connect(index) as connection:
                for _ in range(rng.randint(1, 4)):
                    column = rng.choice([each.name for each in RUNS.columns])
                    statement = f"UPDATE OR IGNORE runs SET {column} = ? WHERE rowid % 3 = ?"
                    try:
                        connection.execute(statement, (rng.choice(odd), rng.randrange(3)))
                    except (sqlite3.Error, OverflowError):
                        continue
            connection.close()
        store = Store(folder / "s")
        for entry in store.index.find():
            try:
                store.load(entry.id)
            except TrtbenchError:
                continue
        store.reindex(lambda run: None)

    run_cases("index", work, tmp_path, capsys)


SWEEP = b"""models = ["m.onnx", "torchvision:resnet18"]
runtime = ["onnxruntime"]
precision = ["fp32", "int8"]
batch = [1, 32]
rounds = 3
title = "a sweep"
shapes = { x = [1, 3] }
profile = [1, 8, 32]
task_settings = { normalize = "none" }
[options]
threads = [1, 2]
duration = "1s"
"build.optimization_level" = [3, 5]
[[exclude]]
runtime = "onnxruntime"
precision = "int8"
"""
YAML = b"""models: [m.onnx, &a other.onnx]
batch: [1, 8]
created: 2026-11-15
precision: fp32
options:
  threads: [1, 2]
  duration: 1s
exclude:
  - {runtime: onnxruntime, batch: 8}
"""


RULES = b"""p99 = "<5ms"
median = ["4ms", "6ms"]
max_slowdown = "3%"
expect = ["count(Einsum)>=1"]
gpu = { p99 = "<5ms" }
"""
HOSTS = b"""[[host]]
name = "board"
address = "me@board"
port = 22
options = ["Compression=yes"]
environment = { A = "b" }
gpus = 1
memory = "8GiB"
"""
SETTINGS = b"""store = "runs"
[defaults]
duration = "1s"
launches = 3
[runtimes.onnxruntime]
python = "/usr/bin/python3"
"""


@pytest.mark.usefixtures("bounded")
def test_sweep_files(tmp_path, capsys, monkeypatch) -> None:
    from trtbench.compare.gate import rules_from_file
    from trtbench.executors.ssh import hosts_from_file
    from trtbench.requests.settings import load_config
    from trtbench.store.store import Store
    from trtbench.sweep.matrix import cases_from_matrix, check_where_and_best, matrix_from_file
    from trtbench.sweep.records import JOURNAL, Journal, read_outline, start_sweep

    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    (tmp_path / "s.toml").write_bytes(SWEEP)
    asked = matrix_from_file(tmp_path / "s.toml")
    start_sweep(asked, tmp_path / "swept", store=Store(tmp_path / "store"))
    journal = Journal(tmp_path / "swept")
    for number in range(3):
        for what in ("begin", "done"):
            journal.add(what, "k", number, run=f"r{number}")
    whole = {
        "s.toml": SWEEP, "s.yaml": YAML,
        "sweep.json": (tmp_path / "swept" / "sweep.json").read_bytes(),
        JOURNAL: (tmp_path / "swept" / JOURNAL).read_bytes(),
        "rules.toml": RULES, "hosts.toml": HOSTS, "trtbench.toml": SETTINGS,
        "where": b"p99<5ms and (top1>=baseline-0.5% or not batch==8) and model=='m'",
    }  # fmt: skip

    def work(rng: random.Random, folder: Path) -> None:
        name = rng.choice(sorted(whole))
        data = damaged(whole[name], rng)
        (folder / name).write_bytes(data)
        if name == JOURNAL:
            lines = Journal(folder)
            lines.finished(), lines.unfinished()
        elif name == "sweep.json":
            read_outline(folder)
        elif name == "rules.toml":
            rules_from_file(folder / name)
        elif name == "hosts.toml":
            hosts_from_file(folder / name)
        elif name == "trtbench.toml":
            load_config(folder=folder)
        elif name == "where":
            check_where_and_best(data.decode("utf-8", "replace"), "items", asked)
        else:
            matrix = matrix_from_file(folder / name)
            cases_from_matrix(matrix, runtimes_of=lambda model: ["onnxruntime"])

    run_cases("sweep", work, tmp_path, capsys)


@pytest.mark.usefixtures("bounded")
def test_onnx_files(tmp_path, capsys) -> None:
    from trtbench.models.identity import model_ref
    from trtbench.workflows.inspect import inspect

    models.tiny_model(tmp_path / "a.onnx")
    models.conv_model(tmp_path / "b.onnx")
    whole = [(tmp_path / name).read_bytes() for name in ("a.onnx", "b.onnx")]

    def work(rng: random.Random, folder: Path) -> None:
        path = folder / "m.onnx"
        path.write_bytes(damaged(rng.choice(whole), rng))
        model_ref(path)
        inspect(path)

    run_cases("onnx", work, tmp_path, capsys)
