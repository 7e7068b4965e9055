"""The whole folder of files from real machines, imported at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from imports import stored

from trtbench.analysis.summary import summary_from_run
from trtbench.domain.result import Fact, FailedRun, Run, RunRecord
from trtbench.store.store import Store
from trtbench.trtexec.statistics import text_from_number
from trtbench.workflows.importing.run import Imported, ImportResult, import_artefacts


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def everything(artefacts: Path, store: Store) -> ImportResult:
    return import_artefacts([artefacts], store=store, pictures=False)


def of(result: ImportResult, part: str) -> list[Imported]:
    return [each for each in result.runs if any(part in str(path) for path in each.files)]


def test_no_file_is_dropped_without_a_word(artefacts: Path, everything: ImportResult) -> None:
    used = {path for each in everything.runs for path in each.files}
    listed = {Path(each.path) for each in everything.unused}
    assert used | listed == {path for path in artefacts.rglob("*") if path.is_file()}
    assert not used & listed


def test_how_many_runs_come_of_them(artefacts: Path, everything: ImportResult) -> None:
    if len([path for path in artefacts.rglob("*") if path.is_file()]) != 136:
        pytest.skip("other artefacts than these numbers were counted on")
    kinds = Counter(isinstance(each.record, FailedRun) for each in everything.runs)
    assert kinds == {False: 63, True: 8}
    assert sum(each.samples > 0 for each in everything.runs) == 17
    assert not any(each.broken for each in everything.unused)
    assert len(everything.unused) == 23


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
    assert text_from_number(rates.queries_per_s)[:6] == str(rate)[:6]


def test_a_batch_sweep_in_one_log_is_sorted_out(everything: ImportResult, store: Store) -> None:
    found = of(everything, "raw_ResNet50_N2")
    assert [each.record.spec.batch for each in found] == [1, 4, 8, 16, 32, 64, 128]
    assert [each.samples for each in found] == [958, 448, 265, 137, 75, 42, 14]
    for each in found:
        run = stored(each, store)
        rate = summary_from_run(run).items_per_s
        assert rate == pytest.approx(run.record.reported["throughput_qps"], rel=1e-4)
        assert run.layers is not None
        assert run.layers.count is not None


def test_conditions_of_sets_without_a_log(everything: ImportResult) -> None:
    (found,) = of(everything, "A100/fp16/resnet.onnx.engine.timing")
    made = found.record
    assert isinstance(made, RunRecord)
    assert made.conditions["transfers"] == Fact(value=False, source="stated")
    assert made.conditions["cuda_graph"] == Fact(value=True, source="stated")
    assert made.conditions["batch"] == Fact(value=32, source="implied")
    assert made.environment.gpus[0].name.startswith("NVIDIA A100")
    assert len(found.files) == 6


def test_the_second_time_all_are_known(
    artefacts: Path, everything: ImportResult, store: Store
) -> None:
    folder = artefacts / "h200__trtexec-8.6.0"
    again = import_artefacts([folder], store=store, pictures=False)
    assert again.runs
    assert all(each.known_as is not None for each in again.runs)
    assert len(store.index.find()) == len(everything.runs)


def test_every_run_can_be_read_described_and_reported(
    everything: ImportResult, store: Store, tmp_path: Path
) -> None:
    from trtbench.report.compose import document_from_runs, write_document

    loaded = [store.load(each.record.id) for each in everything.runs]
    runs = [run for run in loaded if isinstance(run, Run)]
    failed = [run for run in loaded if isinstance(run, FailedRun)]
    for run in runs:
        summary_from_run(run)
    sampled = [run for run in runs if len(run.times)]
    printed = [run for run in runs if not len(run.times)]
    document = document_from_runs([*sampled[:2], *printed[::12]], failed=failed)
    paths = write_document(document, tmp_path, formats=["json", "csv"])
    assert (tmp_path / "report.json") in paths
