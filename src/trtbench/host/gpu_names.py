"""Which GPU a name like ``cuda:0`` stands for, whatever this process is allowed to see."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import ModuleType

from trtbench.domain.result import Gpu
from trtbench.host.nvml import gpus, slices

SLOT_VARIABLE = "TRTBENCH_CPU_SLOT"
"""Set by who lets several CPU runs share this machine on purpose: each slot has its own lock."""

_CUDA = re.compile(r"cuda(?::(\d+))?")


def lock_name(device: str, *, nvml: ModuleType | None = None) -> str:
    """Name a device so that two processes with other views of the machine mean the same one."""
    if device == "cpu":
        slot = os.environ.get(SLOT_VARIABLE, "0")
        return device if slot == "0" else f"cpu-{slot}"
    known = devices(nvml=nvml)
    name = _visible(device, None, nvml)
    if name is None:
        return device
    return _uuid(name, known) or (f"cuda:{name}" if name.isdecimal() else name)


def gpu_uuid(
    device: str, *, environment: Mapping[str, str] | None = None, nvml: ModuleType | None = None
) -> str | None:
    """Find the UUID of a CUDA device; ``None`` where NVML does not tell, or it is none."""
    known = devices(nvml=nvml)
    name = _visible(device, environment, nvml)
    return None if name is None else _uuid(name, known)


def _visible(
    device: str, environment: Mapping[str, str] | None, nvml: ModuleType | None
) -> str | None:
    """Tell what CUDA calls what this process calls ``cuda:0``; ``None`` if it sees none."""
    match = _CUDA.fullmatch(device)
    if match is None:
        return None
    number, names = int(match[1] or 0), visible_names(environment=environment, nvml=nvml)
    return names[number] if number < len(names) else None


def visible_names(
    *, environment: Mapping[str, str] | None = None, nvml: ModuleType | None = None
) -> list[str]:
    """List what CUDA calls the devices that this process sees, in its order."""
    given = os.environ if environment is None else environment
    listed = given.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return [str(number) for number in range(len(gpus(nvml=nvml)))]
    return [word.strip() for word in listed.split(",") if word.strip()]


def devices(*, nvml: ModuleType | None = None) -> list[tuple[Gpu, ...]]:
    """List for each GPU what CUDA can open of it: itself, or its MIG slices."""
    return [slices(index, nvml=nvml) or (gpu,) for index, gpu in enumerate(gpus(nvml=nvml))]


def in_use(whole: Gpu, parts: tuple[Gpu, ...], environment: Mapping[str, str]) -> Gpu:
    """Name a divided GPU by the slice that is seen here: the one that is listed, or the first."""
    if parts == (whole,):
        return whole
    listed = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
    words = tuple(word.strip() for word in listed if word.strip().startswith("MIG-"))
    seen = [each for each in parts if words and (each.uuid or "").startswith(words)]
    part = (seen or list(parts))[0]
    return whole.having(name=part.name, uuid=part.uuid, memory_bytes=part.memory_bytes)


def gpus_in_use(
    *, environment: Mapping[str, str] | None = None, nvml: ModuleType | None = None
) -> tuple[Gpu, ...]:
    """List the GPUs in NVML's order, each divided one by the slice of it that is seen here."""
    given = os.environ if environment is None else environment
    both = zip(gpus(nvml=nvml), devices(nvml=nvml), strict=True)
    return tuple(in_use(whole, parts, given) for whole, parts in both)


def gpu_in_use(
    index: int = 0, *, environment: Mapping[str, str] | None = None, nvml: ModuleType | None = None
) -> Gpu | None:
    """Find the GPU, or the slice of one, that CUDA calls by this number here."""
    if index >= len(visible_names(environment=environment, nvml=nvml)):
        return None
    seen = gpus_in_use(environment=environment, nvml=nvml)
    place = visible_index(index, environment=environment, nvml=nvml)
    return seen[place] if place < len(seen) else None


def visible_index(
    index: int, *, environment: Mapping[str, str] | None = None, nvml: ModuleType | None = None
) -> int:
    """Find NVML's number of a GPU: CUDA counts only those ``CUDA_VISIBLE_DEVICES`` shows."""
    names = visible_names(environment=environment, nvml=nvml)
    if index >= len(names):
        return index
    if names[index].isdecimal():
        return int(names[index])
    found = index_of_name(names[index], nvml=nvml)  # a UUID, of a GPU or of a MIG slice
    return index if found is None else found


def slice_in_use(
    index: int, *, environment: Mapping[str, str] | None = None, nvml: ModuleType | None = None
) -> str | None:
    """Tell the UUID of the MIG slice of a GPU that is seen here; ``None`` where it is whole."""
    seen = gpus_in_use(environment=environment, nvml=nvml)
    uuid = seen[index].uuid if index < len(seen) else None
    return uuid if uuid and uuid.startswith("MIG-") else None


def index_of_name(name: str, *, nvml: ModuleType | None = None) -> int | None:
    """Find NVML's number of the GPU that CUDA calls by a UUID, a slice's or its own."""
    for index, (gpu, parts) in enumerate(zip(gpus(nvml=nvml), devices(nvml=nvml), strict=True)):
        if any((each.uuid or "").startswith(name) for each in (gpu, *parts)):
            return index
        # Drivers before 470 name a slice by its GPU: MIG-GPU-…/1/0.
        if gpu.uuid and name.startswith(f"MIG-{gpu.uuid}/"):
            return index
    return None


def _uuid(name: str, known: list[tuple[Gpu, ...]]) -> str | None:
    """CUDA takes an index, a UUID or the beginning of one; of a divided GPU the first slice."""
    if name.isdecimal():
        return known[int(name)][0].uuid if int(name) < len(known) else None
    uuids = (each.uuid for parts in known for each in parts)
    return next((uuid for uuid in uuids if uuid and uuid.startswith(name)), name)
