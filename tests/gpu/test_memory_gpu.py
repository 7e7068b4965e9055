"""GPU memory on a real GPU: parts are seen, contexts cost alike, eager modules cost no less."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import trtbench
from trtbench.analysis.memory import MemoryUse
from trtbench.report.run_facts import memory_of

QUICK = {"runtime": "tensorrt", "iterations": 20, "warmup": "20ms", "until_steady": False}


@pytest.fixture(scope="module")
def use(engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., MemoryUse]:
    """What a run took, measured once for each way to ask."""
    store = tmp_path_factory.mktemp("store")

    @cache
    def asked(*, streams: int = 1, modules: str = "lazy") -> MemoryUse:
        run = trtbench.bench(
            engine, streams=streams, protocol="pipeline", options={"modules": modules},
            store=store, **QUICK,
        )  # fmt: skip
        found = memory_of(run)
        assert found is not None
        return found

    return asked


def test_parts_are_seen_and_each_context_takes_its_own(use: Callable[..., MemoryUse]) -> None:
    one, three = use(), use(streams=3)
    parts = {part.name: part for part in one.parts}
    assert (parts["CUDA context"].measured_bytes or 0) > 50 * 2**20
    assert one.peak_bytes is not None
    assert three.peak_bytes is not None
    assert three.peak_bytes >= one.peak_bytes
    assert not one.disturbed
    if one.counted_bytes is not None:  # in some containers the driver does not tell
        assert one.counted_bytes == pytest.approx(one.peak_bytes, rel=0.1, abs=64 * 2**20)
    assert (one.processes_fit or 0) > 1
    assert (one.contexts_fit or 0) > (one.processes_fit or 0)


def test_loading_all_modules_takes_no_less_than_those_that_run(
    use: Callable[..., MemoryUse],
) -> None:
    lazy, eager = use().peak_bytes, use(modules="eager").peak_bytes
    if lazy is None or eager is None:
        pytest.skip("another process freed memory meanwhile")
    assert eager >= lazy
