"""What launches tell the findings beside their samples, put together for the record of a run."""

from __future__ import annotations

from trtbench.domain.result import Scalar

_LESS_IS_WORSE = {"achieved_hz", "outputs_finite", "outputs_vary", "outputs_checked"}


def evidence_of_launches(told: list[dict[str, Scalar]]) -> dict[str, Scalar]:
    """Put together what launches tell the findings: of several answers, the one that counts most.

    Text stays as first told; of numbers the largest counts, but for those where less is worse.
    """
    merged: dict[str, Scalar] = {}
    for key in dict.fromkeys(key for each in told for key in each):
        values = [each[key] for each in told if each.get(key) is not None]
        numbers = [value for value in values if isinstance(value, (bool, int, float))]
        worst = min if key in _LESS_IS_WORSE else max
        merged[key] = worst(numbers) if numbers else next(iter(values), None)
    return merged
