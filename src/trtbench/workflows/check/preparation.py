"""Whether models were calibrated with images prepared as those they are judged on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtbench.analysis.findings import Evidence, findings_from_evidence
from trtbench.analysis.findings.evidence import PreparationFacts
from trtbench.domain.result import Finding, Scalar
from trtbench.domain.spec import ModelRef
from trtbench.workflows.measure.model_notes import preparation_of_model


def preparation_findings(
    models: Sequence[tuple[str, ModelRef]], judged: Mapping[str, Scalar]
) -> tuple[Finding, ...]:
    """Find models whose images were prepared otherwise for calibrating than they are here."""
    found: list[Finding] = []
    for label, model in models:
        facts = PreparationFacts(
            model=label, calibrated=preparation_of_model(model), judged=dict(judged)
        )
        found += findings_from_evidence(Evidence(preparation=facts))
    return tuple(found)
