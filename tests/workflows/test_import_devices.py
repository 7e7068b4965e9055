"""Runs of several devices: a ratio with its label, and all of them side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
from imports import bring, stored
from test_import_reported import log

from trtbench.analysis.gate import evaluate, slowdown_rule
from trtbench.analysis.summary import summary_from_run
from trtbench.domain.result import Run
from trtbench.report.compose import document_from_runs
from trtbench.report.document import Table
from trtbench.report.documents.comparison import document_from_comparisons
from trtbench.store.store import Store
from trtbench.workflows.compare.compare import Compared, comparison_from_runs

DEVICES = {"Tesla T4": 7.5, "NVIDIA A100": 2.5, "Jetson Orin": 11.5}


@pytest.fixture
def runs(tmp_path: Path, store: Store) -> list[Run]:
    for name, median in DEVICES.items():
        version = "8503" if name == "Tesla T4" else "8601"
        text = log(median, gpu=name, version=version, command="trtexec --loadEngine=net.engine")
        (tmp_path / f"{name}.log").write_text(text)
    found = bring(tmp_path, store=store).runs
    return [stored(each, store) for each in found]


def of(runs: list[Run], name: str) -> Run:
    return next(run for run in runs if run.record.environment.gpus[0].name == name)


def test_two_logs_of_two_gpus_have_a_ratio_that_says_so(runs: list[Run]) -> None:
    comparison = comparison_from_runs(of(runs, "NVIDIA A100"), of(runs, "Tesla T4"))
    verdict = comparison.verdict("latency")
    assert verdict.ratio == pytest.approx(3.0)
    assert verdict.kind == "slower"
    assert verdict.across_devices == "NVIDIA A100 against Tesla T4"
    assert verdict.reason.startswith("across devices")
    told = {(each.code, each.severity): each.message for each in comparison.findings}
    assert "across devices" in told["H28", "warning"]
    assert any("8.6.1 against 8.5.3" in message for message in told.values())
    assert not any(each.severity == "error" for each in comparison.findings)


def test_other_differences_still_refuse(runs: list[Run], tmp_path: Path, store: Store) -> None:
    path = tmp_path / "graph.txt"
    command = "trtexec --loadEngine=net.engine --useCudaGraph"
    path.write_text(log(1.5, gpu="H200", command=command))
    (found,) = bring(path, store=store).runs
    verdict = comparison_from_runs(runs[0], stored(found, store)).verdict("latency")
    assert verdict.kind == "incomparable"


def test_a_gate_does_not_judge_across_devices(runs: list[Run]) -> None:
    first, second = of(runs, "NVIDIA A100"), of(runs, "Tesla T4")
    verdicts = {each.metric: each for each in comparison_from_runs(first, second).verdicts}
    rule = slowdown_rule(0.03)
    (result,) = evaluate([rule], summary=summary_from_run(second), verdicts=verdicts)
    assert result.outcome == "unclear"
    assert "two devices" in result.message


def test_two_networks_are_named(tmp_path: Path, store: Store) -> None:
    for name in ("resnet50_fp16", "vit_b_16"):
        text = log(command=f"trtexec --loadEngine={name}.engine")
        (tmp_path / f"{name}.log").write_text(text)
    first, second = (stored(each, store) for each in bring(tmp_path, store=store).runs)
    messages = [each.message for each in comparison_from_runs(first, second).findings]
    assert any("two networks" in each for each in messages)


def table(document: object, name: str) -> Table:
    blocks = (b for section in document.sections for b in section.blocks)  # type: ignore[attr-defined]
    return next(b for b in blocks if isinstance(b, Table) and b.id == name)


def test_reports_and_comparisons_put_devices_side_by_side_best_first(runs: list[Run]) -> None:
    report = document_from_runs(runs, title="Devices")
    pairs = [
        Compared(baseline=runs[0], candidate=run, comparison=comparison_from_runs(runs[0], run))
        for run in runs[1:]
    ]
    for document in (report, document_from_comparisons(pairs)):
        matrix = table(document, "model_by_device")
        titles = [heading.title for heading in matrix.headings[1:]]
        assert titles == ["NVIDIA A100", "Tesla T4", "Jetson Orin"]
        ranked = table(document, "devices_ranked")
        assert [row[3].text for row in ranked.rows] == ["1.00x", "3.00x", "4.60x"]


def test_devices_are_named_where_they_differ_and_nowhere_else(runs: list[Run]) -> None:
    apart = document_from_runs(runs, title="Devices")
    summary = table(apart, "summary")
    assert [heading.title for heading in summary.headings[:2]] == ["Model", "Device"]
    assert {row[1].value for row in summary.rows} == set(DEVICES)
    alone = table(document_from_runs(runs[:1], title="One"), "summary")
    assert "Device" not in {heading.title for heading in alone.headings}
    one, other = of(runs, "Tesla T4"), of(runs, "NVIDIA A100")
    compared = Compared(baseline=one, candidate=other, comparison=comparison_from_runs(one, other))
    title = document_from_comparisons([compared]).sections[0].title
    assert title == "net.engine on NVIDIA A100 against net.engine on Tesla T4"
