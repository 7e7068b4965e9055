"""Documents of ``runs``, ``import``, ``inspect`` and ``doctor``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trtbench.analysis.inspection import Inspection
from trtbench.analysis.summary import reported_headline
from trtbench.core.run import FailedRun, RunRecord, Scalar, when_text
from trtbench.core.spec import NO_TENSORS
from trtbench.core.units import shortened, text_from_rate, text_from_seconds, text_from_shape
from trtbench.report import document as doc
from trtbench.report.run_facts import title_of_key, value_text

if TYPE_CHECKING:
    from trtbench.importing.files import Unused
    from trtbench.importing.run import Imported, ImportResult
    from trtbench.store.directory import Entry
    from trtbench.workflows.doctor import Check, Diagnosis

MOST_UNUSED = 200  # unused files that are listed; the others are only counted, but --json lists all


def document_from_entries(entries: Sequence[Entry]) -> doc.Document:
    """List runs in the given order; values reported by another tool are marked with a star."""

    def reported(entry: Entry) -> bool:
        return entry.samples == 0 and entry.median_s is not None

    def median(entry: Entry) -> doc.Cell | doc.Time:
        if entry.kind != "run":
            return doc.Cell(None, "failed", "bad")
        return doc.Time(entry.median_s, mark="*" if reported(entry) else "")

    def rate(entry: Entry) -> doc.Cell:
        shown = text_from_rate(entry.items_per_s, what="items") if entry.kind == "run" else ""
        return doc.Cell(entry.items_per_s, shown)

    def count(name: str) -> Callable[[Entry], doc.Cell]:
        return lambda entry: doc.Cell(getattr(entry, name), str(getattr(entry, name) or ""))

    # Shown only if runs differ in them.
    differing = (
        doc.column("protocol", "Protocol", lambda each: each.protocol or "", rank=2, fit="shorten"),
        doc.column("host", "Machine", lambda each: each.host or "", rank=2, fit="shorten"),
    )
    columns = (
        doc.column(
            "id", "Run", lambda x: doc.Cell(x.id, tone="plain" if x.kind == "run" else "bad")
        ),
        doc.column("created", "When", lambda x: when_text(x.created, x.dated_by), rank=8),
        doc.column("model"),
        doc.column("runtime"),
        doc.column("precision", get=lambda each: each.precision or ""),
        *(each for each in differing if len({each[1](entry) for entry in entries}) > 1),
        doc.column("batch", get=count("batch")),
        doc.column("median_s", get=median),
        doc.column("items_per_s", "Throughput", rate, "right", rank=2),
        doc.column("warnings", "Warnings", count("warnings"), "right", rank=7),
        doc.column("tags", "Tags", lambda each: ", ".join(each.tags), rank=6, fit="wrap"),
    )
    words = "* reported by another tool, without samples; the mean if it reported no median"
    caption = words if any(map(reported, entries)) else None
    created = max((each.created for each in entries), default="")
    listed = doc.table("runs", entries, columns, caption=caption)
    return doc.document_from_blocks("runs", [listed], created=created)


_SWITCHES = {
    "transfers": ("copies", "no copies"),
    "cuda_graph": ("graph", "no graph"),
    "spin_wait": ("spin", "sleep"),
    "tf32": ("TF32", "no TF32"),
}
_NUMBERS = {"streams": "{} streams", "typing": "{} types", "batch": "batch {}"}
_MARKS = {"stated": "", "recorded": "~", "implied": "~", "unknown": "?"}


def document_from_import(result: ImportResult) -> doc.Document:
    def failed(each: Imported) -> bool:
        return isinstance(each.record, FailedRun)

    def run(each: Imported) -> doc.Cell:
        name = f"{each.known_as} (known)" if each.known_as else each.record.id
        return doc.Cell(name, tone="bad" if failed(each) else "plain")

    def version(each: Imported) -> str:
        return each.record.environment.versions.get("tensorrt", "?")

    def samples(each: Imported) -> doc.Cell:
        return doc.Cell(each.samples, "" if failed(each) else str(each.samples))

    def median(each: Imported) -> doc.Cell | doc.Time:
        """Show the median, with a mark if it is only reported or is a mean."""
        if not isinstance(each.record, RunRecord):
            return doc.Cell(None, "failed", "bad")
        if each.samples:
            return doc.Time(each.median_s)
        build_s = each.record.facts.get("build_s")
        if each.record.facts.get("built_only") and isinstance(build_s, (int, float)):
            return doc.Cell(None, f"built in {text_from_seconds(build_s, digits=3)}")
        printed = reported_headline(each.record)
        if printed is None:
            return doc.Cell(None, "–" if each.median_s or each.record.reported else "layers only")
        what = "reported" if printed.statistic == "median" else f"{printed.statistic}, reported"
        return doc.Time(printed.seconds, mark=f" ({what})")

    def files(each: Imported) -> str:
        rest = ", ".join(part.replace("_", " ") for part in each.parts[1:])
        return each.files[0].name + (f" + {rest}" if rest else "")

    def path(each: Unused) -> doc.Cell:
        return doc.Cell(each.path, tone="unclear" if each.broken or each.named else "plain")

    runs = (
        doc.column("run", "Run", run),
        doc.column("model", get="record.spec.model.name"),
        doc.column("tensorrt", "TensorRT", version, rank=2),
        doc.column("samples", "Samples", samples, "right", rank=3),
        doc.column("median_s", get=median),
        doc.column("conditions", "Conditions", _conditions, fit="wrap", rank=4),
        doc.column("files", "Files", files, fit="wrap", rank=1),
    )
    unused = (
        doc.column("path", "Not used", path, fit="wrap"),
        doc.column("reason", "Why", fit="wrap"),
    )
    sections = []
    if result.runs:
        caption = "Conditions: stated, ~implied by version or data, ?unknown."
        listed = doc.table("imported", result.runs, runs, caption=caption)
        sections.append(doc.Section("imported", "", (listed,)))
    if result.unused:
        left = len(result.unused) - MOST_UNUSED
        more = f"And {left} more; --json lists all." if left > 0 else None
        listed = doc.table("unused", result.unused[:MOST_UNUSED], unused, caption=more)
        sections.append(doc.Section("unused", "Files", (listed,)))
    return doc.Document(sections=tuple(sections))


def _conditions(each: Imported) -> str:
    """Return the conditions of a run, marked by their source, or the reason of a failure."""
    if not isinstance(each.record, RunRecord):
        return each.record.reason
    parts = []
    for key, (on, off) in _SWITCHES.items():
        fact = each.record.conditions.get(key)
        known = fact is not None and fact.source != "unknown" and fact.value is not None
        said = on if fact is None or fact.value or not known else off
        parts.append(_MARKS[fact.source if fact and known else "unknown"] + said)
    for key, form in _NUMBERS.items():
        fact = each.record.conditions.get(key)
        if fact is not None and fact.value is not None and fact.value != 1:
            parts.append(_MARKS[fact.source] + form.format(fact.value))
    return ", ".join(parts)


KERNEL_LENGTH = 24
NOT_SET = ("", "Disabled", "-1")  # values of trtexec's options that nobody asked for


def document_from_inspection(found: Inspection, *, most: int | None = 0) -> doc.Document:
    """Describe the contents of a file, with at most this many of its layers."""
    facts = [("kind", found.kind)]
    known = {name: value for name, value in found.facts.items() if value is not None}
    facts += [(title_of_key(name), value_text(name, value)) for name, value in known.items()]
    for title, tensors in (("input", found.inputs), ("output", found.outputs)):
        for each in tensors:
            shape = "" if each.dtype in NO_TENSORS else text_from_shape(each.shape)
            facts.append((title, f"{each.name}  {each.dtype}  {shape}".rstrip()))

    blocks: list[doc.Block] = [doc.key_values("facts", facts)]

    def text(name: str, value: Scalar) -> str:
        if name == "tactic" and isinstance(value, str):
            return shortened(value, length=KERNEL_LENGTH)
        return value_text(name, value)

    parts = {"summary": found.summary, "options": found.options, "layers": found.layers}
    for name, part in parts.items():
        rows = part.rows[: most if name == "layers" else None] if part else ()
        rows = tuple(row for row in rows if name != "options" or row[1] not in NOT_SET)
        if part and rows:
            columns = doc.plain_columns(part.columns, rows, text, title_of_key)
            cut = f"{len(rows)} of {len(part.rows)}; --layers shows all"
            caption = cut if len(rows) < len(part.rows) and name == "layers" else None
            blocks.append(doc.table(name, rows, columns, caption=caption))
    blocks += [doc.Text(note, "unclear") for note in found.notes]
    return doc.document_from_blocks("file", blocks)


def document_from_diagnosis(diagnosis: Diagnosis) -> doc.Document:
    """List the checks of this machine by group, with fixes for those that failed."""
    tones: dict[str, doc.Tone] = {
        "ok": "good",
        "missing": "unclear",
        "broken": "bad",
        "info": "plain",
    }

    def detail(check: Check) -> str:
        origin = f"  from {check.origin}" if check.origin else ""
        fix = f"\nfix: {check.fix}" if check.fix else ""
        return f"{check.detail}{origin}{fix}"

    columns = (
        doc.column("status", "", lambda check: doc.Cell(check.status, tone=tones[check.status])),
        doc.column("name", ""),
        doc.column("detail", "", detail, fit="wrap"),
    )
    sections = []
    for group in diagnosis.groups:
        if group.checks:
            listed = doc.table(f"doctor_{group.name}", group.checks, columns)
            sections.append(doc.Section(group.name.replace(" ", "-"), group.name, (listed,)))
    return doc.Document(title=_doctor_answer(diagnosis), sections=tuple(sections))


def _doctor_answer(diagnosis: Diagnosis) -> str:
    """Return which runtimes work, which do not, and the one thing to do first."""
    runtimes, works = diagnosis.group("runtimes").checks, diagnosis.working_runtimes
    failing = [check.name for check in runtimes if check.name not in works]
    answer = f"{', '.join(works) or 'no runtime'} {'work' if len(works) > 1 else 'works'} here"
    if failing:
        answer += f"; {', '.join(failing)} {'do' if len(failing) > 1 else 'does'} not"
    checks = [check for group in diagnosis.groups for check in group.checks]
    needed = [check for check in checks if check.status == "broken"]
    if failing:
        needed += [*diagnosis.group("GPU and driver").checks, *runtimes]
    first = next((f"{check.name}: {check.fix}" for check in needed if check.fix), None)
    return f"{answer}. {f'First, {first}' if first else 'Nothing to do.'}"
