"""Runs of several networks, runtimes and protocols in one report, as a day at a GPU leaves them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from made_runs import made_run, phased_times

from trtbench.domain.comparison import Comparison, Verdict
from trtbench.domain.result import Environment, Fact, Finding, Run
from trtbench.domain.spec import TensorSpec
from trtbench.report.charts import Axis, Bars, Boxes, Lines
from trtbench.report.compose import document_from_runs
from trtbench.report.document import Cards, Document, Figure, Text
from trtbench.report.documents.run import facts_of
from trtbench.report.labels import labels_from_runs, network_name, shortened_apart
from trtbench.report.machine import facts_from_environment
from trtbench.report.renderers._drawing import _height
from trtbench.report.renderers._plot_parts import axis_spec
from trtbench.report.renderers.html import spec_from_figure
from trtbench.report.run_facts import joules_per_item
from trtbench.report.sections.against import pairs_from_runs


def made(id: str, model: str, runtime: str, **spec: Any) -> Run:
    """Make a run whose spec is changed after the fact, and whose phases are all known."""
    run = made_run(phased_times(), id=id, model="x", runtime=runtime, batch=1, precision=None)
    whole = run.record.spec.having(**spec)
    whole = whole.having(model=whole.model.having(path=model))
    return replace(run, record=run.record.having(spec=whole))


def half(run: Run) -> Run:
    """Say on record that the model was cast to half."""
    fact = Fact(value="half", source="stated")
    record = run.record.having(conditions={"precision": fact})
    return replace(run, record=record)


def day() -> list[Run]:
    """Make engines by three protocols and PyTorch eager and compiled, of two networks."""
    options = {"weights": "none", "half": "on"}
    compiled = {**options, "compile": "reduce-overhead"}
    return [
        half(made("t1", "torchvision:resnet18", "torch", cuda_graph="on", options=options)),
        half(made("t2", "torchvision:resnet18", "torch", options=compiled)),
        half(made("t3", "torchvision:vit_b_16", "torch", options=compiled)),
        made("e1", "resnet18.engine", "tensorrt", cuda_graph="on"),
        made("e2", "resnet18.engine", "tensorrt", protocol="gpu", transfers=False),
        made("e3", "resnet18.engine", "tensorrt", protocol="pipeline", streams=2),
        made("e4", "vit_b_16.engine", "tensorrt"),
    ]


def figure(document: Document, id: str) -> Figure:
    return next(each for each in document.figures() if each.id == id)


def test_names_tell_runs_apart_and_no_more() -> None:
    assert labels_from_runs(day()) == (
        "torchvision:resnet18 · torch · half · serve",
        "torchvision:resnet18 · torch · half · serve · compile=reduce-overhead",
        "torchvision:vit_b_16 · torch · half · serve · compile=reduce-overhead",
        "resnet18.engine · tensorrt · serve",
        "resnet18.engine · tensorrt · gpu",
        "resnet18.engine · tensorrt · pipeline · 2 streams",
        "vit_b_16.engine · tensorrt · serve",
    )


def test_names_that_would_be_alike_say_what_else_differs() -> None:
    runs = [
        made("a", "net.engine", "tensorrt", cuda_graph="on"),
        made("b", "net.engine", "tensorrt", cuda_graph="off"),
        made("c", "other.engine", "tensorrt", cuda_graph="on"),
    ]
    assert labels_from_runs(runs) == (
        "net.engine · CUDA graph",
        "net.engine · no CUDA graph",
        "other.engine",
    )


def test_long_names_are_cut_but_stay_different() -> None:
    names = [f"a-rather-long-network-name · {middle} · the-same-end" for middle in ("gpu", "serve")]
    short = shortened_apart(names, length=20)
    assert len(set(short)) == 2
    assert shortened_apart(["same" * 20, "same" * 20], length=20)[0].count("…") == 1
    assert shortened_apart([], length=20) == []


def test_a_model_of_a_library_and_its_engine_are_one_network() -> None:
    assert {network_name(run.record) for run in day()} == {"resnet18", "vit_b_16"}


def test_pytorch_is_held_against_engines_of_its_own_network_and_protocol() -> None:
    pairs = {(before.id, after.id) for _, before, _, after in pairs_from_runs(day())}
    assert pairs == {("t1", "e1"), ("t2", "e1"), ("t3", "e4")}


def test_one_network_is_paired_whatever_its_files_are_called() -> None:
    runs = [
        made("t", "checkpoint.pt", "torch"),
        made("e", "final.engine", "tensorrt", protocol="gpu"),
    ]
    assert [(before.id, after.id) for _, before, _, after in pairs_from_runs(runs)] == [("t", "e")]


def test_every_run_of_a_sparse_matrix_has_a_bar_of_its_own() -> None:
    chart = figure(document_from_runs(day()), "inference_time_bar_all").chart
    assert isinstance(chart, Bars)
    assert len(chart.categories) == len(set(chart.categories)) == 7
    assert len(chart.groups) == 1
    assert None not in chart.groups[0].values


def test_pictures_of_mixed_protocols_say_that_they_do_not_compare() -> None:
    document = document_from_runs(day())
    for id in ("latency_ecdf", "speed_benchmark", "percentiles", "inference_time_bar_all"):
        assert "different protocols (serve, gpu, pipeline)" in (figure(document, id).caption or "")
    assert "further left is faster" not in (figure(document, "latency_ecdf").caption or "")
    first = next(block for block in document.sections[0].blocks if isinstance(block, Text))
    assert "different protocols" in first.text
    alike = document_from_runs(day()[:3])
    assert "further left is faster" in (figure(alike, "latency_ecdf").caption or "")


def test_overlapping_queries_have_no_rate_from_their_latency() -> None:
    document = document_from_runs(day())
    found = next(each for each in document.tables() if each.id == "speed_benchmark")
    fps = {str(row[0].value): row[-1].value for row in found.rows}
    assert fps["resnet18.engine · tensorrt · pipeline · 2 streams"] is None
    assert fps["resnet18.engine · tensorrt · serve"] is not None
    assert "overlap" in (figure(document, "phases").caption or "")


def test_curves_keep_their_height_below_a_long_legend() -> None:
    few, many = (figure(document_from_runs(runs), "latency_ecdf") for runs in (day()[:2], day()))
    assert spec_from_figure(many)["height"] > spec_from_figure(few)["height"] + 30
    assert _height(many) > _height(few) + 1
    assert isinstance(few.chart, Lines)


def test_boxes_are_named_apart() -> None:
    chart = figure(document_from_runs(day()), "speed_benchmark").chart
    assert isinstance(chart, Boxes)
    ticks = spec_from_figure(figure(document_from_runs(day()), "speed_benchmark"))["layout"]
    assert len(set(ticks["yaxis"]["ticktext"])) == 7


def test_facts_of_the_machine_have_names_and_units() -> None:
    extra = {
        "cpu_steal_fraction": 0.0125,
        "memory_limit_bytes": 2**34,
        "throttled_s": 0.25,
        "gpu0_utilisation": 0.5,
        "gpu0_mig": False,
        "unheard_of_fraction": 0.5,
    }
    facts = facts_from_environment(Environment(host="h", os="Linux", extra=extra))
    assert facts["CPU stolen"] == "1.25 %"
    assert facts["Memory limit"] == "16.0 GiB"
    assert facts["CPU throttled"] == "250.0 ms"
    assert facts["GPU 0 load before"] == "50 %"
    assert facts["GPU 0 in MIG mode"] == "no"
    assert facts["Unheard of"] == "50 %"


WRONG = Finding(code="H03", severity="error", message="two inputs gave equal outputs")


def wrong(run: Run) -> Run:
    """Say of a run that its outputs were wrong."""
    return replace(run, record=run.record.having(findings=(WRONG,)))


def test_a_verdict_says_that_a_side_was_wrong() -> None:
    baseline, candidate = day()[0], wrong(day()[3])
    verdict = Verdict(metric="host", kind="faster", ratio=0.5, interval=None, reason="", launches=8)
    comparison = Comparison(baseline="t1", candidate="e1", design="launches", verdicts=(verdict,))
    candidate.extra["comparisons"] = [comparison]
    document = document_from_runs([baseline, candidate])
    cards = next(block for block in document.sections[0].blocks if isinstance(block, Cards))
    assert "H03 found in the candidate" in cards.items[0].detail


def test_the_lowest_median_is_one_of_right_runs_of_one_network() -> None:
    def said(runs: list[Run]) -> str:
        section = document_from_runs(runs).section("summary")
        assert section is not None
        return next(block.text for block in section.blocks if isinstance(block, Text))

    first, second = made("a", "net.onnx", "onnxruntime"), made("b", "net.engine", "tensorrt")
    assert "lowest median" in said([first, second])
    assert "lowest median" not in said([first, wrong(second)])
    assert "lowest median" not in said([first, made("c", "other.engine", "tensorrt")])


def test_words_on_a_log_axis_do_not_meet() -> None:
    wide, narrow = (
        axis_spec(Axis(title="t", scale="log", low=160.0, high=high))["tickvals"]
        for high in (2000.0, 500.0)
    )
    assert {1000.0, 2000.0} <= set(wide)
    assert 1500.0 not in wide
    assert 150.0 in narrow


def test_nothing_is_told_per_item_where_nobody_knows_how_many_there_were() -> None:
    inputs = (
        TensorSpec(name="a", dtype="float32", shape=(4, 3)),
        TensorSpec(name="b", dtype="float32", shape=(2, 2)),
    )
    known = made_run(id="known", batch=4)
    record = known.record.having(id="open", inputs=inputs, facts={"energy_per_query_j": 2.0},
        spec=known.record.spec.having(batch=None))  # fmt: skip
    run = replace(known, record=record)
    assert record.batch is None
    assert joules_per_item(run) is None
    assert "per item" not in dict(facts_of(run)).get("energy", "")
    cards = document_from_runs([run], title="t")
    details = [
        card.detail
        for section in cards.sections
        for block in section.blocks
        if isinstance(block, Cards)
        for card in block.items
        if card.title == "Throughput"
    ]
    assert details == ["batch unknown"]
