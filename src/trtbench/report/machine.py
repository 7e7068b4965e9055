"""What a report says of the machine a run took place on."""

from __future__ import annotations

from trtbench.domain.result import Environment
from trtbench.units import text_from_bytes


def facts_from_environment(environment: Environment) -> dict[str, str]:
    """Name what is known about a machine, in the order people ask; unknown facts are left out."""
    e = environment
    load = None if e.load_before is None else " ".join(f"{each:.2f}" for each in e.load_before)
    known: dict[str, object] = {
        "Host": e.host,
        "Operating system": e.os,
        "CPU": e.cpu,
        "Cores": e.cpu_cores,
        "Physical cores": e.cpu_physical_cores,
        "CPU governor": e.cpu_governor,
        "Virtual machine": e.virtual_machine,
        "Memory": None if e.memory_bytes is None else text_from_bytes(e.memory_bytes),
        "Load before (1, 5, 15 min)": load,
        **_gpu_facts(e),
        "Python": e.python,
        **dict(sorted(e.versions.items())),
        "Git commit": e.git_commit,
        **e.extra,
    }
    return {name: _words(value) for name, value in known.items() if value is not None}


def _gpu_facts(environment: Environment) -> dict[str, object]:
    facts: dict[str, object] = {}
    several = len(environment.gpus) > 1
    for index, gpu in enumerate(environment.gpus):
        name = f"GPU {index}" if several else "GPU"
        clock = gpu.sm_clock_max_hz
        facts |= {
            name: gpu.name,
            f"{name} memory": None
            if gpu.memory_bytes is None
            else text_from_bytes(gpu.memory_bytes),
            f"{name} driver": gpu.driver,
            f"{name} CUDA": gpu.cuda,
            f"{name} compute capability": gpu.compute_capability,
            f"{name} highest SM clock": None if clock is None else f"{clock / 1e6:.0f} MHz",
            f"{name} power limit": None
            if gpu.power_limit_w is None
            else f"{gpu.power_limit_w:g} W",
        }
    return facts


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
