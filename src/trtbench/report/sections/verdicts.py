"""What is faster, by how much, and how sure that is; where runs carry comparisons.

``run.extra["comparisons"]`` is a sequence of ``Comparison`` values with the run as candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtbench.domain.result import Comparison, Run, Verdict
from trtbench.report.document import (
    Block,
    Cell,
    FindingList,
    FindingOf,
    Heading,
    Section,
    Text,
    table_from_rows,
)
from trtbench.report.labels import labels_from_runs
from trtbench.units import text_from_fraction

ORDER = 5

HEADINGS = (
    Heading(key="candidate", title="Candidate"),
    Heading(key="baseline", title="Baseline"),
    Heading(key="metric", title="Metric"),
    Heading(key="verdict", title="Verdict"),
    Heading(key="change", title="Change", align="right"),
    Heading(key="interval", title="99 % interval", align="right"),
    Heading(key="launches", title="Launches", align="right"),
    Heading(key="measured", title="Measured"),
)
_DESIGNS = {"duet": "in turn", "launches": "launches in turn", "apart": "apart"}


def make(runs: Sequence[Run]) -> Section | None:
    """Put every comparison into one table, the headline of each into a sentence."""
    found = list(_comparisons(runs))
    if not found:
        return None
    rows = [
        _row(names, comparison, verdict)
        for names, comparison in found
        for verdict in comparison.verdicts
    ]
    sentences = [_sentence(names, comparison.verdicts[0]) for names, comparison in found]
    findings = tuple(
        FindingOf(runs=(names[0],), finding=finding)
        for names, comparison in found
        for finding in comparison.findings
    )
    blocks: list[Block] = [
        Text(text=" ".join(sentences)),
        table_from_rows("verdicts", headings=HEADINGS, rows=rows),
    ]
    if findings:
        blocks.append(FindingList(items=findings))
    return Section(id="verdicts", title="Verdicts", blocks=tuple(blocks))


def _comparisons(runs: Sequence[Run]) -> Iterator[tuple[tuple[str, str], Comparison]]:
    labels = labels_from_runs(runs)
    names = {run.id: label for run, label in zip(runs, labels, strict=True)}
    for run, label in zip(runs, labels, strict=True):
        carried = run.extra.get("comparisons", ())
        for comparison in carried if isinstance(carried, (list, tuple)) else ():
            if isinstance(comparison, Comparison):
                yield (label, names.get(comparison.baseline, comparison.baseline)), comparison


def _row(
    names: tuple[str, str], comparison: Comparison, verdict: Verdict
) -> tuple[Cell | str | int, ...]:
    change = None if verdict.ratio is None else verdict.ratio - 1
    interval = "–"
    if verdict.interval is not None:
        ends = (verdict.interval.low - 1, verdict.interval.high - 1)
        interval = " to ".join(text_from_fraction(end, signed=True) for end in ends)
    return (
        names[0],
        names[1],
        verdict.metric,
        verdict.kind,
        Cell(value=change, text=text_from_fraction(change, signed=True)),
        interval,
        verdict.launches,
        _DESIGNS[comparison.design],
    )


def _sentence(names: tuple[str, str], verdict: Verdict) -> str:
    if verdict.ratio is None or verdict.kind in ("unclear", "incomparable"):
        return f"{names[0]} against {names[1]}: {verdict.kind} ({verdict.reason})."
    change = text_from_fraction(verdict.ratio - 1, signed=True)
    if verdict.kind == "same":
        return f"{names[0]} is as fast as {names[1]} ({change})."
    return f"{names[0]} is {verdict.kind} than {names[1]}: {change} in {verdict.metric} time."
