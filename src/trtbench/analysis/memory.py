"""What an engine takes of a GPU's memory, part by part: predicted, measured, and how many fit."""

from __future__ import annotations

from collections.abc import Mapping

from trtbench.domain.result import Scalar
from trtbench.domain.spec import Value


class MemoryPart(Value, frozen=True, kw_only=True):
    """One part of what a process takes."""

    name: str
    predicted_bytes: int | None = None
    """As the engine itself tells."""
    measured_bytes: int | None = None
    """What was less free on the device afterwards; memory is given out in large pieces."""
    per_context: bool = False

    @property
    def bytes(self) -> int | None:
        """The larger of both: what must be there."""
        known = [b for b in (self.predicted_bytes, self.measured_bytes) if b is not None]
        return max(known) if known else None


class MemoryUse(Value, frozen=True, kw_only=True):
    """All parts, and how many would fit on the device."""

    parts: tuple[MemoryPart, ...]
    contexts: int = 1
    process_bytes: int
    """Of a process with one context, as far as its parts are known."""
    context_bytes: int
    """More for each further context, or stream."""
    peak_bytes: int | None = None
    """Of this process, once all was loaded and run."""
    total_bytes: int | None = None
    processes_fit: int | None = None
    """Processes with one context each, on the device with nobody else."""
    contexts_fit: int | None = None
    """Contexts in one process there."""
    by_profile: tuple[int, ...] = ()
    """What activations need in each optimization profile, where the engine tells."""
    loading: str | None = None
    """``lazy``: only modules of kernels that run are loaded; ``eager``: all."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """Parts that nobody told: the sum is more, and fewer fit."""
        return tuple(part.name for part in self.parts if part.bytes is None)


def memory_from_facts(
    facts: Mapping[str, Scalar], *, contexts: int = 1, weight_bytes: int | None = None
) -> MemoryUse | None:
    """Put together what a run measured with what its engine tells; ``None`` if nobody looked."""
    if _whole(facts, "memory_free_opened_bytes") is None:
        return None
    parts = (
        MemoryPart(name="CUDA context", measured_bytes=_opening(facts)),
        MemoryPart(
            name="engine",
            predicted_bytes=weight_bytes,
            measured_bytes=_whole(facts, "memory_engine_bytes"),
        ),
        MemoryPart(name="modules", measured_bytes=_whole(facts, "memory_modules_bytes")),
        MemoryPart(
            name="activations",
            predicted_bytes=_whole(facts, "activation_bytes"),
            measured_bytes=_whole(facts, "memory_context_bytes"),
            per_context=True,
        ),
        MemoryPart(
            name="inputs, outputs",
            predicted_bytes=_whole(facts, "io_bytes"),
            measured_bytes=_whole(facts, "memory_buffers_bytes"),
            per_context=True,
        ),
    )
    free, opened = _whole(facts, "memory_free_bytes"), _whole(facts, "memory_free_opened_bytes")
    taken = opened - free if free is not None and opened is not None else None
    peak = None if taken is None or taken < 0 else taken + (_opening(facts) or 0)
    total = _whole(facts, "memory_total_bytes")
    use = use_of_parts(parts, contexts=contexts, peak_bytes=peak, total_bytes=total)
    loading = facts.get("module_loading")
    return use.having(
        by_profile=profiles_from_facts(facts), loading=loading if isinstance(loading, str) else None
    )


def profiles_from_facts(facts: Mapping[str, Scalar]) -> tuple[int, ...]:
    """Read what activations need in each profile; empty where one number stands for all."""
    words = str(facts.get("activations_by_profile") or "").split(", ")
    return tuple(int(word) for word in words if word.isdecimal())


def predicted(
    *, weight_bytes: int | None, activation_bytes: int | None, io_bytes: int | None,
    total_bytes: int | None = None,
) -> MemoryUse | None:  # fmt: skip
    """Say what an engine will take by its own word; CUDA's context comes on top."""
    if weight_bytes is None or activation_bytes is None:
        return None
    parts = (
        MemoryPart(name="engine", predicted_bytes=weight_bytes),
        MemoryPart(name="activations", predicted_bytes=activation_bytes, per_context=True),
        MemoryPart(name="inputs, outputs", predicted_bytes=io_bytes, per_context=True),
    )
    return use_of_parts(parts, total_bytes=total_bytes)


def use_of_parts(
    parts: tuple[MemoryPart, ...],
    *,
    contexts: int = 1,
    peak_bytes: int | None = None,
    total_bytes: int | None = None,
) -> MemoryUse:
    """Add parts up, and count how often they go into the device."""
    once = sum(part.bytes or 0 for part in parts if not part.per_context)
    each = sum(part.bytes or 0 for part in parts if part.per_context)
    known = total_bytes is not None and each + once > 0
    return MemoryUse(
        parts=parts,
        contexts=contexts,
        process_bytes=once + each,
        context_bytes=each,
        peak_bytes=peak_bytes,
        total_bytes=total_bytes,
        processes_fit=total_bytes // (once + each) if known and total_bytes else None,
        contexts_fit=max(0, (total_bytes - once) // each)
        if known and total_bytes and each
        else None,
    )


def _opening(facts: Mapping[str, Scalar]) -> int | None:
    """Compute what CUDA's context took: free before the process, and free once it stood."""
    before, after = (
        _whole(facts, name) for name in ("memory_free_before_bytes", "memory_free_opened_bytes")
    )
    return before - after if before is not None and after is not None and before >= after else None


def _whole(facts: Mapping[str, Scalar], name: str) -> int | None:
    value = facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
