"""Whole folders imported at once: of our own making, and from other machines beside us."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from imports import of, stored

from made_artefacts import BATCHES, VERSIONS
from trtbench.analysis.summary import summary_from_run
from trtbench.core.run import FailedRun, Run
from trtbench.importing.run import ImportResult, import_artefacts
from trtbench.requests.stored import ImportRequest
from trtbench.store.store import Store

pytestmark = pytest.mark.xdist_group("import_folders")  # everything is imported once


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, artefacts: Path) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def everything(artefacts: Path, store: Store) -> ImportResult:
    return import_artefacts(ImportRequest(paths=[artefacts], pictures=False), store=store)


def test_no_file_is_dropped_without_a_word(artefacts: Path, everything: ImportResult) -> None:
    used = {path for each in everything.runs for path in each.files}
    listed = {Path(each.path) for each in everything.unused}
    assert used | listed == {path for path in artefacts.rglob("*") if path.is_file()}
    assert not used & listed


@pytest.mark.parametrize("version", VERSIONS)
def test_times_give_the_printed_numbers(made: Path, tmp_path: Path, version: str) -> None:
    store = Store(tmp_path / "store")
    result = import_artefacts(
        ImportRequest(paths=[made / f"trtexec-{version}"], pictures=False), store=store
    )
    found = of(result, "loaded.times")[0]
    run = stored(found, store)
    assert found.samples == len(run.times) > 100
    assert len(found.files) == 5  # log, times, profile, layers, engine
    assert run.times.gpu is not None
    median = float(np.median(run.times.gpu)) * 1e3
    assert median == pytest.approx(run.record.reported["gpu_compute_time_median_ms"], rel=5e-6)
    rates = summary_from_run(run)
    assert rates.queries_per_s == pytest.approx(run.record.reported["throughput_qps"], rel=1e-5)


def test_a_sweep_of_batches_in_one_log_is_sorted_out(made: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    found = import_artefacts(
        ImportRequest(paths=[made / "old" / "raw_net.txt"], pictures=False), store=store
    ).runs
    assert [each.record.spec.batch for each in found] == list(BATCHES)
    assert {stored(each, store).record.reported["throughput_qps"] for each in found} == {250.0}


def test_the_second_time_all_are_known(
    artefacts: Path, everything: ImportResult, store: Store
) -> None:
    folder = next(artefacts.glob("*trtexec-8.6*"))
    again = import_artefacts(ImportRequest(paths=[folder], pictures=False), store=store)
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
