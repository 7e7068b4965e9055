"""What is faster, by how much, and how sure that is; where runs carry comparisons.

``run.extra["comparisons"]`` is a sequence of ``Comparison`` values with the run as candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trtbench.analysis.verdict import sentence
from trtbench.domain.comparison import Comparison, Verdict
from trtbench.domain.result import Run
from trtbench.report.cells import change_cell
from trtbench.report.document import Block, Card, Cards, Cell, Heading, Section, table_from_rows
from trtbench.report.documents.comparison import TONES, also_in_cycles, interval_text
from trtbench.report.finding_list import gather
from trtbench.report.headings import CHANGE_HEADING, METRIC_HEADING
from trtbench.report.labels import labels_from_runs
from trtbench.report.numbers import text_from_change
from trtbench.report.run_scores import readings_from_run

ORDER = 5

HEADINGS = (
    Heading(key="candidate", title="Candidate"),
    Heading(key="baseline", title="Baseline"),
    METRIC_HEADING,
    Heading(key="verdict", title="Verdict"),
    CHANGE_HEADING,
    Heading(key="interval", title="99 % interval", align="right"),
    Heading(key="launches", title="Launches", align="right"),
    Heading(key="measured", title="Measured"),
)
MOST_CARDS = 8
_DESIGNS = {
    "duet": "in turn",
    "bursts": "bursts and series in turn",
    "launches": "launches in turn",
    "apart": "apart",
    "builds": "builds",
}


def make(runs: Sequence[Run]) -> Section | None:
    """Put the headline of every comparison on a card, and all verdicts into one table."""
    found = list(_comparisons(runs))
    if not found:
        return None
    rows = [
        _row(names, comparison, verdict)
        for names, comparison in found
        for verdict in also_in_cycles(comparison.verdicts)
    ]
    by_id = {run.id: run for run in runs}
    findings = gather(
        (names[0], finding) for names, comparison in found for finding in comparison.findings
    )
    cards = Cards(items=tuple(_card(names, each, by_id) for names, each in found[:MOST_CARDS]))
    table = table_from_rows("verdicts", headings=HEADINGS, rows=rows)
    blocks: list[Block] = [cards, table]
    if findings:
        blocks.append(findings)
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
    return (
        names[0],
        names[1],
        verdict.metric,
        verdict.kind,
        change_cell(change),
        interval_text(verdict),
        verdict.launches,
        _DESIGNS[comparison.design],
    )


def _card(names: tuple[str, str], comparison: Comparison, by_id: Mapping[str, Run]) -> Card:
    """Say what is faster, by how much, how sure that is, and whether it is still right."""
    verdict = comparison.verdicts[0]
    candidate, baseline = (by_id.get(each) for each in (comparison.candidate, comparison.baseline))
    rightness = "; ".join((_rightness(candidate, baseline), *_errors(candidate, baseline)))
    title = f"{names[0]} against {names[1]}"
    if verdict.ratio is None or verdict.kind in ("unclear", "incomparable"):
        detail = "; ".join((sentence(verdict), rightness))
        return Card(title=title, value=verdict.kind, detail=detail, tone="unclear")
    change = text_from_change(verdict.ratio - 1, digits=1)
    facts = [f"{change} {verdict.metric} {_noun(verdict)}", *_sureness(comparison), rightness]
    value = "as fast" if verdict.kind == "same" else _times(verdict)
    return Card(title=title, value=value, detail="; ".join(facts), tone=TONES[verdict.kind])


def _times(verdict: Verdict) -> str:
    ratio = verdict.ratio or 1.0
    speed = ratio if verdict.metric == "throughput" else 1 / ratio
    return f"{speed:.2f} × as fast" if speed >= 1 else f"{1 / speed:.2f} × as slow"


def _noun(verdict: Verdict) -> str:
    return "" if verdict.metric == "throughput" else "time"


def _sureness(comparison: Comparison) -> list[str]:
    verdict = comparison.verdicts[0]
    facts = [f"measured {_DESIGNS[comparison.design]}, {verdict.launches} launches"]
    if verdict.interval is not None:
        words = interval_text(verdict, digits=1)
        facts.insert(0, f"{verdict.interval.level * 100:g} % interval {words}")
    return facts


def _errors(candidate: Run | None, baseline: Run | None) -> Iterator[str]:
    """Name what makes the time of a side alone worthless: a wrong result has no speed."""
    for side, run in (("candidate", candidate), ("baseline", baseline)):
        codes = {each.code for each in run.findings if each.severity == "error"} if run else ()
        if codes:
            yield f"{' and '.join(sorted(codes))} found in the {side}: see findings"


def _rightness(candidate: Run | None, baseline: Run | None) -> str:
    after = readings_from_run(candidate) if candidate else {}
    before = readings_from_run(baseline) if baseline else {}
    shared = next((metric for metric in after if metric in before), None)
    if shared is None:
        return "accuracy not compared"
    return f"{shared} {after[shared].text} against {before[shared].text}"
