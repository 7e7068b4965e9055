"""The benchmark of the verdicts: what it plans, counts and calls broken."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def benchmark(name: str) -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def trust() -> ModuleType:
    return benchmark("trust")


def outcome(trust: ModuleType, **changes: object) -> object:
    settled = trust.Outcome(
        model="50us", mode="one-process", threads="all", neighbour="none", case="same",
        kind="same", ratio=1.001, low=0.99, high=1.01, alone=1.0, alone_low=0.9, alone_high=1.1,
        launches=10, seconds=5.0, load=0.1,
    )  # fmt: skip
    return replace(settled, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "slower"}, "called different"),
        ({"case": "slower", "kind": "faster"}, "called faster"),
        ({"case": "unlike", "kind": "slower", "alone_high": 0.95}, "deny"),
        ({"ratio": 1.02}, "bias"),
        ({"kind": "unclear"}, "same in less"),
        ({"case": "slower", "kind": "same"}, "found in less"),
        ({"seconds": 30.0}, "longer than"),
    ],
)
def test_every_goal_can_be_broken(
    trust: ModuleType, changes: dict[str, object], words: str
) -> None:
    good = [outcome(trust), outcome(trust, case="slower", kind="slower", ratio=1.02)]
    assert trust.broken(good) == []
    # A busy machine may be slow and unclear, but never wrong.
    assert any(words in problem for problem in trust.broken([outcome(trust, **changes)]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": "faster"}, "called different"),
        ({"case": "+1%", "gpu": "same"}, "found in less"),
        ({"case": "+2%", "gpu": "faster"}, "called faster"),
        ({"gpu_s": 9.0}, "GPU verdict later"),
        ({"seconds": 40.0}, "host verdict later"),
        ({"host": "unclear"}, "host time unclear"),
    ],
)
def test_every_goal_on_a_gpu_can_be_broken(changes: dict[str, object], words: str) -> None:
    trust_gpu = benchmark("trust_gpu")
    good = trust_gpu.Outcome(
        model="0.2ms", case="same", gpu="same", gpu_effect=0.0, gpu_launches=4, gpu_s=5.0,
        host="same", host_effect=0.001, host_launches=6, seconds=11.0, burst_spread=0.0005,
        gpu_spread=0.001, placed_spread=0.0003, host_spread=0.004, gpu_time_s=2e-4,
        reason="within ±2 %",
    )  # fmt: skip
    assert trust_gpu.broken([good], first_look=False) == []
    other = replace(good, **changes)
    assert any(words in problem for problem in trust_gpu.broken([other], first_look=False))
    rows = trust_gpu.table([good, other]).splitlines()
    assert len({row.count("|") for row in rows[2:]}) == 1
