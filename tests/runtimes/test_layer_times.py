"""Layers timed by their kernels: what CUPTI records, and whose kernel is which."""

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_standin import Trt
from trtbench.core.samples import LayerProfile, LayerTime
from trtbench.core.spec import RunSpec
from trtbench.host.cupti import counters_of
from trtbench.runtimes import _kernels, _trt_session, tensorrt
from trtbench.runtimes._kernels import rows_from_kernels, with_counters
from trtbench.trtexec.exports import profile_json, profiles_from_json

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


@pytest.mark.parametrize("problem", ["", "counters: no rights", "records: busy"])
def test_layers_are_timed_and_counted_by_kernels_where_cupti_is(
    gpu: Trt, spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    def record(run: Any, *, events: bool = False) -> Any:
        before = gpu.contexts[0].plain
        run()
        if events and "records" in problem:
            raise RuntimeError(problem)
        kernels = [(2, 0, "a", 0, 2000), (4, 0, "b", 3000, 4000)]
        return kernels * (gpu.contexts[0].plain - before), [
            (1, 0),
            (3, 0),
            (5, 0),
        ] if events else []

    def counters_of(run: Any, *, kernels: int) -> list[tuple[float, float]]:
        run()
        if problem:
            raise RuntimeError(problem)
        return [(100.0 * place, 50.0) for place in range(kernels)]

    monkeypatch.setattr(_trt_session, "Recorder", lambda: SimpleNamespace(record=record))
    monkeypatch.setattr(_kernels, "counters_of", counters_of)
    asked = spec.having(profile=True, cuda_graph="off")
    outcome, _ = tensorrt.bench(asked, folder=tmp_path, stage=lambda name: None)
    found = profiles_from_json(profile_json(outcome.layers), where="a file")[0].layers
    told = {name: outcome.evidence.get(name) for name in ("layer_times", "counters")}
    if "records" in problem:
        assert told == {"layer_times": f"profiler: {problem}", "counters": None}
        assert found[0].median_s == pytest.approx(2e-4), "as the profiler says"
        return
    assert told == {"layer_times": "kernels", "counters": problem or None}
    assert [x.median_s for x in found] == pytest.approx([2e-6, 1e-6])
    assert outcome.evidence["kernel_busy_s"] == pytest.approx(3e-6)
    counted = [(None, None)] * 2 if problem else [(0.0, 0.5), (100.0, 0.5)]
    assert [(x.dram_bytes, x.sm_active) for x in found] == counted


def test_the_activity_of_a_layer_is_weighted_by_its_kernels() -> None:
    layers = tuple(LayerTime(name=name, total_s=1.0, average_s=1.0) for name in NAMES)
    work = [(12, 0, "gemm", 0, 30), (12, 0, "copy", 0, 9), (13, 0, "add", 0, 10)]
    counted = [(8.0, 100.0), (4.0, 20.0)]
    found = with_counters(LayerProfile(count=1, layers=layers), work, EVENTS, counted)
    moved = [(0.0, None), (12.0, pytest.approx(0.8)), (0.0, None)]
    assert [(x.dram_bytes, x.sm_active) for x in found.layers] == moved
    with pytest.raises(RuntimeError, match="1 of 2 kernels were counted"):
        with_counters(LayerProfile(count=1, layers=layers), work, EVENTS, counted[:1])


SIZES = {
    "cuptiDeviceGetChipName": 32, "cuptiProfilerInitialize": 16, "cuptiProfilerHostInitialize": 48,
    "cuptiProfilerHostConfigAddMetrics": 40, "cuptiProfilerHostGetConfigImageSize": 32,
    "cuptiProfilerHostGetConfigImage": 40, "cuptiRangeProfilerEnable": 32,
    "cuptiRangeProfilerGetCounterDataSize": 64, "cuptiRangeProfilerCounterDataImageInitialize": 40,
    "cuptiRangeProfilerSetConfig": 90, "cuptiRangeProfilerStart": 24,
    "cuptiRangeProfilerStop": 41, "cuptiRangeProfilerDecodeData": 32,
    "cuptiRangeProfilerGetCounterDataInfo": 40, "cuptiProfilerHostEvaluateToGpuValues": 72,
    "cuptiRangeProfilerDisable": 24, "cuptiProfilerHostDeinitialize": 24,
}  # fmt: skip
"""The calls in their order, with the bytes of their structures by the headers of CUDA 13.0."""


class Cupti:
    """A library that takes these structures; ``refused`` fails as without rights."""

    def __init__(self, refused: str = "") -> None:
        self.refused, self.called = refused, list[str]()

    def cuptiGetResultString(self, status: int, text: Any) -> None:
        text._obj.value = b"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"

    def __getattr__(self, name: str) -> Any:  # the driver's
        return lambda found: 0

    def __getitem__(self, name: str) -> Any:
        def call(given: Any) -> int:
            fields = given._obj
            assert fields.size == SIZES[name], name
            self.called += [] if name in self.called else [name]
            if name.endswith(("ImageSize", "DataSize")):
                setattr(fields, fields._fields_[-1][0], 64)
            if name == "cuptiRangeProfilerGetCounterDataInfo":
                fields.field_2 = 2
            if name == "cuptiProfilerHostEvaluateToGpuValues":
                values = ctypes.cast(fields.field_6, ctypes.POINTER(ctypes.c_double))
                values[0], values[1] = 1000.0 + fields.field_3, 25.0
            return 35 if name == self.refused else 0

        return call


def test_counters_are_read_with_the_structures_of_cupti(monkeypatch: pytest.MonkeyPatch) -> None:
    library, ran = Cupti(), []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    found = counters_of(lambda: ran.append(1), kernels=2)
    assert (found, ran, library.called) == ([(1000.0, 25.0), (1001.0, 25.0)], [1], [*SIZES])
    library.refused = "cuptiRangeProfilerEnable"
    with pytest.raises(RuntimeError, match="Enable: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"):
        counters_of(lambda: ran.append(1), kernels=2)
    assert ran == [1]
