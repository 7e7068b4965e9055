"""The real Python bindings of TensorRT: about a megabyte each, from the package index.

They are kept in a cache folder, so that an index is asked once. Older versions exist for x86-64
only.
"""

import os
import platform
import subprocess
import sys
import zipfile
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

DOWNLOAD_S = 120
PACKAGE = "tensorrt_bindings"


class NoWheel(Exception):
    """There is no wheel of a version for this machine, or no index to ask."""


def bindings(version: str) -> Path:
    """Make a folder with an unpacked version."""
    reasons = []
    for requirement in VERSIONS[version]:
        try:
            return _unpacked(requirement)
        except NoWheel as problem:
            reasons.append(str(problem))
    raise NoWheel(f"no bindings of TensorRT {version} for this machine: {reasons[0]}")


def cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "trtbench-tests"


def _unpacked(requirement: str) -> Path:
    kind = f"{platform.machine()}-{sys.version_info[1]}"
    folder = cache_folder() / "bindings" / f"{requirement.replace('==', '-')}-{kind}"
    if (folder / PACKAGE).is_dir():
        return folder
    wheel = _download(requirement, folder.with_name(f"{folder.name}.whl"))
    partial = folder.with_name(f"{folder.name}.part{os.getpid()}")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(partial)
    if not (folder / PACKAGE).is_dir():
        partial.rename(folder)
    return folder


def _download(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--dest", str(folder)]
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
