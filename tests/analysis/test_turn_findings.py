"""When taking turns is said to have changed what was measured."""

from __future__ import annotations

import pytest

from analysis_values import record
from trtbench.analysis.findings import findings_from_evidence
from trtbench.analysis.findings.evidence import Evidence, PairFacts
from trtbench.analysis.verdict import verdict_from_effects
from trtbench.domain.comparison import Comparison

CLEAR = verdict_from_effects([0.1 + 0.001 * (-1) ** k for k in range(10)])
NOISY = verdict_from_effects([0.5 * (-1) ** k for k in range(10)])


@pytest.mark.parametrize(
    ("baseline", "candidate", "alone", "said"),
    [
        (1.30, 1.31, CLEAR, False),  # both alike: the ratio is not touched
        (1.05, 1.30, CLEAR, True),
        (1.70, 1.71, CLEAR, True),
        (0.4, 2.5, NOISY, False),  # times alone that say nothing
    ],
)
def test_sides_disturb_each_other_when_turns_moved_them_apart(
    baseline: float, candidate: float, alone: object, said: bool
) -> None:
    comparison = Comparison(
        baseline="a", candidate="b", design="duet", verdicts=(CLEAR,), alone=alone
    )  # type: ignore[arg-type]
    pair = PairFacts(
        baseline=record(), candidate=record(), comparison=comparison,
        interference={"baseline": baseline, "candidate": candidate},
    )  # fmt: skip
    codes = {finding.code for finding in findings_from_evidence(Evidence(pair=pair))}
    assert ("H32" in codes) is said
