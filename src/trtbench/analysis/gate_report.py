"""The results of a gate as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple
from xml.etree import ElementTree

from trtbench.analysis.verdict import would_tell
from trtbench.boundary import xml_text
from trtbench.domain.comparison import GateResult


class Suite(NamedTuple):
    """One candidate: its rules are the cases."""

    name: str
    results: Sequence[GateResult]
    seconds: float = 0.0
    error: str | None = None
    """Why nothing could be judged."""


def junit_from_results(
    results: Sequence[GateResult],
    *,
    suite: str = "trtbench gate",
    on_unclear: Literal["fail", "pass"] = "fail",
) -> str:
    """Write the JUnit XML of one candidate."""
    return junit_from_suites([Suite(suite, results)], on_unclear=on_unclear)


def junit_from_suites(suites: Sequence[Suite], *, on_unclear: Literal["fail", "pass"]) -> str:
    """Write JUnit XML: a rule is a test case; unclear is a failure or skipped, as asked."""
    made = [_suite(each, on_unclear=on_unclear) for each in suites]
    root = made[0] if len(made) == 1 else ElementTree.Element("testsuites", name="trtbench gate")
    if len(made) > 1:
        root.extend(made)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(suite: Suite, *, on_unclear: Literal["fail", "pass"]) -> ElementTree.Element:
    results = suite.results
    count = Counter(result.outcome for result in results)
    failures = count["fail"] + (count["unclear"] if on_unclear == "fail" else 0)
    skipped = count["unclear"] if on_unclear == "pass" else 0
    name = xml_text(suite.name)
    root = ElementTree.Element(
        "testsuite",
        name=name,
        tests=str(len(results) + (suite.error is not None)),
        failures=str(failures),
        errors=str(int(suite.error is not None)),
        skipped=str(skipped),
        time=f"{suite.seconds:.3f}",
    )
    if suite.error is not None:
        case = ElementTree.SubElement(root, "testcase", classname=name, name="measured")
        ElementTree.SubElement(case, "error", message=xml_text(suite.error))
    for result in results:
        # One measurement serves all rules: each has its share of the time.
        case = ElementTree.SubElement(
            root,
            "testcase",
            classname=name,
            name=xml_text(result.rule.text),
            time=f"{suite.seconds / max(1, len(results)):.3f}",
        )
        if result.outcome == "fail" or (result.outcome == "unclear" and on_unclear == "fail"):
            ElementTree.SubElement(case, "failure", type=result.outcome, message=_said(result))
        elif result.outcome == "unclear":
            ElementTree.SubElement(case, "skipped", message=_said(result))
        else:
            ElementTree.SubElement(case, "system-out").text = _said(result)
    return root


def _said(result: GateResult) -> str:
    return xml_text(f"{result.message}{would_tell(result.launches_needed)}")
