"""The results of a gate as lines, JUnit XML and a Markdown summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal
from xml.etree import ElementTree

from trtbench.analysis.verdict import would_tell
from trtbench.domain.result import GateResult

MARKS = {"pass": "pass", "fail": "FAIL", "unclear": "unclear"}


def lines_from_results(results: Sequence[GateResult]) -> list[str]:
    """Write one line per rule, aligned."""
    width = max((len(result.rule.text) for result in results), default=0)
    return [
        f"{MARKS[result.outcome]:<7}  {result.rule.text:<{width}}  {_said(result)}"
        for result in results
    ]


def junit_from_results(
    results: Sequence[GateResult],
    *,
    suite: str = "trtbench gate",
    on_unclear: Literal["fail", "pass"] = "fail",
) -> str:
    """Write JUnit XML: a rule is a test case; unclear is a failure or skipped, as asked."""
    count = Counter(result.outcome for result in results)
    failures = count["fail"] + (count["unclear"] if on_unclear == "fail" else 0)
    skipped = count["unclear"] if on_unclear == "pass" else 0
    root = ElementTree.Element(
        "testsuite",
        name=suite,
        tests=str(len(results)),
        failures=str(failures),
        errors="0",
        skipped=str(skipped),
    )
    for result in results:
        case = ElementTree.SubElement(root, "testcase", classname=suite, name=result.rule.text)
        if result.outcome == "fail" or (result.outcome == "unclear" and on_unclear == "fail"):
            ElementTree.SubElement(case, "failure", type=result.outcome, message=_said(result))
        elif result.outcome == "unclear":
            ElementTree.SubElement(case, "skipped", message=_said(result))
        else:
            ElementTree.SubElement(case, "system-out").text = _said(result)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def markdown_from_results(results: Sequence[GateResult], *, title: str = "Gate") -> str:
    """Write a Markdown table with one row per rule."""
    rows = [
        f"| {MARKS[result.outcome]} | `{_escaped(result.rule.text)}` | {_escaped(_said(result))} |"
        for result in results
    ]
    count = Counter(result.outcome for result in results)
    tally = ", ".join(f"{count[key]} {key}" for key in ("pass", "fail", "unclear") if count[key])
    head = [
        f"## {title}: {tally or 'no rules'}",
        "",
        "| outcome | rule | measured |",
        "|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def _said(result: GateResult) -> str:
    return f"{result.message}{would_tell(result.launches_needed)}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
