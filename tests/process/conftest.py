"""A command line to start for real, and a runtime that misbehaves on demand."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pytest

import models
from command import Said
from trtbench.core.run import Environment, FailedRun, RunRecord
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.store.directory import new_id, now, write_record, write_samples
from trtbench.store.store import Store
from waiting import wait_for

HERE = Path(__file__).resolve().parent
PLUGIN = HERE / "plugin"


@pytest.fixture(scope="session")
def plugin_folder(tmp_path_factory) -> Path:
    """The plug-in package, really built and installed into a folder of its own."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-build-isolation", "--target", str(target), str(PLUGIN)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot install the plug-in here: {done.stderr.strip()[-300:]}")
    return target


@dataclass
class Started:
    """A command that runs; its talk goes to a file, so that nobody has to read it."""

    process: subprocess.Popen
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self, text: str) -> bool:
        return text in self.log.read_text()

    def send(self, number: int) -> Said:
        self.process.send_signal(number)
        return self.result()

    def result(self, status: int | None = None) -> Said:
        """Wait for the end; with ``status``, a command that ends otherwise fails the test."""
        out, _ = self.process.communicate()
        said = Said(self.process.returncode, out, self.log.read_text())
        assert status in (None, said.status), said
        return said


@dataclass
class Bench:
    """Starts ``python -m trtbench`` in a world of its own: store, locks and configuration."""

    folder: Path
    environment: dict[str, str]
    model: Path
    started: list[Started] = field(default_factory=list)

    @property
    def store(self) -> Store:
        return Store(self.folder / "store")

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "trtbench", *map(str, arguments)]

    def bench_arguments(self, behaviour: str | None, *flags: object) -> list[object]:
        chosen = [] if behaviour is None else ["-r", "misbehaving", "--opt", f"do={behaviour}"]
        quick = ["--batch", 1, "--warmup", "10ms", "--no-until-steady"]
        length = [] if "--duration" in flags else ["--duration", "50ms"]
        return ["bench", self.model, *chosen, *quick, *length, *flags]

    def start(self, *arguments: object, **popen: object) -> Started:
        log = self.folder / f"stderr-{len(self.started)}.txt"
        with open(log, "w") as sink:
            process = subprocess.Popen(
                self.command(*arguments),
                env=self.environment,
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                **popen,
            )
        self.started.append(Started(process, log))
        return self.started[-1]

    def run(self, *arguments: object, status: int | None = None, **popen: object) -> Said:
        return self.start(*arguments, **popen).result(status)

    def bench(self, behaviour: str | None, *flags: object, **popen: object) -> Said:
        return self.run(*self.bench_arguments(behaviour, *flags), **popen)

    def bench_out_of_time(self, behaviour: str, *flags: object) -> Said:
        """Let a measurement run out of time after it began; a busy machine begins late."""
        ready = self.model.with_suffix(".ready")
        for seconds in (0.4, 4, 25, 125):
            result = self.bench(behaviour, "--timeout", f"{seconds}s", *flags)
            if ready.exists():
                break
            for each in self.store.index.find(kind="failed"):
                self.store.remove(each.id)
        return result

    def store_run(self) -> str:
        """Put a finished run into the store, without the time a measurement takes."""
        run_id = new_id()
        reference = ModelRef(path=str(self.model), format="onnx")
        spec = RunSpec(model=reference, runtime="onnxruntime")
        here = Environment(host="here", os="Linux")
        record = RunRecord(id=run_id, created=now(), spec=spec, environment=here)
        with self.store.new_run(run_id) as folder:
            write_samples(folder, IterationTimes(host=np.full(10, 1e-3)))
            write_record(folder, record)
        self.store.add(record, path=self.store.directory(run_id))
        return run_id

    def last_failure(self) -> FailedRun:
        entry = self.store.index.find(kind="failed", limit=1)[0]
        failed = self.store.load(entry.id)
        assert isinstance(failed, FailedRun)
        return failed

    def workers(self) -> list[psutil.Process]:
        """Processes of this world that are alive: they work in its folder."""
        return [each for each in psutil.process_iter() if self._is_ours(each)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE or process.pid == os.getpid():
                return False
            return process.cwd() == str(self.folder)
        except psutil.Error:
            return False

    def wait_until_at_work(self) -> None:
        """Wait until the misbehaving runtime has begun to."""
        ready = self.model.with_suffix(".ready")
        wait_for(ready.exists)
        ready.unlink()

    def wait_until_quiet(self) -> list[psutil.Process]:
        """Wait for the end of every process of this world; those that stay fail the test."""
        wait_for(lambda: not self.workers())
        return []

    def unfinished(self) -> list[str]:
        runs = self.folder / "store" / "runs"
        return [each.name for each in runs.iterdir() if each.name.startswith(".")]


@pytest.fixture
def world(tmp_path, plugin_folder) -> Bench:
    (tmp_path / "tmp").mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(plugin_folder),
        "TRTBENCH_TEST_STARTS": "workers",
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "TRTBENCH_STORE": str(tmp_path / "store"),
        "TMPDIR": str(tmp_path / "tmp"),
        "TRTBENCH_LOCKS": str(tmp_path / "tmp" / "trtbench-locks"),
    }
    made = Bench(tmp_path, environment, models.tiny_model(tmp_path / "tiny.onnx"))
    yield made
    for process in made.workers():  # only what this world started, should a test have failed
        process.kill()
