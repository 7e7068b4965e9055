"""GPU memory on a real GPU: parts are seen, contexts cost alike, eager modules cost no less."""

from __future__ import annotations

from pathlib import Path

import pytest

import trtbench
from trtbench.report.run_memory import memory_of

QUICK = {"runtime": "tensorrt", "iterations": 20, "warmup": "20ms", "until_steady": False}


def test_parts_are_seen_and_each_context_takes_its_own(engine: Path, tmp_path: Path) -> None:
    one, three = (
        memory_of(
            trtbench.bench(
                engine, streams=streams, protocol="pipeline", store=tmp_path / "s", **QUICK
            )
        )
        for streams in (1, 3)
    )
    assert one is not None
    assert three is not None
    parts = {part.name: part for part in one.parts}
    assert (parts["CUDA context"].measured_bytes or 0) > 50 * 2**20
    assert one.peak_bytes is not None
    assert three.peak_bytes is not None
    assert three.peak_bytes >= one.peak_bytes
    assert (one.processes_fit or 0) > 1
    assert (one.contexts_fit or 0) > (one.processes_fit or 0)


def test_loading_all_modules_takes_no_less_than_those_that_run(
    engine: Path, tmp_path: Path
) -> None:
    found = {}
    for loading in ("lazy", "eager"):
        options = {"modules": loading}
        use = memory_of(trtbench.bench(engine, options=options, store=tmp_path / "s", **QUICK))
        assert use is not None
        found[loading] = use.peak_bytes
    if None in found.values():
        pytest.skip("another process freed memory meanwhile")
    assert found["eager"] >= found["lazy"]
