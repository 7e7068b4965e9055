"""What a report says of the machine a run took place on."""

from __future__ import annotations

import re

from trtbench.domain.result import Environment
from trtbench.units import text_from_bytes, text_from_seconds

TITLES = {
    "python_path": "Python path",
    "smt": "SMT",
    "allowed_cpus": "Allowed CPUs",
    "mps_daemon": "MPS daemon",
    "mps_thread_percentage": "MPS threads (%)",
    "mps_memory_limit": "MPS memory",
    "cpu_steal_fraction_since_boot": "CPU stolen since boot",
    "pressure_fraction_10s": "Waiting for a CPU, before",
    "throttled_s_so_far": "CPU throttled, before",
    "elapsed_s": "Time taken",
    "cpu_busy_fraction": "CPU busy",
    "cpu_steal_fraction": "CPU stolen",
    "pressure_fraction": "Waiting for a CPU",
    "throttled_s": "CPU throttled",
}
"""What the machine's own keys are called."""
GPU_TITLES = {
    "processes": "processes before",
    "utilisation": "load before",
    "display": "drives a display",
    "mig": "in MIG mode",
    "mps": "shared by MPS",
    "exclusive": "exclusive",
}


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
        **{_title(key): _measure(key, value) for key, value in e.extra.items()},
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


def _title(key: str) -> str:
    """Call a fact by what people call it; of one nobody knows here, by its key in words."""
    if key in TITLES:
        return TITLES[key]
    gpu, _, rest = key.partition("_")
    if gpu.startswith("gpu") and gpu[3:].isdecimal() and rest in GPU_TITLES:
        return f"GPU {gpu[3:]} {GPU_TITLES[rest]}"
    words = re.sub(r"_(s|bytes|fraction)$", "", key).replace("_", " ")
    return words[:1].upper() + words[1:]


def _measure(key: str, value: object) -> object:
    """Find a number the unit that its key tells."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if "fraction" in key or key.endswith("_utilisation"):
        return f"{value * 100:.3g} %"
    if key.endswith("_bytes"):
        return text_from_bytes(value)
    if key.endswith(("_s", "_s_so_far")):
        return text_from_seconds(value)
    return value


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
