"""A TensorRT-RTX for tests: its builder needs no GPU, so engines can really be built.

Looked for in this order: the interpreter in ``TRTBENCH_TEST_RTX_PYTHON``, ``.venv-rtx`` in the
checkout, this interpreter, and a folder of the cache that is filled from the package index (about
100 MB, half a minute, once).
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import site
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bindings.wheels import cache_folder

REQUIREMENT = "tensorrt-rtx-cu13"
OLDER = "1.6.1.120"
"""For what compares two versions: an interpreter of its own, in the cache too (300 MB)."""
INSTALL_S = 300


@dataclass(frozen=True, kw_only=True)
class Rtx:
    """How a worker gets to TensorRT-RTX."""

    python: str | None = None
    """Another interpreter; ``None`` is this one."""
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python or sys.executable, *arguments],
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
        )

    def interpreter(self, folder: Path) -> str:
        """Tell an interpreter that needs no environment, which another would obey too."""
        if not self.env:
            return self.python or sys.executable
        venv.create(folder, with_pip=False)
        [packages] = folder.glob("lib/python3*/site-packages")
        found = [self.env["PYTHONPATH"].split(os.pathsep)[0], *site.getsitepackages()]
        (packages / "rtx.pth").write_text("\n".join(found))
        return str(folder / "bin" / "python")

    def has(self, module: str) -> bool:
        return self.run("-c", f"import {module}").returncode == 0


class NoRtx(Exception):
    """TensorRT-RTX is not here and cannot be fetched."""


def find_rtx() -> Rtx:
    """Make a TensorRT-RTX that imports, or say why there is none."""
    given = os.environ.get("TRTBENCH_TEST_RTX_PYTHON")
    beside = Path(__file__).resolve().parents[2] / ".venv-rtx" / "bin" / "python"
    if given or beside.is_file():
        return _checked(Rtx(python=given or str(beside)))
    if importlib.util.find_spec("tensorrt_rtx") is not None:
        return _checked(Rtx())
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join(filter(None, [str(_fetched()), before]))
    return _checked(Rtx(env={"PYTHONPATH": path}))


def older_python() -> str:
    """Make an interpreter that has an older TensorRT-RTX, or say why there is none."""
    folder = cache_folder() / f"rtx-{OLDER}-py{sys.version_info[0]}{sys.version_info[1]}"
    python = folder / "bin" / "python"
    with _held(folder):
        if not (folder / "whole").is_file():
            venv.create(folder, with_pip=False, clear=True)
            [packages] = folder.glob("lib/python3*/site-packages")
            _install(packages, f"{REQUIREMENT}=={OLDER}", "numpy", "msgspec")
            (folder / "whole").touch()
    return str(_checked(Rtx(python=str(python))).python)


def _checked(rtx: Rtx) -> Rtx:
    done = rtx.run("-c", "import tensorrt_rtx, msgspec, numpy")
    if done.returncode:
        raise NoRtx(f"tensorrt_rtx does not import: {done.stderr.strip().splitlines()[-1]}")
    return rtx


def _fetched() -> Path:
    folder = cache_folder() / f"rtx-py{sys.version_info[0]}{sys.version_info[1]}"
    with _held(folder):
        if not (folder / "tensorrt_rtx").is_dir():
            _install(folder, REQUIREMENT)
    return folder


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Have other test processes wait instead of fetching again."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f"{folder.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(folder: Path, *requirements: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--retries", "1", "--target", str(folder), *requirements]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
    except subprocess.TimeoutExpired:
        raise NoRtx(f"{requirements[0]} could not be fetched within {INSTALL_S} s") from None
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NoRtx(f"{requirements[0]} could not be fetched: {told[-1] if told else 'pip failed'}")
