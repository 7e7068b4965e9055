"""The sections of a report, and what verbs show of the same subjects."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_runs import (
    WARNING,
    full_runs,
    made_failure,
    made_graph,
    made_profile,
    made_run,
    made_score,
    made_times,
    phased_times,
)

from trtbench.core.results import Comparison, Verdict
from trtbench.core.run import Fact, Finding, Interval, LaunchFacts, Run
from trtbench.core.spec import TensorSpec
from trtbench.report import document as documents
from trtbench.report.compose import SECTIONS, document_from_runs
from trtbench.report.document import Figure, Section
from trtbench.report.renderers.terminal import text
from trtbench.report.run_facts import device_names, joules_per_item, labels_from_runs
from trtbench.report.sections.summary import document_from_run, facts_of


def ids(document: documents.Document) -> list[str]:
    return [section.id for section in document.sections]


def test_every_section_has_an_order_and_what_matters_comes_first() -> None:
    orders = [SECTIONS.load(name).ORDER for name in SECTIONS.names()]
    assert len(set(orders)) == len(orders)
    run = made_run(phased_times(), findings=(WARNING,), layers=made_profile())
    run.extra["scores"] = made_score("top-1", 0.9)
    document = document_from_runs([run], failed=[made_failure()])
    assert ids(document) == [
        "summary", "failures", "latency", "percentiles", "phases", "layers",
        "findings", "accuracy", "environment", "methods",
    ]  # fmt: skip


def test_a_p99_without_enough_samples_says_how_many_it_takes() -> None:
    table = document_from_runs([made_run(made_times(100))]).tables()[0]
    p99 = table.rows[0][[heading.key for heading in table.headings].index("p99_s")]
    assert p99.value is None
    assert "needs" in p99.shown


def test_each_column_of_times_has_one_unit() -> None:
    columns = [documents.column("a_s", "A", 0, "time"), documents.column("b_s", "B", 1, "time")]
    rows = documents.table("times", [(2e-3, 5.0), (4e-4, 60.0), (3e-3, None)], columns).rows
    assert [[cell.shown for cell in row] for row in rows] == [
        ["2.00 ms", "5.00 s"], ["0.400 ms", "60.0 s"], ["3.00 ms", "–"]
    ]  # fmt: skip


def test_throughput_appears_when_runs_differ_in_batch_only() -> None:
    one, eight = made_run(batch=1), made_run(made_times(base_s=4e-3), batch=8)
    other = made_run(batch=8, model="other.onnx")
    assert document_from_runs([one, other]).section("throughput") is None
    document = document_from_runs([eight, one, other])
    chart = figure(document, "inference_throughput_vs_batch_size_net").chart
    (curve,) = chart.panels[0].lines
    assert curve.x == (1, 8)
    assert curve.y == pytest.approx([1 / one.times.host.mean(), 8 / eight.times.host.mean()])
    assert document_from_runs([run(0, batch=1), run(1, batch=4)]).section("throughput")
    for change in ({"streams": 4}, {"options": {"compile": "default"}}, {"gap_s": 0.01}):
        runs = [run(0, batch=1), run(1, batch=4, **change)]
        assert document_from_runs(runs).section("throughput") is None


def test_shares_are_shown_in_per_cent_and_other_scores_as_numbers() -> None:
    run = made_run()
    run.extra["scores"] = made_score("top-1", 0.9712) | made_score("mae", 0.1)
    rows = table(document_from_runs([run]), "accuracy").rows
    shown = [(row[1].value, row[2].shown) for row in rows]
    assert shown == [("top-1", "97.12 %"), ("mae", "0.100")]
    assert [cell.shown for cell in rows[0][3:]] == ["96.12 %", "98.12 %", "360"]


def test_runs_are_named_by_what_differs_and_never_alike() -> None:
    runs = [made_run(precision="fp32"), made_run(precision="int8"), made_run(precision="int8")]
    assert labels_from_runs(runs) == ("fp32", "int8 (1)", "int8 (2)")
    assert labels_from_runs([made_run(model="a.onnx")]) == ("a.onnx",)
    assert labels_from_runs([made_run(batch=1), made_run(batch=8)]) == ("batch 1", "batch 8")
    assert labels_from_runs([asked(gap_s=0.0), asked(gap_s=1e-3)]) == ("no gap", "gap 1.00 ms")
    loads = [
        asked(rate_hz=rate, protocol="server", arrivals=kind)
        for rate, kind in ((40.0, "poisson"), (80.0, "poisson"), (80.0, "constant"))
    ]
    assert labels_from_runs(loads) == ("40.00/s", "80.00/s · poisson", "80.00/s · constant")


def asked(**changes: Any) -> Run:
    run = made_run()
    return replace(run, record=run.record.having(spec=run.record.spec.having(**changes)))


def table(document: documents.Document, id: str) -> documents.Table:
    return next(each for each in document.tables() if each.id == id)


def column(found: documents.Table, key: str) -> list[Any]:
    place = [heading.key for heading in found.headings].index(key)
    return [row[place].value for row in found.rows]


def figure(document: documents.Document, id: str) -> documents.Figure:
    return next(each for each in document.figures() if each.id == id)


def test_the_verdict_comes_first_and_says_how_much_how_sure_and_whether_right() -> None:
    wrong = Finding(code="H03", severity="error", message="two inputs gave equal outputs")
    baseline, candidate = made_run(id="a"), made_run(id="b", precision="int8", findings=(wrong,))
    baseline.extra["scores"] = made_score("top-1", 0.975)
    candidate.extra["scores"] = made_score("top-1", 0.962)
    interval = Interval(low=0.48, high=0.52, level=0.99, meaning="")
    verdict = Verdict(
        metric="host", kind="faster", ratio=0.5, interval=interval, reason="", launches=10
    )
    comparison = Comparison(baseline="a", candidate="b", design="duet", verdicts=(verdict,))
    candidate.extra["comparisons"] = [comparison]
    document = document_from_runs([baseline, candidate])
    assert document.sections[0].id == "verdicts"
    first = document.sections[0].blocks[0]
    assert first.text.startswith("int8 is 2.00x as fast as fp32 (1.92x to 2.08x, 99 %); measured")
    assert first.tone == "good"
    assert "10 launches" in first.text
    assert "Top-1 96.20 % against 97.50 %; H03 found in the candidate" in first.text


def test_layers_are_added_up_by_kind() -> None:
    profile = made_profile(7)
    timed = made_run(layers=profile, graph=made_graph(profile))
    both = (document_from_runs([run]) for run in (timed, replace(timed, layers=None)))
    found, untimed = (table(document, "layer_kinds") for document in both)
    total = sum(layer.typical_s for layer in profile.layers)
    assert sum(column(found, "time_s")) == pytest.approx(total)
    assert sum(column(found, "layers")) == 7
    assert set(column(found, "group")) == {"Convolution", "PointWise"}
    assert not any(column(untimed, "time_s"))


def test_pictures_are_shown_once_and_missing_ones_not_at_all(tmp_path: Path) -> None:
    runs = full_runs(tmp_path)
    names = ("depth_comparison.png", "depth_comparison.png", "gone.png", "/etc/passwd")
    runs[0].extra["pictures"] = list(names)
    (picture,) = document_from_runs(runs).pictures()
    assert picture.id == "depth_comparison"


def made(id: str, model: str, runtime: str, **spec: Any) -> Run:
    """Make a run whose spec is changed after the fact, and whose phases are all known."""
    run = made_run(phased_times(), id=id, model="x", runtime=runtime, batch=1, precision=None)
    whole = run.record.spec.having(**spec)
    whole = whole.having(model=whole.model.having(path=model))
    return replace(run, record=run.record.having(spec=whole))


def half(run: Run) -> Run:
    """Say on record that the model was cast to half."""
    conditions = {"precision": Fact(value="half", source="stated")}
    return replace(run, record=run.record.having(conditions=conditions))


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


def test_names_tell_runs_apart_and_pictures_of_mixed_protocols_say_that_they_do_not_compare():
    runs = day()
    assert labels_from_runs(runs) == (
        "torchvision:resnet18 · torch · half · serve",
        "torchvision:resnet18 · torch · half · serve · compile=reduce-overhead",
        "torchvision:vit_b_16 · torch · half · serve · compile=reduce-overhead",
        "resnet18.engine · tensorrt · serve",
        "resnet18.engine · tensorrt · gpu",
        "resnet18.engine · tensorrt · pipeline · 2 streams",
        "vit_b_16.engine · tensorrt · serve",
    )
    document = document_from_runs(runs)
    for id in ("speed_benchmark", "percentiles", "inference_time_bar_all"):
        assert "different protocols (serve, gpu, pipeline)" in (figure(document, id).caption or "")
    first = document.sections[0].blocks[0]
    assert "different protocols" in first.text


def test_findings_stand_beside_the_number_they_concern_and_are_explained() -> None:
    gpu = made_run(times=phased_times(), findings=(
        Finding(code="H09", severity="warning", message="load 9", concerns="host",
                evidence={"pressure": 0.36, "wait_ms": 1.5}, remedy="stop other work"),
        Finding(code="H08", severity="warning", message="2 others", concerns="gpu"),
    ))  # fmt: skip
    first, *shown = text(document_from_run(gpu, brief=True), width=None).splitlines()
    number = r"[\d .]+ µs"
    answer = (
        f"net.onnx: {number} GPU time, {number} host time per batch of 4 \\(medians\\), .* items/s"
    )
    assert re.fullmatch(answer, first)
    names = [line[:12].strip() for line in shown]
    assert names == ["GPU time", "host time", "measured", "findings"]
    assert shown[-1].endswith("  the GPU is shared; host time: the CPU is contended (--explain)")
    words = " ".join(text(document_from_run(gpu, brief=True, explain=True), width=80).split())
    assert "warning H09 (host time): the CPU is contended found load 9 meaning waiting for" in words
    assert "evidence pressure 36.0 %, wait 1.500 ms remedy stop other work" in words


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
    assert " batches/s" in document_from_run(run, brief=True).title


def test_machines_of_one_kind_go_by_what_their_owners_call_them():
    runs = []
    for name in ("orin-1", "orin-2"):
        run = made_run(id=name, batch=1, host=f"pod-{name}")
        named = run.record.environment.having(cpu="Cortex", machine=name)
        runs.append(replace(run, record=run.record.having(environment=named)))
    assert list(device_names(runs).values()) == ["orin-1", "orin-2"]
    assert labels_from_runs(runs) == ("orin-1", "orin-2")


def run(number: int, *, batch: int = 4, **spec: Any) -> Run:
    made = made_run(phased_times(), id=f"run-{number}", batch=batch)
    launches, whole = (LaunchFacts(wall_s=1.0),), made.record.spec.having(**spec)
    return replace(made, record=made.record.having(spec=whole, launches=launches))


def section(runs: list[Run], name: str) -> Section:
    found = document_from_runs(runs).section(name)
    assert found is not None
    return found


def test_what_ran_decides_which_runs_are_alike() -> None:
    """Of streams that a program was told by itself, its own word counts, in every section."""

    def told(number: int, batch: int, streams: int) -> Run:
        made = run(number, batch=batch)
        conditions = {**made.record.conditions, "streams": Fact(value=streams)}
        return replace(made, record=made.record.having(conditions=conditions))

    mixed = [told(0, 1, 1), told(1, 4, 4)]
    assert document_from_runs(mixed).section("throughput") is None
    surface = [told(n, batch, streams) for n, (batch, streams) in enumerate(
        (batch, streams) for batch in (1, 8) for streams in (1, 2))]  # fmt: skip
    (figure,) = section(surface, "throughput").blocks
    assert len(figure.chart.panels[0].lines) == 2, "a curve for each number of streams"
    days = [told(n, 4, 1 + n % 2) for n in range(6)]
    dated = [
        replace(each, record=each.record.having(created=f"2026-03-0{n}T10:00:00+01:00"))
        for n, each in enumerate(days, 1)
    ]
    figures = [each for each in section(dated, "history").blocks if isinstance(each, Figure)]
    assert len(figures) == 2, "two series, and no line between them"
