"""From runs to a document: every section of the folder has its say, in its order.

Knows which sections there are by looking into their folder; not what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trtbench.domain.result import AnyRecord, FailedRun, Run
from trtbench.errors import UsageError
from trtbench.registry import Registry
from trtbench.report.document import (
    Block,
    Code,
    Details,
    Document,
    Heading,
    Section,
    table_from_rows,
)
from trtbench.report.headings import BATCH_HEADING, ID_HEADING, PRECISION_HEADING, RUNTIME_HEADING
from trtbench.report.labels import model_name, precision_name
from trtbench.report.renderers.contract import Renderer
from trtbench.report.run_facts import summarize_all
from trtbench.report.sections.contract import SectionModule

SECTIONS = Registry("trtbench.report.sections", noun="section", contract=SectionModule)
RENDERERS = Registry("trtbench.report.renderers", noun="report format", contract=Renderer)

FAILURES_ORDER = 25
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


def document_from_runs(
    runs: Sequence[Run],
    *,
    failed: Sequence[FailedRun] = (),
    title: str | None = None,
    data: Mapping[str, object] | None = None,
) -> Document:
    """Describe runs and failures as one document; ``data`` is further content for its JSON form."""
    records: list[AnyRecord] = [*(run.record for run in runs), *failed]
    if not records:
        raise UsageError(
            "there is nothing to report: no runs were given",
            fix="trtbench runs     (lists the runs there are)",
        )
    summarize_all(runs)
    ordered: list[tuple[float, str, Section]] = []
    if failures := section_from_failures(failed):
        ordered.append((FAILURES_ORDER, failures.id, failures))
    for name in SECTIONS.names() if runs else ():
        module = SECTIONS.load(name)
        if section := module.make(runs):
            ordered.append((module.ORDER, name, section))
    ordered.sort(key=lambda each: each[:2])
    names = list(dict.fromkeys(model_name(record) for record in records))
    return Document(
        title=title or _title(names),
        created=max(record.created for record in records),
        sections=tuple(section for _, _, section in ordered),
        data={
            "runs": [run.id for run in runs],
            "failed": [each.id for each in failed],
            **(data or {}),
        },
    )


def write_document(document: Document, folder: Path, *, formats: Sequence[str]) -> list[Path]:
    """Write a document in every format asked for and name the files, each once."""
    renderers = {name: RENDERERS.load(name) for name in formats}
    covered = {each for module in renderers.values() for each in module.INCLUDES}
    paths = [
        path
        for name, module in renderers.items()
        if name not in covered
        for path in module.render(document, folder)
    ]
    return list(dict.fromkeys(paths))


def _title(names: list[str]) -> str:
    if len(names) <= 3:
        return "Benchmark of " + ", ".join(names)
    return f"Benchmark of {len(names)} models"


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
