"""The whole folder of files from other machines, imported at once: how much comes of it."""

from pathlib import Path

import numpy as np
import pytest
from imports import bring, of, stored

from trtbench.analysis.stored_comparison import ladder_from_runs
from trtbench.analysis.summary import summary_from_run
from trtbench.importing.run import ImportResult
from trtbench.store.store import Store
from trtbench.workflows.engines import load_run

pytestmark = pytest.mark.xdist_group("beside_import")  # everything is imported once


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def everything(beside: Path, store: Store) -> ImportResult:
    return bring(beside, store=store)


@pytest.mark.parametrize(
    ("part", "rows", "rate"),
    [
        ("mobilenet.qat.onnx.engine.timing", 8490, 2829.15),
        ("alexnet_fp16.timing", 6039, 2012.22),
        ("resnet18_fp16_load.times", 10489, 3495.52),
    ],
)
def test_times_give_the_printed_numbers(
    everything: ImportResult, store: Store, part: str, rows: int, rate: float
) -> None:
    (found,) = of(everything, part)
    run = stored(found, store)
    printed = run.record.reported
    assert found.samples == len(run.times) == rows
    assert printed["throughput_qps"] == rate
    assert run.times.gpu is not None
    median = float(np.median(run.times.gpu)) * 1e3
    assert median == pytest.approx(printed["gpu_compute_time_median_ms"], rel=2e-6)
    rates = summary_from_run(run)
    assert rates.queries_per_s is not None
    assert f"{rates.queries_per_s:.6g}"[:6] == str(rate)[:6]


def test_a_batch_sweep_in_one_log_is_sorted_out(everything: ImportResult, store: Store) -> None:
    found = of(everything, "raw_ResNet50_N2")
    assert [each.record.spec.batch for each in found] == [1, 4, 8, 16, 32, 64, 128]
    assert [each.samples for each in found] == [958, 448, 265, 137, 75, 42, 14]
    for each in found:
        run = stored(each, store)
        rate = summary_from_run(run).items_per_s
        assert rate == pytest.approx(run.record.reported["throughput_qps"], rel=1e-4)
        assert run.layers.count is not None


def test_files_of_trtexec_explain_a_cuda_graph(beside: Path) -> None:
    folder = beside / "h200__trtexec-8.6.0"
    a, b = (
        load_run(str(folder / name), None)
        for name in ("resnet18_fp16_load.log", "resnet18_fp16_load_cudagraph.log")
    )
    ladder = ladder_from_runs(a, b)
    graph = next(each for each in ladder.rungs if each.key == "cuda_graph")
    assert ladder.a_s is not None
    assert ladder.b_s is not None
    assert graph.seconds == pytest.approx(ladder.b_s - ladder.a_s)
    assert "it waits for launches" in graph.because
