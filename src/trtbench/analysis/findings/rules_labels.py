"""Rules on labels: what was asked for against what ran: H46."""

from __future__ import annotations

from collections.abc import Iterator

from trtbench.analysis.contradictions import Contradiction, contradictions
from trtbench.analysis.findings.evidence import Evidence
from trtbench.analysis.findings.rule import Hit, Limits, Rule, rule

_REMEDIES = {
    "batch": "leave --batch out, or build or export with a dynamic batch",
    "precision": "trtbench build MODEL.onnx --precision, and measure that engine",
}


@rule(
    "H46",
    "ran otherwise than asked",
    severity="warning",
    when="batch, precision, shapes, protocol, streams, threads, transfers or spinning were asked "
    "for, and what ran had others, or nobody can tell; labels follow what ran",
    source="what the session or the program reports",
)
def asked_and_ran(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a property that was asked for is not one of what ran."""
    for each in contradictions(e.record) if e.record is not None else ():
        yield Hit(
            message=_sentence(each),
            evidence={"asked": each.asked, "ran": each.ran},
            remedy=_REMEDIES.get(each.what, f"leave the {each.what} out, or use another runtime"),
        )


def _sentence(each: Contradiction) -> str:
    if each.ran is None:
        return f"{each.what} {each.asked} was asked for, and nobody can tell what ran"
    return f"{each.what} {each.asked} was asked for, and {each.ran} ran"


RULES: tuple[Rule, ...] = (asked_and_ran,)
