"""How latency grows with load: runs of the protocol server that differ in rate alone."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.load import knee, point_from_runs
from trtbench.domain.result import Run
from trtbench.report.alike import name_of_key, series_over
from trtbench.report.document import Block, Section, Text
from trtbench.report.labels import file_stem, shortened
from trtbench.report.load_curve import rate_figure, rate_table
from trtbench.units import text_from_rate

ORDER = 72
STATISTIC = "p99"
LEAST_RATES = 2


def make(runs: Sequence[Run]) -> Section | None:
    """Draw p99 and median against the rate for each model measured at several."""
    blocks: list[Block] = []
    taken: set[str] = set()
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
