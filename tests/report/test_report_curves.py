"""Sections over one thing that runs differ in: batch and memory."""

from dataclasses import replace
from typing import Any

import pytest
from made_runs import made_run, phased_times

from trtbench.core.run import Fact, LaunchFacts, Run
from trtbench.report.compose import document_from_runs
from trtbench.report.document import Figure, Section


def run(number: int, *, batch: int = 4, **spec: Any) -> Run:
    made = made_run(phased_times(), id=f"run-{number}", batch=batch)
    launches, whole = (LaunchFacts(wall_s=1.0),), made.record.spec.having(**spec)
    return replace(made, record=made.record.having(spec=whole, launches=launches))


def section(runs: list[Run], name: str) -> Section:
    found = document_from_runs(runs).section(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "change", [{"streams": 4}, {"options": {"compile": "default"}}, {"gap_s": 0.01}]
)
def test_what_differs_in_more_than_the_batch_is_no_curve_over_it(change: dict[str, Any]) -> None:
    runs = [run(0, batch=1), run(1, batch=4, **change)]
    assert document_from_runs(runs).section("throughput") is None
    assert document_from_runs([run(0, batch=1), run(1, batch=4)]).section("throughput")


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
