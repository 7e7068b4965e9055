"""Where the runs took place, what differed between them, and the commands that made them."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.domain.result import Environment, Run, Scalar
from trtbench.report.document import (
    Block,
    Cell,
    Code,
    Details,
    Heading,
    KeyValues,
    Section,
    table_from_rows,
)
from trtbench.report.labels import labels_from_runs
from trtbench.units import text_from_bytes

ORDER = 90

OPEN_COMMANDS = 4
"""More commands than this are folded away."""


def make(runs: Sequence[Run]) -> Section:
    """State what all runs share once, and what differs in a table with a row per run."""
    facts = [facts_from_environment(run.record.environment) for run in runs]
    names = list(dict.fromkeys(name for each in facts for name in each))
    shared = [name for name in names if len({each.get(name) for each in facts}) == 1]
    blocks: list[Block] = []
    if shared:
        pairs = tuple((name, Cell(value=facts[0][name])) for name in shared)
        blocks.append(KeyValues(id="environment", pairs=pairs))
    if differing := [name for name in names if name not in shared]:
        rows: list[tuple[Cell | Scalar, ...]] = [
            (label, *(each.get(name) for name in differing))
            for label, each in zip(labels_from_runs(runs), facts, strict=True)
        ]
        headings = tuple(Heading(key=name, title=name) for name in ("Run", *differing))
        caption = "What differed between the runs."
        table = table_from_rows(
            "environment_differences", headings=headings, rows=rows, caption=caption
        )
        blocks.append(table)
    blocks += _commands(runs)
    return Section(id="environment", title="Environment", blocks=tuple(blocks))


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


def _commands(runs: Sequence[Run]) -> list[Block]:
    commands = [run.record.environment.command for run in runs]
    codes = tuple(Code(text=text) for text in dict.fromkeys(commands) if text)
    if len(codes) <= OPEN_COMMANDS:
        return list(codes)
    return [Details(summary=f"The {len(codes)} commands", blocks=codes)]
