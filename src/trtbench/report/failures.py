"""The section about runs that did not finish; it is handed failures, which sections are not."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.domain.result import FailedRun
from trtbench.report.document import Block, Code, Details, Heading, Section, table_from_rows
from trtbench.report.headings import BATCH_HEADING, ID_HEADING, PRECISION_HEADING, RUNTIME_HEADING
from trtbench.report.labels import model_name, precision_name

HEADINGS = (
    Heading(key="model", title="Model"),
    RUNTIME_HEADING,
    PRECISION_HEADING,
    BATCH_HEADING,
    Heading(key="stage", title="Failed while"),
    Heading(key="reason", title="Reason"),
    Heading(key="ended_by", title="Ended by"),
    ID_HEADING,
)


def section_from_failures(failed: Sequence[FailedRun]) -> Section | None:
    """List failures with their stage and reason, and fold the ends of their logs away."""
    if not failed:
        return None
    rows = [
        (
            model_name(each),
            each.spec.runtime,
            precision_name(each),
            each.spec.batch,
            each.stage,
            each.reason,
            _ending(each),
            each.id,
        )
        for each in failed
    ]
    blocks: list[Block] = [table_from_rows("failed_runs", headings=HEADINGS, rows=rows)]
    blocks += [
        Details(
            summary=f"Last lines of the log of {each.id}",
            blocks=(Code(text="\n".join(each.log_tail), language="text"),),
        )
        for each in failed
        if each.log_tail
    ]
    return Section(id="failures", title="Runs that failed", blocks=tuple(blocks))


def _ending(failure: FailedRun) -> str | None:
    if failure.signal:
        return failure.signal
    return None if failure.exit_status is None else f"exit status {failure.exit_status}"
