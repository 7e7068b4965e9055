from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from made_runs import (
    NASTY,
    WARNING,
    made_failure,
    made_profile,
    made_run,
    made_times,
    phased_times,
)

from trtbench.domain.result import LaunchFacts, Run
from trtbench.domain.samples import IterationTimes, TelemetrySample
from trtbench.errors import UsageError
from trtbench.report.compose import SECTIONS, document_from_runs
from trtbench.report.document import (
    Cell,
    Document,
    FindingList,
    Heading,
    Picture,
    Section,
    Table,
    Text,
)
from trtbench.report.labels import labels_from_runs, shortened


def ids(document: Document) -> list[str]:
    return [section.id for section in document.sections]


def test_every_section_has_an_order_and_what_matters_comes_first() -> None:
    orders = [SECTIONS.load(name).ORDER for name in SECTIONS.names()]
    assert len(set(orders)) == len(orders)
    run = made_run(phased_times(), findings=(WARNING,), layers=made_profile())
    run.extra["scores"] = {"top-1": 0.9}
    document = document_from_runs([run], failed=[made_failure()])
    assert ids(document) == [
        "summary", "failures", "latency", "percentiles", "phases", "layers",
        "findings", "accuracy", "environment", "methods",
    ]  # fmt: skip


def test_nothing_to_report_is_an_error_that_says_what_to_type() -> None:
    with pytest.raises(UsageError) as caught:
        document_from_runs([])
    assert caught.value.fix


def test_failures_alone_make_a_document() -> None:
    document = document_from_runs([], failed=[made_failure()])
    assert ids(document) == ["failures"]
    assert document.created == "2026-03-01T11:00:00+01:00"


def test_a_run_without_any_samples_is_still_listed() -> None:
    document = document_from_runs([made_run(IterationTimes())])
    assert "latency" not in ids(document)
    table = document.tables()[0]
    assert table.rows[0][[each.key for each in table.headings].index("median_s")].shown == "–"


def test_a_run_with_host_time_only_has_no_phases() -> None:
    assert "phases" not in ids(document_from_runs([made_run()]))


@pytest.mark.parametrize(
    "column",
    [
        np.array([1e-3]),
        np.full(50, 1e-3),
        np.zeros(50),
        np.array([1e-3, np.nan, 2e-3, np.inf]),
        np.array([1e-9, 10.0] * 30),
    ],
    ids=["one", "constant", "zero", "not finite", "far apart"],
)
def test_odd_columns_make_a_document_that_json_can_hold(column: np.ndarray) -> None:
    document = document_from_runs([made_run(IterationTimes(host=column)), made_run()])
    data = msgspec.json.encode(document)
    assert msgspec.json.decode(data, type=Document).title == document.title


def test_a_p99_without_enough_samples_says_how_many_it_takes() -> None:
    table = document_from_runs([made_run(made_times(100))]).tables()[0]
    p99 = table.rows[0][[heading.key for heading in table.headings].index("p99_s")]
    assert p99.value is None
    assert "needs" in p99.shown


def test_findings_shared_by_runs_are_said_once_the_most_severe_first() -> None:
    error = WARNING.having(severity="error", code="H1")
    runs = [made_run(id="a", findings=(WARNING,)), made_run(id="b", findings=(WARNING, error))]
    section = document_from_runs(runs).section("findings")
    assert section is not None
    block = section.blocks[0]
    assert isinstance(block, FindingList)
    assert [len(item.runs) for item in block.items] == [1, 2]
    assert block.items[0].finding.severity == "error"


def test_throughput_appears_when_runs_differ_in_batch_only() -> None:
    one, eight = made_run(batch=1), made_run(made_times(base_s=4e-3), batch=8)
    other = made_run(batch=8, model="other.onnx")
    assert document_from_runs([one, other]).section("throughput") is None
    document = document_from_runs([eight, one, other])
    table = next(table for table in document.tables() if table.id == "throughput")
    assert [row[1].value for row in table.rows] == [1, 8]
    rates = [row[2].value for row in table.rows]
    assert rates == pytest.approx([1 / one.times.host.mean(), 8 / eight.times.host.mean()])


def test_scores_come_as_numbers_mappings_and_values() -> None:
    run = made_run()
    run.extra["scores"] = {
        "top-1": {"value": 0.9712, "low": 0.958, "high": 0.981, "count": 360},
        "mae": 0.1,
        "broken": float("nan"),
        "text": "high",
    }
    table = next(t for t in document_from_runs([run]).tables() if t.id == "accuracy")
    assert [(row[1].value, row[2].value) for row in table.rows] == [("top-1", 0.9712), ("mae", 0.1)]
    assert [cell.shown for cell in table.rows[0][2:]] == ["97.12 %", "95.80 %", "98.10 %", "360"]


def test_accuracy_stands_beside_latency_memory_and_energy_of_the_same_bytes() -> None:
    looks = [TelemetrySample(at_s=0.1 * k, memory_used_bytes=k * 2**30) for k in (1, 3)]
    run = made_run(telemetry=tuple(looks))
    launch = LaunchFacts(peak_memory_bytes=64 * 2**20, energy_j=4.0 * len(run.times) * 2)
    change = msgspec.structs.replace
    spec = change(run.record.spec, model=change(run.record.spec.model, sha256="ab" * 32))
    run = replace(run, record=change(run.record, launches=(launch,), spec=spec))
    run.extra["scores"] = {"top1": 0.9}
    bare = made_run(id="run-2", model="bare.onnx")
    table = next(t for t in document_from_runs([run, bare]).tables() if t.id == "same_bytes")
    [row] = table.rows
    assert [cell.shown for cell in row[1:3]] == ["abababababab", "90.00 %"]
    facts = dict(zip([heading.key for heading in table.headings], row, strict=True))
    assert facts["host_memory_bytes"].shown == "64.0 MiB"
    assert facts["device_memory_bytes"].shown == "3.00 GiB"
    assert facts["energy_per_item_j"].value == pytest.approx(2.0), "a batch has four items"


def test_environments_that_differ_are_told_apart() -> None:
    document = document_from_runs([made_run(host="a"), made_run(host="b")])
    table = next(t for t in document.tables() if t.id == "environment_differences")
    assert [row[1].value for row in table.rows] == ["a", "b"]


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


def test_names_stay_on_one_line() -> None:
    assert all("\n" not in name for name in labels_from_runs([made_run(model=NASTY)]))


def test_a_long_name_keeps_both_ends() -> None:
    short = shortened("a" * 50 + "z" * 50, length=21)
    assert len(short) == 21
    assert short[0] == "a"
    assert short[-1] == "z"


def test_figures_of_ten_thousand_layers_and_samples_stay_small() -> None:
    run = made_run(made_times(50_000), layers=made_profile(10_000))
    document = document_from_runs([run])
    for figure in document.figures():
        assert len(msgspec.json.encode(figure)) < 150_000
    layers = next(table for table in document.tables() if table.id == "layers")
    assert len(layers.rows) == 10_000


def test_a_table_with_a_row_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="headings"):
        Table(id="t", headings=(Heading(key="a", title="A"),), rows=((Cell(), Cell()),))


def test_a_section_of_pictures_alone_goes_with_them() -> None:
    picture = Picture(id="worst", title="Worst", path="worst.png")
    document = Document(
        title="",
        created="",
        sections=(
            Section(id="words", title="Words", blocks=(Text(text="a"),)),
            Section(id="pictures", title="Worst cases", blocks=(picture,)),
        ),
    )
    assert ids(document.with_figures(())) == ["words"]
