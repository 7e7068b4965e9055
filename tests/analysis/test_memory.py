"""GPU memory: parts predicted and measured, what fits, and what nobody knows."""

from __future__ import annotations

from trtbench.analysis.memory import memory_from_facts, predicted
from trtbench.report.run_memory import words_from_memory

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


def test_parts_add_up_and_the_larger_of_both_counts() -> None:
    use = memory_from_facts(FACTS, contexts=2, weight_bytes=18 * MIB)
    assert use is not None
    sizes = {part.name: part.bytes for part in use.parts}
    assert sizes == {
        "CUDA context": 300 * MIB,
        "engine": 20 * MIB,
        "modules": 16 * MIB,
        "activations": 10 * MIB,
        "inputs, outputs": 3 * MIB,
    }
    assert use.process_bytes == 349 * MIB
    assert use.context_bytes == 13 * MIB
    assert use.peak_bytes == 360 * MIB
    assert use.processes_fit == 2
    assert use.contexts_fit == (1024 - 336) // 13


def test_what_was_not_seen_is_unknown_and_not_zero() -> None:
    use = memory_from_facts({"memory_free_opened_bytes": MIB, "memory_free_before_bytes": 1})
    assert use is not None
    assert {part.bytes for part in use.parts} == {None}
    assert (use.peak_bytes, use.processes_fit, use.contexts_fit) == (None, None, None)
    assert words_from_memory(use) == ()
    assert memory_from_facts({"activation_bytes": 5}) is None


def test_what_is_known_in_part_is_a_bound() -> None:
    known = {name: value for name, value in FACTS.items() if name != "memory_free_before_bytes"}
    use = memory_from_facts(known, weight_bytes=18 * MIB)
    assert use is not None
    assert use.unknown == ("CUDA context",)
    words = dict(words_from_memory(use))
    assert words["memory"].startswith("at least 49.0 MiB")
    assert words["memory"].endswith("; CUDA unknown")
    assert words["fit"].startswith("at most 20 processes")
    whole = memory_from_facts(FACTS, weight_bytes=18 * MIB)
    assert whole is not None
    assert "at" not in " ".join(dict(words_from_memory(whole)).values()).split()


def test_an_engine_tells_beforehand_what_it_will_take() -> None:
    use = predicted(weight_bytes=20, activation_bytes=10, io_bytes=2, total_bytes=100)
    assert use is not None
    assert (use.process_bytes, use.contexts_fit) == (32, 6)
    assert predicted(weight_bytes=None, activation_bytes=1, io_bytes=1) is None


def test_profiles_and_the_loading_of_modules_are_named() -> None:
    told = {"activations_by_profile": f"{MIB}, {9 * MIB}", "module_loading": "lazy"}
    use = memory_from_facts({**FACTS, **told}, weight_bytes=18 * MIB)
    assert use is not None
    assert use.by_profile == (MIB, 9 * MIB)
    words = dict(words_from_memory(use))
    assert "modules (lazy) 16.0 MiB" in words["memory"]
    assert words["activations"].startswith("1.00 MiB in profile 0, 9.00 MiB in profile 1")
    plain = memory_from_facts(FACTS)
    assert plain is not None
    assert (plain.by_profile, plain.loading) == ((), None)
    assert "activations" not in dict(words_from_memory(plain))
