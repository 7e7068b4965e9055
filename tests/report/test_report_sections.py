from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from made_runs import (
    WARNING,
    full_runs,
    made_graph,
    made_profile,
    made_run,
    made_telemetry,
    made_times,
    phased_times,
)

from trtbench.domain.comparison import Comparison, Verdict
from trtbench.domain.result import Interval, Run
from trtbench.domain.samples import LayerInfo, times_from_columns
from trtbench.formats.evaluation_toolkit import report_keys
from trtbench.report import style
from trtbench.report.charts import Bars, Lines
from trtbench.report.compose import document_from_runs
from trtbench.report.document import (
    Card,
    Cards,
    Details,
    Document,
    Figure,
    FindingList,
    KeyValues,
    Picture,
    Table,
    Text,
)
from trtbench.report.finding_list import TITLES, gather
from trtbench.report.labels import file_stem, labels_from_runs, network_name
from trtbench.report.layer_kinds import shares
from trtbench.report.renderers._plot_curves import lines
from trtbench.report.sections.build import sentence_from_build
from trtbench.report.sections.pareto import front


def table(document: Document, id: str) -> Table:
    return next(each for each in document.tables() if each.id == id)


def column(found: Table, key: str) -> list[object]:
    place = [heading.key for heading in found.headings].index(key)
    return [row[place].value for row in found.rows]


def figure(document: Document, id: str) -> Figure:
    return next(each for each in document.figures() if each.id == id)


def test_a_full_report_has_every_section_in_order(tmp_path: Path) -> None:
    document = document_from_runs(full_runs(tmp_path))
    assert [section.id for section in document.sections] == [
        "summary", "latency", "percentiles", "against", "phases", "layers",
        "telemetry", "sweep", "pareto", "findings", "accuracy", "checks", "build", "history",
        "environment", "methods",
    ]  # fmt: skip


def compared(verdict: Verdict) -> list[Run]:
    baseline, candidate = made_run(id="a"), made_run(id="b", precision="int8")
    baseline.extra["scores"] = {"top-1": {"value": 0.975, "low": 0.97, "high": 0.98}}
    candidate.extra["scores"] = {"top-1": {"value": 0.962, "low": 0.957, "high": 0.967}}
    comparison = Comparison(baseline="a", candidate="b", design="duet", verdicts=(verdict,))
    candidate.extra["comparisons"] = [comparison]
    return [baseline, candidate]


def verdict(kind: str = "faster", ratio: float | None = 0.5) -> Verdict:
    interval = Interval(low=0.48, high=0.52, level=0.99, meaning="") if ratio else None
    facts = {"kind": kind, "ratio": ratio, "interval": interval}
    return msgspec.convert(
        {"metric": "host", "reason": "too few launches", "launches": 10, **facts},
        Verdict,
        from_attributes=True,
    )


def card(document: Document) -> Card:
    blocks = document.sections[0].blocks
    cards = next(each for each in blocks if isinstance(each, Cards))
    return cards.items[0]


def test_the_verdict_comes_first_and_says_how_much_how_sure_and_whether_right() -> None:
    document = document_from_runs(compared(verdict()))
    assert document.sections[0].id == "verdicts"
    first = card(document)
    assert first.title == "int8 against fp32"
    assert first.value == "2.00 × as fast"
    assert first.tone == "good"
    assert "−50.0 % host time" in first.detail
    assert "99 % interval −52.0 % to −48.0 %" in first.detail
    assert "10 launches" in first.detail
    assert "top-1 96.20 % against 97.50 %" in first.detail


def test_a_slower_candidate_is_called_slow_and_an_unclear_one_unclear() -> None:
    slow = card(document_from_runs(compared(verdict("slower", 2.0))))
    assert (slow.value, slow.tone) == ("2.00 × as slow", "bad")
    unclear = card(document_from_runs(compared(verdict("unclear", None))))
    assert (unclear.value, unclear.tone) == ("unclear", "unclear")
    assert "too few launches" in unclear.detail


def test_a_comparison_puts_its_sides_next_to_each_other() -> None:
    runs = compared(verdict())
    found = table(document_from_runs(runs), "against")
    assert [h.key for h in found.headings] == [
        "metric", "pt", "engine", "engine_minus_pt", "engine_over_pt_ratio",
    ]  # fmt: skip
    means = dict(zip(column(found, "metric"), column(found, "pt"), strict=True))
    assert means["host_mean"] == pytest.approx(runs[0].times.host.mean() * 1e3)


def test_torch_and_an_engine_of_one_batch_are_a_pair(tmp_path: Path) -> None:
    document = document_from_runs(full_runs(tmp_path))
    section = document.section("against")
    assert section is not None
    assert section.title == "PyTorch against engine"
    found = table(document, "against")
    ratios = dict(zip(column(found, "metric"), column(found, "engine_over_pt_ratio"), strict=True))
    assert 0.9 < float(str(ratios["gpu_median"])) < 1.1
    alone = [run for run in full_runs(tmp_path) if run.id != "torch-1"]
    assert document_from_runs(alone).section("against") is None


def test_findings_of_one_code_are_one_entry_with_all_runs() -> None:
    said = [WARNING.having(message=f"load {n}") for n in range(3)]
    grave = said[2].having(severity="error")
    runs = [
        made_run(id=str(n), findings=(each,), batch=2**n)
        for n, each in enumerate((*said[:2], grave))
    ]
    section = document_from_runs(runs).section("findings")
    assert section is not None
    block = section.blocks[0]
    assert isinstance(block, FindingList)
    (item,) = block.items
    assert item.finding.severity == "error"
    assert item.runs == ("batch 1", "batch 2", "batch 4")
    assert [message for _, message in item.cases] == ["load 0", "load 1", "load 2"]
    assert item.title == "not stationary"


def test_findings_that_say_the_same_have_no_cases() -> None:
    found = gather([("a", WARNING), ("b", WARNING), ("a", WARNING)])
    assert found is not None
    (item,) = found.items
    assert item.runs == ("a", "b")
    assert item.cases == ()
    assert gather([]) is None


def test_layers_are_added_up_by_kind_and_precision() -> None:
    profile = made_profile(7)
    graph = made_graph(profile)
    found = shares(profile, graph)
    assert sum(each.seconds or 0 for each in found) == pytest.approx(
        sum(layer.average_s for layer in profile.layers)
    )
    assert sum(each.layers for each in found) == 7
    assert {each.kind for each in found} == {"Convolution", "PointWise"}
    untimed = shares(None, graph)
    assert all(each.seconds is None for each in untimed)
    stranger = graph.having(layers=(LayerInfo(name="other"),))
    assert {each.kind for each in shares(profile, stranger)} == {"unknown"}


def test_telemetry_is_drawn_as_far_as_it_was_told() -> None:
    document = document_from_runs([made_run(telemetry=made_telemetry())])
    chart = figure(document, "gpu_utilization").chart
    assert isinstance(chart, Lines)
    assert [panel.title for panel in chart.panels] == ["GPU", "Memory used", "SM clock"]
    assert chart.panels[0].lines[0].y[0] == pytest.approx(90)
    assert chart.panels[0].lines[0].x[0] == 0
    row = table(document, "telemetry")
    assert column(row, "memory_used_mean_gib") == [2.0]
    assert column(row, "memory_util_mean_percent") == [None]


def test_the_front_holds_what_nobody_beats() -> None:
    points = [(1.0, 0.9), (2.0, 0.95), (3.0, 0.94), (0.5, 0.8), (2.0, 0.93)]
    assert front(points, less=False) == [3, 0, 1]
    assert front([(x, 1 - y) for x, y in points], less=True) == [3, 0, 1]


def test_pareto_marks_have_sizes_and_intervals(tmp_path: Path) -> None:
    chart = figure(document_from_runs(full_runs(tmp_path)), "pareto").chart
    assert isinstance(chart, Lines)
    marks = [line for line in chart.panels[0].lines if line.sizes]
    assert len(marks) == 2
    assert marks[0].low[0] < marks[0].y[0] < marks[0].high[0]  # type: ignore[operator]


def test_fifteen_marks_stay_apart_and_the_front_is_drawn() -> None:
    runs = []
    for place in range(15):
        run = made_run(id=f"r{place}", model=f"net{place}.onnx", batch=2**place)
        top1 = 0.70 + 0.015 * ((7 * place) % 15)
        run.extra["scores"] = {"top1": {"value": top1, "low": top1 - 0.01, "high": top1 + 0.01}}
        runs.append(run)
    chart = figure(document_from_runs(runs), "pareto").chart
    assert isinstance(chart, Lines)
    best, *marks = chart.panels[0].lines
    assert len(marks) == 15
    assert len({(style.colour(each.role), style.shape(each.role)) for each in marks}) == 15
    assert best.name == "Pareto front"
    assert len(best.x) == len(best.texts) > 1
    assert chart.y.unit == "%"
    assert chart.x.scale == "log", "the fastest is thousands of times as fast per item"
    described = lines(chart)["data"]
    symbols = [(each["marker"]["color"], each["marker"]["symbol"]) for each in described[1:]]
    assert len(set(symbols)) == 15


def test_sweeps_are_ordered_by_network_batch_and_precision() -> None:
    runs = [
        made_run(id=f"{p}{b}", precision=p, batch=b, model=f"net.{p}.engine")
        for p in ("int8", "fp32", "fp16")
        for b in (8, 1)
    ]
    runs[0].extra["scores"] = {"Prec@1": 76.13, "top-5": 0.93}
    document = document_from_runs(runs)
    found = table(document, "sweep")
    assert column(found, "network") == ["net"] * 6
    assert column(found, "batch") == [1, 1, 1, 8, 8, 8]
    assert column(found, "precision") == ["fp32", "fp16", "int8"] * 2
    assert found.rows[-1][-5].shown == "76.13 %"
    assert found.rows[-1][-4].shown == "93.00 %"
    chart = figure(document, "inference_time_bar_all").chart
    assert isinstance(chart, Bars)
    assert not chart.stacked
    assert [group.name for group in chart.groups] == ["fp32", "fp16", "int8"]
    host = next(run for run in runs if run.id == "fp161").times.host
    assert chart.groups[1].values[0] == pytest.approx(host.mean() * 1e3)


def test_history_needs_three_times_and_tells_what_changed() -> None:
    days = [
        made_run(made_times(seed=n), id=str(n), created=f"2026-03-0{n + 1}T10:00:00Z")
        for n in range(3)
    ]
    assert document_from_runs(days[:2]).section("history") is None
    environment = days[2].record.environment.having(os="Linux 7")
    record = days[2].record.having(environment=environment)
    changed = Run(record=record, times=days[2].times)
    document = document_from_runs([changed, *days[:2]])
    found = table(document, "history")
    assert column(found, "id") == ["0", "1", "2"]
    assert column(found, "changed") == ["", "", "Operating system: Linux → Linux 7"]
    medians = [float(np.median(run.times.host)) for run in days]
    assert column(found, "change")[1] == pytest.approx(medians[1] / medians[0] - 1)
    chart = figure(document, "history").chart
    assert isinstance(chart, Lines)
    x = chart.panels[0].lines[0].x
    assert x[1] - x[0] == 86_400


def test_a_time_nobody_can_read_makes_no_history() -> None:
    runs = [made_run(id=str(n), created="yesterday") for n in range(3)]
    assert document_from_runs(runs).section("history") is None


def test_builds_and_checks_show_what_they_are_told(tmp_path: Path) -> None:
    document = document_from_runs(full_runs(tmp_path))
    build = table(document, "build")
    shown = {row[0].shown: row[1].shown for row in build.rows}
    assert shown == {"build": "12.5 s", "peak memory": "1.00 GiB", "tensorrt": "10.9"}
    section = document.section("build")
    assert section is not None
    assert isinstance(section.blocks[0], Text), "a sentence before the facts"
    for said in ("12.5 s", "1.00 GiB", "TensorRT 10.9"):
        assert said in section.blocks[0].text
    assert isinstance(section.blocks[-1], Details)
    checks = table(document, "checks")
    assert [h.key for h in checks.headings] == ["run", "output", "max_abs", "cosine", "ok"]
    section = document.section("checks")
    assert section is not None
    facts = next(block for block in section.blocks if isinstance(block, KeyValues))
    assert dict(facts.pairs)["outputs.a.mae"].value == 0.1


def test_pictures_are_shown_once_and_missing_ones_not_at_all(tmp_path: Path) -> None:
    runs = full_runs(tmp_path)
    runs[0].extra["pictures"] = [
        "depth_comparison.png", {"path": "depth_comparison.png"}, "gone.png", "/etc/passwd",
    ]  # fmt: skip
    (picture,) = document_from_runs(runs).pictures()
    assert isinstance(picture, Picture)
    assert picture.id == "depth_comparison"


def test_panels_have_their_own_axis_when_runs_differ_much_in_length() -> None:
    alike = [made_run(made_times(500, seed=n), id=str(n)) for n in range(2)]
    chart = figure(document_from_runs(alike), "latency_series").chart
    assert isinstance(chart, Lines)
    assert chart.shared_x
    uneven = [made_run(made_times(5000)), made_run(made_times(200), id="b")]
    chart = figure(document_from_runs(uneven), "latency_series").chart
    assert isinstance(chart, Lines)
    assert not chart.shared_x


def test_one_run_has_the_keys_of_evaluation_toolkit_in_its_report() -> None:
    assert {"summary", "top_layers"} <= set(report_keys([made_run(layers=made_profile())]))
    several = report_keys([made_run(id="a"), made_run(id="b")])
    assert [each["run"] for each in several["reports"]] == ["a", "b"]  # type: ignore[attr-defined]


def test_networks_are_named_by_what_their_files_share() -> None:
    names = {
        "resnet18.onnx": "resnet18", "resnet18.fp16.engine": "resnet18",
        "resnet18_int8_qdq.plan": "resnet18", "yolov8n-pose.pt": "yolov8n-pose",
        ".onnx": ".onnx", "fp16.engine": "fp16",
    }  # fmt: skip
    for model, network in names.items():
        assert network_name(made_run(model=model).record) == network


def test_file_names_are_plain_and_never_taken_twice() -> None:
    taken: set[str] = set()
    assert file_stem("../a b", taken=taken) == "a_b"
    assert file_stem("a/b", taken=taken) == "a_b_2"
    assert file_stem("模型", taken=taken) == "model"
    assert file_stem("网络", taken=taken) == "model_2"


def test_a_precision_that_tells_files_apart_stands_for_them() -> None:
    runs = [
        made_run(model="net.onnx", precision="fp32"),
        made_run(model="net.int8.onnx", precision="int8"),
    ]
    assert labels_from_runs(runs) == ("fp32", "int8")
    other = made_run(model="other.onnx", precision="int8")
    assert labels_from_runs([*runs, other])[0] == "net.onnx · fp32"


def test_a_column_that_is_missing_leaves_its_numbers_out() -> None:
    times = phased_times(100)
    gpu = times_from_columns({"gpu": np.asarray(times.gpu)})
    document = document_from_runs([made_run(gpu, id="gpu only"), made_run(times, id="all")])
    summary = table(document, "summary")
    assert column(summary, "column") == ["GPU", "Host"]
    assert all(math.isfinite(float(str(value))) for value in column(summary, "median_s"))


def test_a_build_is_told_in_a_sentence() -> None:
    told = {
        "size_bytes": 24 * 2**20,
        "tensorrt": "10.9.0.34",
        "build_s": 41.5,
        "gpus": [{"name": "NVIDIA H200"}],
        "spec": {
            "model": {"path": "/models/net.onnx"},
            "precision": "fp16",
            "shapes": {"image": {"min": [1, 3, 8, 8], "opt": [8, 3, 8, 8], "max": [16, 3, 8, 8]}},
            "workspace_bytes": 2**30,
            "refit": True,
            "strip_weights": False,
        },
    }
    assert sentence_from_build("net.engine", told) == (
        "net.engine: built from net.onnx in fp16 by TensorRT 10.9.0.34 on NVIDIA H200 in 41.5 s; "
        "its file holds 24.0 MiB; it takes image 1x3x8x8 to 16x3x8x8, best at 8x3x8x8; "
        "at most 1.00 GiB of workspace; with weights that can be replaced."
    )
    assert sentence_from_build("net.engine", {"spec": 3, "gpus": "none"}) is None


def test_charts_come_before_findings_and_the_summary_names_them() -> None:
    document = document_from_runs([made_run(findings=(WARNING,))])
    ids = [section.id for section in document.sections]
    last_chart = max(ids.index(name) for name in ("latency", "percentiles"))
    assert last_chart < ids.index("findings")
    summary = document.section("summary")
    assert summary is not None
    assert isinstance(summary.blocks[0], Text)
    assert TITLES[WARNING.code] in summary.blocks[0].text


def test_numbers_people_look_up_stand_left_in_the_summary() -> None:
    keys = [heading.key for heading in table(document_from_runs([made_run()]), "summary").headings]
    assert {"median_s", "p99_s", "items_per_s"} <= set(keys[:7])
