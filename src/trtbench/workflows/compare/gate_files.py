"""What a gate leaves for others to read: JSON, JUnit's XML, Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from trtbench.analysis.gate_report import Suite, junit_from_suites
from trtbench.domain.codec import json_from_value
from trtbench.errors import writing
from trtbench.host.files import write_output
from trtbench.report.documents.gate import document_from_gates
from trtbench.report.renderers.md import markdown
from trtbench.workflows.compare.gate import Gate
from trtbench.workflows.measure.failure import Failed
from trtbench.workflows.request.groups import OnUnclear


def write_gate_files(
    found: Sequence[Gate], folder: Path, *, on_unclear: OnUnclear, failed: Sequence[Failed] = ()
) -> list[Path]:
    """Write gate.json, gate.junit.xml and gate.md, of one candidate or of several.

    ``failed`` are candidates that could not be measured: they are told, and judged by nothing.
    """
    policy: Literal["fail", "pass"] = "pass" if on_unclear == "pass" else "fail"
    told = [_told(each) for each in found]
    told += [{"model": each.model, "open": False, "failed": each.reason} for each in failed]
    suites = [Suite(f"trtbench gate {each.name}", each.results, each.seconds) for each in found]
    suites += [Suite(f"trtbench gate {each.model}", (), error=each.reason) for each in failed]
    contents = {
        "gate.json": json_from_value(told[0] if len(told) == 1 else told),
        "gate.junit.xml": junit_from_suites(suites, on_unclear=policy).encode(),
        "gate.md": markdown(document_from_gates(found, failed)).encode(),
    }
    return [write_output(folder / file, content) for file, content in contents.items()]


def append_summary(found: Sequence[Gate], path: Path, *, failed: Sequence[Failed] = ()) -> None:
    """Add the table of results to a file of Markdown, as GitHub shows it with a job."""
    with writing(path), open(path, "a", encoding="utf-8") as file:
        file.write(markdown(document_from_gates(found, failed), level=2) + "\n")


def _told(found: Gate) -> dict[str, object]:
    return {
        "model": found.name,
        "open": found.open,
        "candidate": found.candidate.id if found.candidate else None,
        "results": found.results,
        "comparison": found.compared.comparison if found.compared else None,
        "closed_by": found.closed_by,
    }
