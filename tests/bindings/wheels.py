"""The real Python bindings of TensorRT: about a megabyte each, from the package index.

They are kept in a cache folder, so that an index is asked once. Older versions exist for x86-64
only; elsewhere they need an emulated interpreter, named by ``TRTBENCH_TEST_X86_PYTHON``, such as
``qemu-x86_64 -L ROOT ROOT/usr/bin/python3.11`` (with msgspec in it).
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

VERSIONS: dict[str, tuple[str, ...]] = {
    "8.6.1": ("tensorrt-bindings==8.6.1",),
    "10.0.1": ("tensorrt-cu12-bindings==10.0.1",),
    "10.3.0": ("tensorrt-cu12-bindings==10.3.0",),
    "10.9.0": ("tensorrt-cu12-bindings==10.9.0.34",),
    "10.13.3": ("tensorrt-cu13-bindings==10.13.3.9", "tensorrt-cu12-bindings==10.13.3.9"),
    "10.16.1": ("tensorrt-cu13-bindings==10.16.1.11", "tensorrt-cu12-bindings==10.16.1.11"),
    "11.0.0": ("tensorrt-cu13-bindings==11.0.0.114",),
    "11.4.0": ("tensorrt-cu13-bindings==11.4.0.106",),
}
"""Distributions of each version, the one for most machines first."""

X86_PLATFORMS = ("manylinux_2_17_x86_64", "manylinux_2_28_x86_64", "linux_x86_64")
DOWNLOAD_S = 120
PACKAGE = "tensorrt_bindings"


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """A Python that can import bindings, and the compiler for its stand-in libraries."""

    command: tuple[str, ...]
    compiler: str
    pip_flags: tuple[str, ...] = ()
    """Which wheels it takes, where it is not the Python of this process."""
    emulated: bool = False


class NoWheel(Exception):
    """There is no wheel of a version for an interpreter, or no index to ask."""


def interpreters() -> list[Interpreter]:
    """This Python, and the emulated one if there is one."""
    found = [Interpreter(command=(sys.executable,), compiler="gcc")]
    emulated = os.environ.get("TRTBENCH_TEST_X86_PYTHON")
    if emulated and platform.machine() != "x86_64":
        command = tuple(shlex.split(emulated))
        found.append(
            Interpreter(
                command=command,
                compiler="x86_64-linux-gnu-gcc",
                pip_flags=(
                    *(f"--platform={name}" for name in X86_PLATFORMS),
                    f"--python-version={_version_of(command)}",
                    "--only-binary=:all:",
                ),
                emulated=True,
            )
        )
    return found


def bindings(version: str) -> tuple[Interpreter, Path]:
    """Make an unpacked version and the interpreter it is for; this Python is preferred."""
    reasons = []
    for interpreter in interpreters():
        for requirement in VERSIONS[version]:
            try:
                return interpreter, _unpacked(requirement, interpreter)
            except NoWheel as problem:
                reasons.append(str(problem))
    raise NoWheel(f"no bindings of TensorRT {version} for this machine: {reasons[0]}")


def cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "trtbench-tests"


def _unpacked(requirement: str, interpreter: Interpreter) -> Path:
    kind = "x86" if interpreter.emulated else f"{platform.machine()}-{sys.version_info[1]}"
    folder = cache_folder() / "bindings" / f"{requirement.replace('==', '-')}-{kind}"
    if (folder / PACKAGE).is_dir():
        return folder
    wheel = _download(requirement, interpreter, folder.with_name(f"{folder.name}.whl"))
    partial = folder.with_name(f"{folder.name}.part{os.getpid()}")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(partial)
    if not (folder / PACKAGE).is_dir():
        partial.rename(folder)
    return folder


def _download(requirement: str, interpreter: Interpreter, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--dest", str(folder), *interpreter.pip_flags]
    try:
        done = subprocess.run(
            [*command, requirement], capture_output=True, text=True, timeout=DOWNLOAD_S
        )
    except subprocess.TimeoutExpired:
        raise NoWheel(f"the package index did not answer within {DOWNLOAD_S} s") from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        told = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NoWheel(told[-1] if told else f"{requirement} is no wheel")
    return wheels[0]


def _version_of(command: tuple[str, ...]) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run(
        [*command, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()
