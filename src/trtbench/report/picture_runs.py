"""Runs chosen to be drawn, with what their pictures share: names, colours, columns and a unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trtbench.domain.result import Run
from trtbench.domain.samples import Column
from trtbench.report.charts import Axis
from trtbench.report.labels import labels_from_runs
from trtbench.report.numbers import text_from_duration, unit_for_seconds
from trtbench.report.run_facts import headline_column, headline_title, measured
from trtbench.report.sampling import View
from trtbench.units import counted


@dataclass(frozen=True)
class Drawn:
    """The runs of one figure with what its pictures share: names, colours and unit."""

    runs: list[Run]
    names: list[str]
    roles: list[str]
    columns: list[Column]
    unit: str
    scale: float

    def part(self, begin: int, end: int) -> Drawn:
        """Choose some of the runs, with the names, colours and unit they have among all."""
        lists = {name: getattr(self, name)[begin:end] for name in ("runs", "names", "roles")}
        return replace(self, columns=self.columns[begin:end], **lists)

    def axis(self, view: View) -> Axis:
        """Describe the axis of latencies over a range."""
        return Axis(
            title=headline_title(self.runs),
            unit=self.unit,
            scale="log" if view.log else "linear",
            low=view.low,
            high=view.high,
        )


def drawn_from_runs(runs: Sequence[Run]) -> Drawn:
    """Choose the runs that have samples, and the unit that suits most of them."""
    names, chosen = labels_from_runs(runs), measured(runs)
    columns = [headline_column(run) for _, run in chosen]
    unit, scale = unit_for_seconds(float(np.median([np.median(column) for column in columns])))
    return Drawn(
        runs=[run for _, run in chosen],
        names=[names[index] for index, _ in chosen],
        roles=[f"run:{index}" for index, _ in chosen],
        columns=[column / scale for column in columns],
        unit=unit,
        scale=scale,
    )


def words_beyond(column: Column, view: View, drawn: Drawn) -> str | None:
    """Say what lies outside the drawn range."""
    count = view.beyond(column)
    if not count:
        return None
    longest = text_from_duration(float(column.max()) * drawn.scale)
    return f"{counted(count, 'sample')} outside, max {longest}"
