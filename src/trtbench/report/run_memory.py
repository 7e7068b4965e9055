"""The GPU memory of a run, for its screen and for reports."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.memory import MemoryPart, MemoryUse, memory_from_facts
from trtbench.domain.ran import streams_of
from trtbench.domain.result import Run
from trtbench.units import text_from_bytes

SHORT = {"CUDA context": "CUDA", "inputs, outputs": "I/O"}
"""For a line of a terminal."""


def memory_of(run: Run) -> MemoryUse | None:
    """Put together what a run saw; an engine's file stands for its weights."""
    record = run.record
    size = record.spec.model.size_bytes if record.spec.model.format == "engine" else None
    return memory_from_facts(record.facts, contexts=streams_of(record), weight_bytes=size)


def name_of_part(part: MemoryPart, use: MemoryUse) -> str:
    """Name a part; of modules also when they are loaded, which decides how many there are."""
    return f"modules ({use.loading})" if part.name == "modules" and use.loading else part.name


def words_from_profiles(sizes: Sequence[int]) -> str:
    """Say what activations need in each optimization profile."""
    told = (f"{text_from_bytes(size)} in profile {index}" for index, size in enumerate(sizes))
    return f"{', '.join(told)}; a context takes the largest"


def words_from_memory(use: MemoryUse) -> tuple[tuple[str, str], ...]:
    """Say in two lines what a process takes, and how many fit."""
    parts = [
        f"{SHORT.get(part.name, name_of_part(part, use))} {text_from_bytes(part.bytes)}"
        for part in use.parts
        if part.bytes
    ]
    if not parts:
        return ()
    unknown = [SHORT.get(name, name) for name in use.unknown]
    least, most = ("at least ", "at most ") if unknown else ("", "")
    rest = f"; {', '.join(unknown)} unknown" if unknown else ""
    whole = text_from_bytes(use.process_bytes)
    lines = [("memory", f"{least}{whole}: {', '.join(parts)}{rest}")]
    if use.by_profile:
        lines.append(("activations", words_from_profiles(use.by_profile)))
    if use.processes_fit is not None:
        more = f", or {use.contexts_fit} contexts in one" if use.contexts_fit is not None else ""
        device = text_from_bytes(use.total_bytes)
        lines.append(("fit", f"{most}{use.processes_fit} processes in {device}{more}"))
    return tuple(lines)
