"""Layers timed by their kernels: what CUPTI records, and whose kernel is which."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_standin import Trt
from trtbench.core.spec import RunSpec
from trtbench.runtimes import _trt_session, tensorrt
from trtbench.runtimes._trt_session import rows_from_kernels

# Events before the first layer and after each; three kernels, of which two overlap in a graph.
NAMES, EVENTS = ("constant", "conv", "relu"), (10, 11, 14, 16)
PROFILED = [(12, 0, "gemm", 0, 1), (13, 0, "copy", 1, 2), (15, 0, "relu", 2, 3)]
QUERY = [(20, 1, "gemm", 0, 400), (20, 2, "copy", 300, 500), (20, 3, "relu", 600, 700)]


def test_a_layer_is_the_sum_of_its_kernels() -> None:
    rows, busy_s = rows_from_kernels(QUERY * 2, PROFILED, EVENTS, NAMES) or ([], 0.0)
    assert [seconds for _, seconds in rows[1]] == pytest.approx([0, 6e-7, 1e-7])
    assert busy_s == pytest.approx(6e-7), "the union: 500 ns, and 100 ns after a gap"
    misfits = (
        (QUERY[:2], PROFILED, EVENTS, NAMES),
        ([*QUERY[:2], (20, 3, "other", 6, 7)], PROFILED, EVENTS, NAMES),
        (QUERY, PROFILED, EVENTS[:-1], NAMES),
        ([], [], EVENTS, NAMES),
    )
    assert [rows_from_kernels(*each) for each in misfits] == [None] * len(misfits)


def test_layers_are_timed_by_kernels_where_cupti_is(
    gpu: Trt, spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(run: Any, *, events: bool = False) -> Any:
        before = gpu.contexts[0].plain
        run()
        kernels = [(2, 0, "a", 0, 2000), (4, 0, "b", 3000, 4000)]
        return kernels * (gpu.contexts[0].plain - before), [1, 3, 5] if events else []

    monkeypatch.setattr(_trt_session, "Recorder", lambda: SimpleNamespace(record=record))
    asked = spec.having(profile=True, cuda_graph="off")
    outcome, _ = tensorrt.bench(asked, folder=tmp_path, stage=lambda name: None)
    assert [x.median_s for x in outcome.layers.layers] == pytest.approx([2e-6, 1e-6])
    assert outcome.evidence["layer_times"] == "kernels"
    assert outcome.evidence["kernel_busy_s"] == pytest.approx(3e-6)
