"""What is wrong with the items models are judged on: prepared otherwise, or not to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtbench.analysis.findings import Evidence, findings_from_evidence
from trtbench.analysis.findings.evidence import PreparationFacts, UnreadableFacts
from trtbench.domain.feed import InferOutcome
from trtbench.domain.result import Finding, Scalar
from trtbench.domain.spec import ModelRef
from trtbench.errors import InputError
from trtbench.workflows.measure.model_notes import preparation_of_model


def preparation_findings(
    label: str, model: ModelRef, judged: Mapping[str, Scalar]
) -> tuple[Finding, ...]:
    """Find out whether a model's images were prepared otherwise for calibrating than here."""
    calibrated = preparation_of_model(model)
    facts = PreparationFacts(model=label, calibrated=calibrated, judged=dict(judged))
    return tuple(findings_from_evidence(Evidence(preparation=facts)))


def unreadable_findings(passes: Sequence[tuple[str, InferOutcome]]) -> tuple[Finding, ...]:
    """Find models that were not judged on all items; all must have been judged on the same."""
    places = {tuple(each.place for each in outcome.unreadable) for _, outcome in passes}
    if len(places) > 1:
        raise InputError(
            "the models could not all read the same items",
            facts={
                label: ", ".join(each.name for each in outcome.unreadable[:3]) or "read all"
                for label, outcome in passes
            },
            fix="repair these items, or take them out of the folder",
        )
    found: list[Finding] = []
    for label, outcome in passes:
        if lost := outcome.unreadable:
            facts = UnreadableFacts(
                model=label, count=len(lost), items=outcome.items + len(lost),
                example=lost[0].name, reason=lost[0].reason,
            )  # fmt: skip
            found += findings_from_evidence(Evidence(unreadable=facts))
    return tuple(found)
