"""Fixtures that every folder of tests may use."""

import gc
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import every_test
from command import Say, in_folder
from fix_lines import wrong_advice
from made_artefacts import install_trtexec, make_artefacts
from ready_processes import ready_processes
from real_parts import find_browser, find_torch
from trtbench import cli
from trtbench.core import safety
from trtbench.core.properties import variable_of
from waiting import wait_for

ABOVE = [each / "shared" for each in Path(__file__).resolve().parents[1:4]]
BESIDE = next((each for each in ABOVE if (each / "artefacts").is_dir()), ABOVE[0])
for _name in ("analysis", "executors", "host", "report", "standin", "store", "tasks", "trtexec"):
    sys.path.append(str(Path(__file__).parent / _name))  # helpers of theirs that others use too
collect_ignore_glob = [] if BESIDE.is_dir() else ["*/test_beside*.py"]


def pytest_configure(config: pytest.Config) -> None:
    every_test.set_up(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    every_test.mark_parts(items)


def pytest_collection_finish() -> None:
    """Leave thousands of tests out of every search for garbage, which measuring begins with."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return every_test.scheduler(config, log)


@pytest.fixture(scope="session", autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep this test process's locks to itself: other measurements on the machine may go on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRTBENCH_LOCKS", str(tmp_path_factory.mktemp("locks")))
        yield


@pytest.fixture(autouse=True)
def no_secrets() -> Iterator[None]:
    """Forget the passwords of a test, which would be masked in every text of the next."""
    yield
    safety._remembered.clear()


@pytest.fixture(scope="session", autouse=True)
def plain_environment() -> Iterator[None]:
    """Leave out variables that libraries obey: findings tell of them, here as anywhere."""
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(variable_of, list(os.environ)):
            patch.delenv(name)
        yield


@pytest.fixture(scope="session", autouse=True)
def fixes_are_tried() -> Iterator[None]:
    """Fail where a command of a test prints a fix that cannot be typed after it."""

    def show(problem: cli.TrtbenchError) -> int:
        words = sys._getframe(1).f_locals.get("arguments", ())
        wrong = list(wrong_advice(problem.fix or "", words))
        assert not wrong, f"after {words}, fix: {problem.fix}: {wrong}"
        return shown(problem)

    shown = cli.show_error
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "show_error", show)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_starts() -> Iterator[None]:
    """Under ``make test``, commands and workers begin as copies of a process that is ready."""
    if os.environ.get("TRTBENCH_TEST_REAL") != "0" or sys.platform != "linux":
        yield
        return
    with ready_processes():
        yield


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files as trtexec leaves them, of our own making."""
    return make_artefacts(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="session")
def beside() -> Path:
    """Files from other machines; tests of their numbers (test_beside*.py) are there with them."""
    return BESIDE / "artefacts"


@pytest.fixture(scope="session", params=["made", *(["beside"] if BESIDE.is_dir() else [])])
def artefacts(request: pytest.FixtureRequest) -> Path:
    """Each folder of files that trtexec left: our own, and others where they are."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def pasted() -> Path:
    """Texts that people kept of trtexec, where they lie beside the checkout."""
    return BESIDE / "pasted"


@pytest.fixture(scope="session")
def torch_python() -> str:
    """An interpreter with PyTorch, which is seldom the one that runs the tests."""
    found = find_torch()
    if found is None:
        pytest.skip("no PyTorch: set TRTBENCH_TEST_TORCH_PYTHON, or make .venv-torch/.installed")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, where there is one; no browser is ever downloaded."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium here (apt-get install chromium)")
    flags = [
        "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
        "--disable-dev-shm-usage",
    ]  # fmt: skip
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, headless=True, args=flags)
        yield started
        started.close()


@pytest.fixture(scope="session")
def tensorrt_rtx() -> None:
    """TensorRT-RTX, whose builder needs no GPU."""
    if importlib.util.find_spec("tensorrt_rtx") is None:
        pytest.skip("TensorRT-RTX is not installed: trtbench[rtx]")


@pytest.fixture(scope="session")
def docs_python() -> str:
    """The interpreter with Sphinx and nbclient that ``make docs`` sets up."""
    found = Path(__file__).resolve().parents[1] / ".venv-docs" / "bin" / "python"
    if not found.is_file():
        pytest.skip("no tools of the documentation: make docs")
    return str(found)


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Type commands in a folder of the test's own."""
    return in_folder(tmp_path, monkeypatch, capsys)


class Standin:
    """The stand-in for trtexec, on the search path, told how to behave by the environment."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        self.binary = install_trtexec(folder / "bin")
        monkeypatch.setenv("PATH", f"{self.binary.parent}{os.pathsep}{os.environ['PATH']}")
        self.pidfile = folder / "trtexec.pid"
        monkeypatch.setenv("STANDIN_PIDFILE", str(self.pidfile))
        self.version("10.9.0")

    def version(self, version: str) -> None:
        self._monkeypatch.setenv("STANDIN_VERSION", version)
        self._version = version

    def behave(self, *words: str, pause_s: float = 0.0) -> None:
        self._monkeypatch.setenv("STANDIN_BEHAVIOUR", ",".join(words))
        self._monkeypatch.setenv("STANDIN_PAUSE", str(pause_s))

    def engine(self, *, detailed: bool = True, **edges: dict[str, str]) -> Path:
        """Make an engine as the stand-in of the version at hand saves it.

        ``inputs`` and ``outputs`` are shapes by name; without them it has one of each.
        """
        path = self.folder / f"net-{self._version}.engine"
        numbers = bytes(int(part) for part in self._version.split("."))
        facts = {"detailed": detailed, "shape": "1x3x8x8", **edges}
        head = b"ftrt" + (1).to_bytes(4, "little") + bytes(16) + numbers + bytes([34])
        path.write_bytes(head.ljust(64, b"\0") + json.dumps(facts).encode())
        return path

    def onnx(self, content: bytes = b"\x08\x08 a model") -> Path:
        path = self.folder / "net.onnx"
        path.write_bytes(content)
        return path

    def alive(self) -> bool:
        """Look whether the stand-in that was started last still runs."""
        try:
            state = Path(f"/proc/{self.pidfile.read_text()}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return state.rpartition(")")[2].split()[0] != "Z"

    def gone(self) -> bool:
        """Wait for the end of the stand-in: a killed process takes its moment to vanish."""
        return wait_for(lambda: not self.alive())


@pytest.fixture
def trtexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Standin:
    """A stand-in trtexec on PATH, with locks and stores of the test's own."""
    home = tmp_path / "standin"
    home.mkdir()
    monkeypatch.setenv("TRTBENCH_LOCKS", str(home / "locks"))
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    return Standin(home, monkeypatch)
