"""The results of a gate as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal
from xml.etree import ElementTree

from trtbench.analysis.verdict import would_tell
from trtbench.boundary import xml_text
from trtbench.domain.comparison import GateResult


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
    suite = xml_text(suite)
    root = ElementTree.Element(
        "testsuite",
        name=suite,
        tests=str(len(results)),
        failures=str(failures),
        errors="0",
        skipped=str(skipped),
    )
    for result in results:
        case = ElementTree.SubElement(
            root, "testcase", classname=suite, name=xml_text(result.rule.text)
        )
        if result.outcome == "fail" or (result.outcome == "unclear" and on_unclear == "fail"):
            ElementTree.SubElement(case, "failure", type=result.outcome, message=_said(result))
        elif result.outcome == "unclear":
            ElementTree.SubElement(case, "skipped", message=_said(result))
        else:
            ElementTree.SubElement(case, "system-out").text = _said(result)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _said(result: GateResult) -> str:
    return xml_text(f"{result.message}{would_tell(result.launches_needed)}")
