"""What comparisons look like on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from trtbench.cli._screen import result_console, show_blocks
from trtbench.report.documents.run import finding_blocks, statistics_of, title_of
from trtbench.units import text_from_fraction, text_from_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from trtbench.domain.result import Finding, Verdict
    from trtbench.workflows.compare.compare import Compared

_STYLES = {"faster": "green", "slower": "red", "same": "cyan", "unclear": "yellow"}
_DESIGNS = {
    "one-process": "in turn within one process",
    "lock-step": "in turn, two processes in lock-step",
    "launches": "fresh launches in turn (ABBA)",
    "stored runs": "as they were stored",
}


def show_comparison(compared: Compared, *, selftest: bool = False) -> None:
    """Print one comparison: both sides, a verdict per metric, and what they rest on."""
    console = result_console()
    for name, run in (("baseline", compared.baseline), ("candidate", compared.candidate)):
        console.print(f"{name:<10} {title_of(run)}", style="bold", markup=False)
        show_blocks(statistics_of(run))
    comparison = compared.comparison
    console.print(
        f"measured   {_DESIGNS.get(compared.mode, compared.mode)}, {_launches(compared)} a side",
        markup=False,
    )
    if compared.interference:
        moved = " and ".join(text_from_fraction(p, signed=True) for p in compared.interference)
        console.print(f"in turns   {moved} against alone (baseline and candidate)", markup=False)
    _show_toolkit_numbers(console, compared)
    told = None
    for verdict in comparison.verdicts:
        console.print(verdict_line(verdict, told=told))
        told = verdict.reason
    if comparison.detectable is not None:
        size = text_from_fraction(comparison.detectable)
        console.print(f"sees       differences from {size} on, in 80 % of such comparisons")
    if selftest:
        head = comparison.verdicts[0]
        word = "as it should be" if head.kind == "same" else "this machine misleads comparisons"
        console.print(f"selftest   the model against itself is {head.kind}: {word}")
    show_blocks(finding_blocks((*_errors(compared), *comparison.findings)))


def _errors(compared: Compared) -> Iterator[Finding]:
    """What makes the time of a side alone worthless: a wrong result has no speed."""
    for side, run in (("baseline", compared.baseline), ("candidate", compared.candidate)):
        for finding in run.findings:
            if finding.severity == "error":
                yield replace(finding, concerns=side)


def _launches(compared: Compared) -> str:
    """Launches of the side that has fewer, also where no ratio was made of them."""
    judged = compared.comparison.verdicts[0].launches
    sides = (compared.baseline, compared.candidate)
    count = judged or min(len(run.record.launches) for run in sides)
    return "1 launch" if count == 1 else f"{count} launches"


def verdict_line(verdict: Verdict, *, told: str | None = None) -> Text:
    """One metric's verdict with ratio, interval and reason, unless that was just told."""
    from rich.text import Text

    from trtbench.analysis.verdict import would_tell

    line = Text(f"{verdict.metric:<11}")
    line.append(f"{verdict.kind:<8}", style=_STYLES.get(verdict.kind, "magenta"))
    if verdict.ratio is not None:
        line.append(f" {text_from_fraction(verdict.ratio - 1, signed=True):>9}")
    if verdict.interval is not None:
        ends = (verdict.interval.low - 1, verdict.interval.high - 1)
        low, high = (text_from_fraction(end, signed=True) for end in ends)
        line.append(f"  {verdict.interval.level:.0%}: {low} to {high}")
    if verdict.kind in ("unclear", "incomparable"):
        words = verdict.reason.partition("]: ")[2] if verdict.interval else verdict.reason
        again = verdict.reason == told and verdict.kind == "incomparable"
        line.append(f"  {'as above' if again else words or verdict.reason}", style="dim")
        line.append(would_tell(verdict.launches_needed), style="dim")
    return line


def show_ranking(found: list[Compared]) -> None:
    """Print all candidates against the first, in one table."""
    from rich.table import Table
    from rich.text import Text

    from trtbench.analysis.summary import summary_from_run

    table = Table(box=None, pad_edge=False, header_style="dim", title="against the baseline",
                  title_justify="left")  # fmt: skip
    for name in ("candidate", "median", "verdict", "ratio", "interval"):
        table.add_column(name, justify="left" if name in ("candidate", "verdict") else "right")
    for each in found:
        summary = summary_from_run(each.candidate)
        verdict = each.comparison.verdicts[0]
        interval = verdict.interval
        ends = f"{interval.low:.4f} to {interval.high:.4f}" if interval else "–"
        table.add_row(
            Text(each.candidate.record.spec.model.name),
            text_from_seconds(summary.column(summary.headline).median),
            Text(verdict.kind, style=_STYLES.get(verdict.kind, "magenta")),
            "–" if verdict.ratio is None else f"{verdict.ratio:.4f}",
            ends,
        )
    result_console().print(table)


def _show_toolkit_numbers(console: Console, compared: Compared) -> None:
    """Speed-up and FPS improvement, from the mean host times as toolkit 003 has them."""
    from trtbench.analysis.toolkits import toolkit_003_speedup

    first, second = compared.baseline.times.host, compared.candidate.times.host
    if first is None or second is None or compared.comparison.verdicts[0].kind == "incomparable":
        return
    numbers = toolkit_003_speedup(first, second)
    console.print(
        f"speed-up   {numbers['speedup']:.3f}x of means, "
        f"FPS {numbers['fps_improvement_percent']:+.1f} %",
        markup=False,
    )
