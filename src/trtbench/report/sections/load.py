"""How latency grows with load: searches for a rate, and runs that differ in their rate alone."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.load import knee, point_from_runs
from trtbench.domain.result import Run
from trtbench.report.alike import name_of_key, series_over
from trtbench.report.document import Block, Section, Text
from trtbench.report.documents.load import blocks_from_load
from trtbench.report.labels import file_stem, model_name, shortened
from trtbench.report.load_curve import rate_figure, rate_table
from trtbench.units import text_from_rate

ORDER = 72
STATISTIC = "p99"
LEAST_RATES = 2


def make(runs: Sequence[Run]) -> Section | None:
    """Show every search, and p99 and median against the rate of models measured at several."""
    blocks: list[Block] = []
    taken: set[str] = set()
    for run in (each for each in runs if each.load is not None):
        assert run.load is not None
        name = f"{model_name(run.record)}, {run.load.slo.text}"
        stem = file_stem(f"{model_name(run.record)} {run.load.slo.statistic}", taken=taken)
        blocks += blocks_from_load(run.load, stem=stem, name=shortened(name))
    for key, rates in series_over(runs, _rate, leave_out=("rate",), least=LEAST_RATES).items():
        points = [point_from_runs(windows) for windows in rates.values()]
        bend = knee(points)
        marks = [] if bend is None else [(bend, "knee")]
        stem = file_stem(key[0], taken=taken)
        blocks += [
            rate_figure(
                points,
                statistic=STATISTIC,
                marks=marks,
                id=f"latency_vs_rate_{stem}",
                name=shortened(name_of_key(key)),
            ),
            rate_table(points, statistic=STATISTIC, id=f"rates_{stem}", bounded=False),
        ]
        if bend is not None:
            words = "beyond it waiting grows faster than load"
            blocks.append(Text(text=f"Knee at {text_from_rate(bend, digits=3)}: {words}."))
    if not blocks:
        return None
    return Section(id="load", title="Load", blocks=tuple(blocks))


def _rate(run: Run) -> float | None:
    return run.record.spec.rate_hz if run.times.host is not None else None
