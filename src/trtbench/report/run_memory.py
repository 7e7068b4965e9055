"""The GPU memory of a run, for its screen and for reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtbench.analysis.memory import CUDA, MemoryPart, MemoryUse, memory_from_facts
from trtbench.domain.ran import streams_of
from trtbench.domain.result import Run
from trtbench.units import counted, text_from_bytes

SHORT = {CUDA: "CUDA", "inputs, outputs": "I/O"}
"""For a line of a terminal."""
MANY = 10_000
"""Contexts that something else than memory ends before."""


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
    """Say in a few lines what a process takes, what each further context takes, how many fit."""
    known = [part for part in use.parts if part.bytes]
    if not known:
        return ()
    unknown = [SHORT.get(name, name) for name in use.unknown]
    rest = f"; {', '.join(unknown)} unknown" if unknown else ""
    whole = f"{'at least ' if unknown else ''}{text_from_bytes(use.process_bytes)}"
    lines = [("memory", f"{whole}: {', '.join(_words(part, use) for part in known)}{rest}")]
    if use.context_bytes:
        lines.append(("context", _further(use)))
    if use.by_profile:
        lines.append(("activations", words_from_profiles(use.by_profile)))
    lines += _fits(use)
    if use.disturbed:
        lines.append(("unsure", _disturbed(use)))
    return tuple(lines)


def _further(use: MemoryUse) -> str:
    least = any(part.per_context and part.bytes is None for part in use.parts)
    size = f"{'at least ' if least else ''}{text_from_bytes(use.context_bytes)}"
    words = f"{size} more for each further context"
    if use.contexts == 1 or use.peak_bytes is None:
        return words
    return f"{words}; {text_from_bytes(use.peak_bytes)} with the {use.contexts} of this run"


def _words(part: MemoryPart, use: MemoryUse) -> str:
    return f"{SHORT.get(part.name, name_of_part(part, use))} {text_from_bytes(part.bytes)}"


def _fits(use: MemoryUse) -> Iterator[tuple[str, str]]:
    """Say how many go into the whole device, and into what was free when others had their part."""
    words = _how_many(use, use.total_bytes or 0)
    if use.total_bytes is None or not words:
        return
    most = "at most " if use.unknown or use.of_host else ""
    device = text_from_bytes(use.total_bytes)
    whose = f"{device} that the host uses too" if use.of_host else device
    free = min(use.free_bytes or use.total_bytes, use.total_bytes)
    now = _how_many(use, free)
    more = "" if now == words else f"; {now} in the {text_from_bytes(free)} free"
    yield "fit", f"{most}{words} in {whose}{more}"


def _how_many(use: MemoryUse, room_bytes: int) -> str:
    """Count processes, where their greatest part is known, and contexts in one process."""
    processes, contexts = use.fit(room_bytes)
    if CUDA in use.unknown:
        return f"one process with {_contexts(contexts)}" if contexts else ""
    more = f" or one with {_contexts(contexts)}" if contexts else ""
    return f"{counted(processes, 'process', 'processes')}{more}"


def _contexts(count: int) -> str:
    """Count contexts as far as memory is what ends them."""
    return f"over {counted(MANY, 'context')}" if count > MANY else counted(count, "context")


def _disturbed(use: MemoryUse) -> str:
    told = "others took memory or gave it back meanwhile"
    if use.counted_bytes is None:
        return told
    return f"{told}; the driver counts {text_from_bytes(use.counted_bytes)} for this process"
