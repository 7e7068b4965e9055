"""How latency grows with load: runs of the protocol server that differ in rate alone."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.load import RatePoint, knee, point_from_runs
from trtbench.domain.result import Run, gpu_of
from trtbench.report.document import Block, Section, Text
from trtbench.report.labels import file_stem, model_name, precision_name, shortened
from trtbench.report.load_curve import rate_figure, rate_table
from trtbench.units import text_from_rate

ORDER = 72
STATISTIC = "p99"
LEAST_RATES = 2

Key = tuple[str, ...]


def make(runs: Sequence[Run]) -> Section | None:
    """Draw p99 and median against the rate for each model measured at several."""
    blocks: list[Block] = []
    taken: set[str] = set()
    for key, points in _series(runs).items():
        bend = knee(points)
        marks = [] if bend is None else [(bend, "knee")]
        stem = file_stem(key[0], taken=taken)
        blocks += [
            rate_figure(
                points,
                statistic=STATISTIC,
                marks=marks,
                id=f"latency_vs_rate_{stem}",
                name=shortened(" · ".join(part for part in key if part)),
            ),
            rate_table(points, statistic=STATISTIC, id=f"rates_{stem}", bounded=False),
        ]
        if bend is not None:
            words = "beyond it waiting grows faster than load"
            blocks.append(Text(text=f"Knee at {text_from_rate(bend, digits=3)}: {words}."))
    if not blocks:
        return None
    return Section(id="load", title="Load", blocks=tuple(blocks))


def _series(runs: Sequence[Run]) -> dict[Key, list[RatePoint]]:
    """Group what differs in rate only; runs at one rate are windows of it."""
    groups: dict[Key, dict[float, list[Run]]] = {}
    for run in runs:
        rate = run.record.spec.rate_hz
        if rate is not None and len(run.times) and run.times.host is not None:
            groups.setdefault(_key(run), {}).setdefault(rate, []).append(run)
    return {
        key: [point_from_runs(rates[rate]) for rate in sorted(rates)]
        for key, rates in groups.items()
        if len(rates) >= LEAST_RATES
    }


def _key(run: Run) -> Key:
    record, spec = run.record, run.record.spec
    return (
        model_name(record),
        spec.runtime,
        precision_name(record) or "",
        f"batch {record.batch}" if record.batch else "",
        "" if spec.arrivals == "poisson" else spec.arrivals,
        f"{spec.threads} threads" if spec.threads else "",
        "CUDA graph" if spec.cuda_graph == "on" else "",
        gpu.name if (gpu := gpu_of(record)) else "",
    )
