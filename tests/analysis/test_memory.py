"""GPU memory: parts stated and measured, what fits, and what nobody knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtbench.analysis.memory import MemoryUse, memory_from_facts, memory_of_launches
from trtbench.core.run import Scalar
from trtbench.measure.bench import evidence_of_launches
from trtbench.report.run_facts import words_from_memory

MIB = 2**20
FACTS = {
    "memory_free_before_bytes": 1000 * MIB,
    "memory_free_opened_bytes": 700 * MIB,
    "memory_free_bytes": 640 * MIB,
    "memory_total_bytes": 1024 * MIB,
    "memory_engine_bytes": 20 * MIB,
    "memory_context_bytes": 10 * MIB,
    "memory_buffers_bytes": 2 * MIB,
    "memory_modules_bytes": 16 * MIB,
    "activation_bytes": 9 * MIB,
    "io_bytes": 3 * MIB,
}


def sizes(use: MemoryUse) -> dict[str, int | None]:
    return {part.name: None if part.bytes is None else part.bytes // MIB for part in use.parts}


def use_of(facts: Mapping[str, Scalar], **more: Any) -> MemoryUse:
    found = memory_from_facts(facts, **more)
    assert found is not None
    return found


def test_parts_add_up_and_what_was_measured_counts() -> None:
    """Of an engine what it took, however large its file; of a context the larger of both."""
    use = use_of(FACTS, weight_bytes=500 * MIB)
    assert sizes(use) == {
        "CUDA context": 300, "engine": 20, "modules": 16, "activations": 10, "inputs, outputs": 3,
    }  # fmt: skip
    assert use.process_bytes == 349 * MIB
    assert use.context_bytes == 13 * MIB
    assert use.peak_bytes == 360 * MIB
    assert use.fit(1024 * MIB) == (2, (1024 - 336) // 13)
    assert not use.disturbed


def test_what_the_first_context_takes_more_than_others_is_not_theirs() -> None:
    more = {"memory_context_bytes": 42 * MIB, "memory_further_context_bytes": 12 * MIB}
    use = use_of({**FACTS, **more}, contexts=3)
    assert sizes(use)["activations"] == 12
    assert sizes(use)["modules"] == 16 + 30
    assert use.context_bytes == 15 * MIB
    told = "15.0 MiB more for each further context; 360 MiB with the 3 of this run"
    assert dict(words_from_memory(use))["context"] == told


def test_memory_that_others_took_or_gave_back_meanwhile_is_told() -> None:
    counted = {**FACTS, "memory_process_bytes": 350 * MIB}
    assert not use_of(counted).disturbed
    taken = use_of({**counted, "memory_free_bytes": 40 * MIB})
    assert taken.disturbed
    assert "the driver counts 350 MiB for this process" in dict(words_from_memory(taken))["unsure"]
    given = {name: value for name, value in FACTS.items() if name != "memory_engine_bytes"}
    words = dict(words_from_memory(use_of(given)))
    assert words["unsure"] == "other processes allocated or freed memory meanwhile"
    assert words["memory"].endswith("engine unknown")


def test_what_launches_saw_of_memory_is_not_mixed() -> None:
    """Others took 200 MiB in one launch and gave it back in another, in which a step is lost."""
    one = {**FACTS, "outputs_finite": True}
    less = {**FACTS, "memory_free_bytes": 440 * MIB, "memory_engine_bytes": 220 * MIB}
    more = {name: value for name, value in FACTS.items() if name != "memory_engine_bytes"}
    for launches in ([one, less, more], [less, more, one], [more, one, less]):
        assert (
            sizes(use_of(evidence_of_launches([dict(each) for each in launches])))["engine"] == 20
        )
    assert evidence_of_launches([dict(more), dict(one)])["outputs_finite"] is True
    assert memory_of_launches([{"outputs_finite": True}]) == {}


def test_what_was_not_seen_is_unknown_and_not_zero() -> None:
    use = use_of({"memory_free_opened_bytes": MIB, "memory_free_before_bytes": 1})
    assert {part.bytes for part in use.parts} == {None}
    assert use.peak_bytes is None
    assert words_from_memory(use) == ()
    assert memory_from_facts({"activation_bytes": 5}) is None
