"""The environment of a run: the machine, its GPUs, its libraries and its load.

What cannot be read is ``None`` or absent; nothing here raises.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from types import ModuleType

from trtbench.domain.result import Environment, Gpu, Scalar
from trtbench.domain.variables import text_from_variables
from trtbench.host import machine, nvml
from trtbench.host.contention import contention
from trtbench.host.git import commit_of
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
        "mps_thread_percentage": os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
        "variables": text_from_variables(os.environ),
        **machine.board(root=root),
        **contention(root=root),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _gpu_facts(gpus: tuple[Gpu, ...], *, nvml_module: ModuleType | None) -> dict[str, Scalar]:
    """Signs that a GPU is shared, as ``gpu0_processes``, ``gpu0_utilisation``, ``gpu0_mig``.

    Modes are those of the whole GPU; of a slice, processes of other slices are none of its own.
    """
    facts: dict[str, Scalar] = {}
    for index, (gpu, whole) in enumerate(zip(gpus, nvml.gpus(nvml=nvml_module), strict=True)):
        signs = nvml.sharing(whole.uuid, nvml=nvml_module) if whole.uuid else {}
        if gpu.uuid and gpu.uuid != whole.uuid:
            others = nvml.processes(gpu.uuid, nvml=nvml_module)
            signs = {**signs, "processes": None if others is None else len(others)}
        facts |= {f"gpu{index}_{sign}": each for sign, each in signs.items() if each is not None}
    return facts


def _load() -> tuple[float, float, float] | None:
    try:
        return os.getloadavg()
    except (AttributeError, OSError):
        return None
