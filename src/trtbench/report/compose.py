"""Makes a document from runs (``sections``) and writes it to files (``renderers``).

Every file of the two folders is a plug-in; the contracts are the classes below.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from trtbench.core.errors import UsageError
from trtbench.core.plugins import Registry
from trtbench.core.properties import model_name
from trtbench.core.run import AnyRecord, FailedRun, Run, precision_of
from trtbench.report.document import Block, Code, Details, Document, Section, column, table
from trtbench.report.run_facts import summarize_all


class SectionModule(Protocol):
    """The interface of a section module."""

    ORDER: int  # position in the document; the lowest comes first

    def make(self, runs: Sequence[Run]) -> Section | Sequence[Section | None] | None:
        """Return the sections for the runs; ``None`` in place of one with nothing to show."""


class Renderer(Protocol):
    """The interface of a report format module; attributes with a value are optional."""

    INCLUDES: tuple[str, ...] = ()  # other formats whose files it also writes

    def render(self, document: Document, folder: Path) -> list[Path]:
        """Write the document to the folder and return the files."""
        ...


SECTIONS = Registry("trtbench.report.sections", noun="section", contract=SectionModule)
RENDERERS = Registry("trtbench.report.renderers", noun="report format", contract=Renderer)


def document_from_runs(
    runs: Sequence[Run],
    *,
    failed: Sequence[FailedRun] = (),
    title: str | None = None,
    data: Mapping[str, object] | None = None,
) -> Document:
    """Return a report on runs and failures; ``data`` is added to its JSON form."""
    records: list[AnyRecord] = [*(run.record for run in runs), *failed]
    if not records:
        raise UsageError(
            "there is nothing to report: no runs were given",
            fix="trtbench runs     (lists the stored runs)",
        )
    summarize_all(runs)
    ordered: list[tuple[float, str, Section]] = []
    if failed:
        ordered.append((25, "failures", _section_from_failures(failed)))
    for name in SECTIONS.names() if runs else ():
        module = SECTIONS.load(name)
        made = module.make(runs)
        sections = [made] if isinstance(made, Section) else made or ()
        ordered += [(module.ORDER, name, section) for section in sections if section]
    ordered.sort(key=lambda each: each[:2])
    names = list(dict.fromkeys(model_name(record) for record in records))
    some = ", ".join(names) if len(names) <= 3 else f"{len(names)} models"
    return Document(
        title=title or f"Benchmark of {some}",
        created=max(record.created for record in records),
        sections=tuple(section for _, _, section in ordered),
        data={
            "runs": [run.id for run in runs],
            "failed": [each.id for each in failed],
            **(data or {}),
        },
    )


def write_document(document: Document, folder: Path, *, formats: Sequence[str]) -> list[Path]:
    renderers = {name: RENDERERS.load(name) for name in formats}
    covered = {each for module in renderers.values() for each in module.INCLUDES}
    left = (module for name, module in renderers.items() if name not in covered)
    paths = [path for module in left for path in module.render(document, folder)]
    return list(dict.fromkeys(paths))


def _section_from_failures(failed: Sequence[FailedRun]) -> Section:
    """List failures with stage and reason, and the ends of their logs as details."""

    def end_status(failure: FailedRun) -> str | None:
        status = failure.exit_status
        return failure.signal or (None if status is None else f"exit status {status}")

    columns = (
        column("model", "Model", model_name),
        column("runtime", get="spec.runtime"),
        column("precision", get=precision_of),
        column("batch", get="spec.batch"),
        column("stage", "Failed while"),
        column("reason", "Reason"),
        column("ended_by", "Ended by", end_status),
        column("id"),
    )
    blocks: list[Block] = [table("failed_runs", failed, columns)]
    for each in failed:
        if each.log_tail:
            log = Code("\n".join(each.log_tail), "text")
            blocks.append(Details(f"Last lines of the log of {each.id}", (log,)))
    return Section("failures", "Runs that failed", tuple(blocks))
