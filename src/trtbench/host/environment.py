"""The environment of a run: the machine, its GPUs, its libraries and its load.

What cannot be read is ``None`` or absent; nothing here raises.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path
from types import ModuleType

from trtbench.domain.result import Environment, Gpu, Scalar
from trtbench.domain.variables import text_from_variables
from trtbench.host import machine, nvml
from trtbench.host.contention import contention
from trtbench.host.files import text_of
from trtbench.host.gpu_names import gpus_in_use
from trtbench.host.versions import library_versions

ROOT = Path("/")


def read_environment(
    *,
    command: str | None,
    folder: Path,
    label: str | None = None,
    root: Path = ROOT,
    nvml_module: ModuleType | None = None,
) -> Environment:
    """Describe where a run takes place, before it starts; about 10 ms without a GPU.

    Starting NVML adds 20 ms, and 100 ms the first time in a process.
    The root and the NVML module are doors for tests: another machine's files, another's GPUs.
    """
    with nvml.kept_open(nvml=nvml_module):
        found = gpus_in_use(nvml=nvml_module)
        gpu_facts = _gpu_facts(found, nvml_module=nvml_module)
    return Environment(
        host=platform.node() or "unknown",
        os=machine.os_name(root=root),
        python=platform.python_version(),
        cpu=machine.cpu_model(root=root),
        cpu_cores=os.cpu_count(),
        cpu_physical_cores=machine.physical_cores(root=root),
        cpu_governor=machine.governor(root=root),
        virtual_machine=machine.virtual_machine(root=root),
        load_before=_load(),
        memory_bytes=machine.memory_bytes("MemTotal", root=root),
        memory_available_bytes=machine.memory_bytes("MemAvailable", root=root),
        gpus=found,
        versions=library_versions(),
        git_commit=commit_of(folder),
        command=command,
        machine=label,
        extra={**_machine_facts(root=root), **gpu_facts},
    )


def _machine_facts(*, root: Path) -> dict[str, Scalar]:
    facts: dict[str, Scalar] = {
        "python_path": sys.executable or None,
        "turbo": machine.turbo(root=root),
        "smt": machine.threads_share_cores(root=root),
        "allowed_cpus": machine.allowed_cpus(),
        "container": machine.container(root=root),
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        **mps_settings(),
        "variables": text_from_variables(os.environ),
        **machine.board(root=root),
        **contention(root=root),
    }
    return {name: value for name, value in facts.items() if value is not None}


def mps_settings() -> dict[str, Scalar]:
    """Say whether programs that are started from here go through MPS, and with what share."""
    pipes = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps")
    # Path.exists raises where a folder may not be entered, up to Python 3.11.
    runs = os.path.exists(pipes / "control")  # noqa: PTH110
    found: dict[str, Scalar] = {
        "mps_daemon": str(pipes) if runs else None,
        "mps_thread_percentage": os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
        "mps_memory_limit": os.environ.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _gpu_facts(gpus: tuple[Gpu, ...], *, nvml_module: ModuleType | None) -> dict[str, Scalar]:
    """Find signs that a GPU is shared, as ``gpu0_processes``, ``gpu0_utilisation``, ``gpu0_mig``.

    Modes are those of the whole GPU; of a slice, processes of other slices are none of its own.
    """
    facts: dict[str, Scalar] = {}
    daemon = "mps_daemon" in mps_settings()  # the next program will go through it
    for index, (gpu, whole) in enumerate(zip(gpus, nvml.gpus(nvml=nvml_module), strict=True)):
        signs = nvml.sharing(whole.uuid, nvml=nvml_module) if whole.uuid else {}
        if gpu.uuid and gpu.uuid != whole.uuid:
            others = nvml.processes(gpu.uuid, nvml=nvml_module)
            signs = {**signs, "processes": None if others is None else len(others)}
        signs = {**signs, "mps": True} if daemon else signs
        facts |= {f"gpu{index}_{sign}": each for sign, each in signs.items() if each is not None}
    return facts


def _load() -> tuple[float, float, float] | None:
    try:
        return os.getloadavg()
    except (AttributeError, OSError):
        return None


_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DEEPEST_LINK = 5
"""Git itself follows symbolic references five deep."""


def commit_of(folder: Path) -> str | None:
    """Return the commit checked out in the repository around a folder, if there is one.

    Whether files differ from that commit is not looked at: that takes git's own index walk.
    """
    git = _git_folder(folder)
    if git is None:
        return None
    common = _common_folder(git)
    value = text_of(git / "HEAD")
    for _ in range(_DEEPEST_LINK):
        if value is None or not value.startswith("ref:"):
            break
        value = _reference(value[4:].strip(), git=git, common=common)
    return value if value and _COMMIT.fullmatch(value) else None


def _git_folder(folder: Path) -> Path | None:
    try:
        start = folder.resolve()
    except (OSError, RuntimeError):
        return None
    for place in (start, *start.parents):
        found = place / ".git"
        # A worktree or submodule has a file that names the folder.
        link = text_of(found)
        if link and link.startswith("gitdir:"):
            return place / link[7:].strip()
        if text_of(found / "HEAD") is not None:
            return found
    return None


def _common_folder(git: Path) -> Path:
    """Find where branches are: those of a worktree live in the main repository's folder."""
    link = text_of(git / "commondir")
    return git / link if link else git


def _reference(name: str, *, git: Path, common: Path) -> str | None:
    if ".." in name or name.startswith("/"):
        return None
    for place in (git, common):
        value = text_of(place / name)
        if value is not None:
            return value
    for line in (text_of(common / "packed-refs") or "").splitlines():
        commit, _, packed = line.partition(" ")
        if packed.strip() == name:
            return commit
    return None
