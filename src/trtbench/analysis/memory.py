"""What an engine takes of a GPU's memory, part by part: predicted, measured, and how many fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtbench.core.run import Scalar
from trtbench.core.spec import Value

CUDA = "CUDA context"
"""The part that every process pays for, whatever it runs."""
METERED = "memory_"
"""Begins the names of facts by free memory: untrue where other processes load at the same time."""
NEAR_BYTES, NEAR = 64 * 2**20, 0.1
"""How far the driver's count of a process may lie from what was less free: it leaves out some."""


class MemoryPart(Value, frozen=True, kw_only=True):
    """One part of what a process takes."""

    name: str
    predicted_bytes: int | None = None
    measured_bytes: int | None = None
    """What was less free on the device afterwards; memory is given out in large pieces."""
    per_context: bool = False

    @property
    def bytes(self) -> int | None:
        """What must be there: as measured, and else as predicted.

        Of a context the larger of both: a small one fits into a piece that was given out before.
        """
        if self.measured_bytes is None or self.predicted_bytes is None or not self.per_context:
            return self.predicted_bytes if self.measured_bytes is None else self.measured_bytes
        return max(self.predicted_bytes, self.measured_bytes)


class MemoryUse(Value, frozen=True, kw_only=True):
    """All parts, and how many would fit on the device."""

    parts: tuple[MemoryPart, ...]
    contexts: int = 1
    process_bytes: int
    """Of a process with one context, as far as its parts are known."""
    context_bytes: int
    """More for each further context, or stream."""
    peak_bytes: int | None = None
    """Of this process with all its contexts, once all was loaded and run."""
    counted_bytes: int | None = None
    """The same as the driver counts it for the process alone, where it does."""
    total_bytes: int | None = None
    free_bytes: int | None = None
    of_host: bool = False
    """The device has no memory of its own: it uses the host's, as everybody there does."""
    disturbed: bool = False

    def fit(self, room_bytes: int) -> tuple[int, int | None]:
        """Count processes with a context each that go into so much, and contexts in one process."""
        once = self.process_bytes - self.context_bytes
        contexts = (room_bytes - once) // self.context_bytes if self.context_bytes else None
        return room_bytes // self.process_bytes, None if contexts is None else max(0, contexts)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Parts that are not known: the sum is more, and fewer fit."""
        return tuple(part.name for part in self.parts if part.bytes is None)


def memory_from_facts(
    facts: Mapping[str, Scalar], *, contexts: int = 1, weight_bytes: int | None = None
) -> MemoryUse | None:
    """Put together what a run measured with what its engine says; ``None`` without a look."""
    opened = _whole(facts, "memory_free_opened_bytes")
    if opened is None:
        return None
    free, before = (_whole(facts, f"memory_free_{name}bytes") for name in ("", "before_"))
    opening = before - opened if before is not None and before >= opened else None
    # What the first context took more than others is its kernels'.
    first, further = (_whole(facts, f"memory_{x}context_bytes") for x in ("", "further_"))
    modules, each = _whole(facts, "memory_modules_bytes"), first if further is None else further
    if first is not None and each is not None and modules is not None:
        modules += max(0, first - each)
    engine, buffers = (_whole(facts, f"memory_{name}_bytes") for name in ("engine", "buffers"))
    seen = (
        (CUDA, None, opening, False),
        ("engine", weight_bytes, engine, False),
        ("modules", None, modules, False),
        ("activations", _whole(facts, "activation_bytes"), each, True),
        ("inputs, outputs", _whole(facts, "io_bytes"), buffers, True),
    )
    parts = tuple(
        MemoryPart(name=name, predicted_bytes=stated, measured_bytes=measured, per_context=own)
        for name, stated, measured, own in seen
    )
    lost = free is None or free > opened or opening is None
    peak = None if lost else opened - (free or 0) + (opening or 0)
    counted = _whole(facts, "memory_process_bytes")
    near = max(NEAR_BYTES, NEAR * (counted or 0))
    apart = counted is not None and peak is not None and abs(peak - counted) > near
    given = free is not None and any(part.measured_bytes is None for part in parts[1:])
    once, more = (
        sum(part.bytes or 0 for part in parts if part.per_context is per_context)
        for per_context in (False, True)
    )
    return MemoryUse(
        parts=parts,
        contexts=contexts,
        process_bytes=once + more,
        context_bytes=more,
        total_bytes=_whole(facts, "memory_total_bytes"),
        peak_bytes=peak,
        counted_bytes=counted,
        free_bytes=before,
        of_host=facts.get("memory_of_host") is True,
        disturbed=given or apart,
    )


def memory_of_launches(launches: Sequence[Mapping[str, Scalar]]) -> dict[str, Scalar]:
    """Choose what one launch saw: one that misses nothing, and took neither most nor least."""
    found = [
        {name: value for name, value in facts.items() if name.startswith(METERED)}
        for facts in launches
    ]
    most = max(map(len, found), default=0)

    def taken(facts: Mapping[str, Scalar]) -> int:
        opened, free = (_whole(facts, f"memory_free_{x}bytes") or 0 for x in ("opened_", ""))
        return opened - free

    whole = sorted((each for each in found if len(each) == most), key=taken)
    return whole[(len(whole) - 1) // 2] if most else {}


def _whole(facts: Mapping[str, Scalar], name: str) -> int | None:
    value = facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
