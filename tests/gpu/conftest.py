"""What the tests on a GPU need: a device, TensorRT, and a small engine built there."""

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trtbench.cli import run
from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.jobs import Job, JobEnd, ReportedError
from trtbench.host.cuda import cuda_problem
from trtbench.measure import bench

CHANNELS = 64
IMAGE = (CHANNELS, 112, 112)
LAYERS = 16
"""Of the shorter of two stacks: one more takes 6 % longer, far beyond what a busy host moves."""

os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")
"""For every process of these tests: loading all kernels of TensorRT's builder takes seconds."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    problem = cuda_problem()
    if importlib.util.find_spec("tensorrt") is None:
        problem = "TensorRT is not installed"
    for item in items:
        if Path(item.path).parent != Path(__file__).parent:
            continue
        item.add_marker(pytest.mark.gpu)
        if problem:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {problem}"))


@pytest.fixture(scope="session")
def engine(stack_engines: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stack of convolutions for batches of 1 to 8, in FP16 where the version still chooses.

    Large enough that the GPU, not the launching of kernels, takes the time.
    """
    path = tmp_path_factory.mktemp("engine") / "stack.engine"
    stack_engines([path], layers=[12], batch=(1, 2, 8))
    return path


@pytest.fixture(scope="session")
def stacks(
    stack_engines: Callable[..., None], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """Two engines of equal layers with the same kernels, the second with one layer more."""
    folder = tmp_path_factory.mktemp("stacks")
    paths = folder / "less.engine", folder / "more.engine"
    stack_engines(paths, layers=[LAYERS, LAYERS + 1])
    return paths


SERVE = """
import os, runpy, sys
from trtbench.worker import main
out, err = os.dup(1), os.dup(2)
for line in sys.stdin:
    job, folder = line.rstrip("\\n").split("\\t")
    log = os.open(os.path.join(folder, "log.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1), os.dup2(log, 2), os.close(log)
    status = main([job, folder]) if job.endswith(".json") else int(not runpy.run_path(job))
    sys.stdout.flush(), sys.stderr.flush()
    os.dup2(out, 1), os.dup2(err, 2)
    print("done", status, flush=True)
"""
"""Does jobs as workers do, and runs scripts, each with a log in its folder."""
STACKS = """
import sys
from pathlib import Path
sys.path.insert(0, {beside!r})
from _engines import conv_engines
conv_engines([Path(each) for each in {paths!r}], channels={channels}, size={size}, **{more!r})
"""


class BuilderProcess:
    """A worker that does one build after the other: loading TensorRT's builder takes ten seconds.

    One that does not survive a build is started again for the next.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def do(self, job: Path, folder: Path) -> int | None:
        """Do one job; gives its status, and that of a process that broke under it as none."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{job}\t{folder}\n")
        process.stdin.flush()
        watch = threading.Timer(600, process.kill)
        watch.start()
        try:
            for line in process.stdout:
                if line.startswith("done "):
                    return int(line.split()[1])
        finally:
            watch.cancel()
        process.wait()
        return None

    def carry_out(self, job: Job, *, folder: Path, **_: Any) -> JobEnd:
        """Do a job for a workflow, which would start a process for it."""
        began = time.monotonic()
        (folder / "job.json").write_bytes(json_from_value(job))
        status = self.do(folder / "job.json", folder)
        told = folder / "error.json"
        error = (
            value_from_json(told.read_bytes(), ReportedError, where="") if told.is_file() else None
        )
        return JobEnd(
            seconds=time.monotonic() - began, stage="build", exit_status=status, error=error
        )

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", SERVE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log.open("a"),
                text=True,
            )
        return self._process


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuilderProcess]:
    process = BuilderProcess(tmp_path_factory.mktemp("builder") / "log.txt")
    yield process
    process.close()


@pytest.fixture(scope="session", autouse=True)
def _builds_are_warm(builder: BuilderProcess) -> Iterator[None]:
    """Have commands and workflows build there too: a process of its own for each takes minutes."""
    with pytest.MonkeyPatch.context() as patch:
        warm = SimpleNamespace(**{**vars(bench), "run_job": builder.carry_out})
        patch.setattr("trtbench.convert.build.bench", warm)
        yield


@pytest.fixture(scope="session")
def timing_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all builds whose subject it is not: kernels of the same layers are timed once."""
    return tmp_path_factory.mktemp("timing") / "timing.cache"


@pytest.fixture(scope="session")
def built(timing_cache: Path) -> Callable[..., str]:
    """Build an engine by the command, with as little search as ``build_job``; gives its path.

    An item is ``NAME:SHAPE`` of an input without its batch, which may then be 1 to 16.
    """

    def build(model: Path, engine: Path, *more: str, item: str | None = None) -> str:
        words = ["--optimization-level", "1", "--timing-cache", str(timing_cache)]
        for end, items in {"min": 1, "opt": 8, "max": 16}.items() if item else ():
            words += [f"--shape-{end}", str(item).replace(":", f":{items}x")]
        assert run(["build", str(model), "-o", str(engine), "-r", "tensorrt", *words, *more]) == 0
        return str(engine)

    return build


@pytest.fixture(scope="session")
def build_job(builder: BuilderProcess, timing_cache: Path) -> Callable[..., dict[str, Any]]:
    """Build a model into a folder as ``net.engine``; gives the outcome, or the error.

    With little search for the best kernel: what is built matters here, not how fast it is.
    """

    def job(model: Path, folder: Path, **changes: Any) -> dict[str, Any]:
        folder.mkdir(exist_ok=True)
        spec = {
            "model": {"path": str(model), "format": "onnx"},
            "output": str(folder / "net.engine"),
            "runtime": "tensorrt",
            "timing_cache": str(timing_cache),
            "optimization_level": 1,
            **changes,
        }
        (folder / "job.json").write_text(json.dumps({"job": "build", "spec": spec}))
        status = builder.do(folder / "job.json", folder)
        for name in ("error.json", "outcome.json"):
            if (folder / name).is_file():
                return json.loads((folder / name).read_text())
        raise AssertionError(f"status {status}: {(folder / 'log.txt').read_text()[-2000:]}")

    return job


@pytest.fixture(scope="session")
def stack_engines(
    builder: BuilderProcess, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., None]:
    """Build stacks of convolutions, as the benchmarks do, where the builder is loaded already."""
    beside = Path(__file__).resolve().parents[2] / "benchmarks"

    def build(paths: Sequence[Path], **more: Any) -> None:
        folder = tmp_path_factory.mktemp("script")
        script, names = folder / "stacks.py", [str(each) for each in paths]
        script.write_text(
            STACKS.format(
                beside=str(beside), paths=names, channels=CHANNELS, size=IMAGE[1], more=more
            )
        )
        builder.do(script, folder)
        assert all(each.is_file() for each in paths), (folder / "log.txt").read_text()[-2000:]

    return build
