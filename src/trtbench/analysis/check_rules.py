"""Rules on numeric checks: ``max_abs>0.1``, ``close<99.9%``, ``logits:kl>0.01``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Literal

from trtbench.analysis.check import OutputCheck
from trtbench.domain.spec import Value
from trtbench.errors import UsageError, near_miss
from trtbench.units import fraction_from_text

METRICS = (
    "close", "equality", "nan", "inf", "nonfinite", "shape_mismatch", "max_abs", "mean_abs",
    "max_rel", "mean_rel", "rmse", "rel_l2", "sqnr_db", "cosine", "bias", "argmax_match",
    "argmax_mismatch", "top5_agreement", "kl", "kl_max", "js",
)  # fmt: skip

_RULE = re.compile(
    r"(?:(?P<output>.+):)?(?P<metric>\w+)\s*(?P<relation><=|>=|<|>)\s*(?P<limit>\S+)"
)


class CheckRule(Value, frozen=True, kw_only=True):
    """A condition under which a check fails."""

    text: str
    metric: str
    relation: Literal["<", "<=", ">", ">="]
    limit: float
    output: str | None = None
    """``None`` is every output that has the metric."""


def rule_from_text(text: str) -> CheckRule:
    """Read a rule as a user types it."""
    match = _RULE.fullmatch(text.strip())
    if not match:
        raise UsageError(f"--fail-if {text!r} cannot be read", fix="write it like 'max_abs>0.1'")
    metric = match["metric"]
    if metric not in METRICS:
        guess = near_miss(metric, METRICS)
        raise UsageError(
            f"there is no number called {metric!r}",
            facts={"known": " ".join(METRICS)},
            fix=f"--fail-if '{text.replace(metric, guess)}'" if guess else None,
        )
    try:
        limit = (
            fraction_from_text(match["limit"]) if "%" in match["limit"] else float(match["limit"])
        )
    except ValueError:
        raise UsageError(
            f"{match['limit']!r} is not a number", fix="write it like 'max_abs>0.1'"
        ) from None
    return CheckRule(
        text=text,
        metric=metric,
        relation=match["relation"],  # type: ignore[arg-type]
        limit=limit,
        output=match["output"],
    )


def broken_rules(rules: Iterable[CheckRule], checks: Iterable[OutputCheck]) -> list[str]:
    """Say which rules are broken, with the value that does; a number nobody has breaks them too.

    A rule that looks at nothing would pass whatever happens, so it counts as broken.
    """
    found = list(checks)
    return [told for rule in rules for told in _broken(rule, found)]


def _broken(rule: CheckRule, checks: list[OutputCheck]) -> Iterable[str]:
    looked = False
    for check in checks:
        if rule.output is not None and rule.output != check.output:
            continue
        if check.note and rule.output in (None, check.output):
            looked = True
            yield f"{rule.text}: {check.output} could not be compared: {check.note}"
            continue
        numbers = check.numbers()
        if rule.metric not in numbers:
            continue
        looked = True
        value = numbers[rule.metric]
        if value is None and rule.metric == "sqnr_db" and check.identical:
            value = math.inf
        if value is None:
            yield f"{rule.text}: {check.output} has no {rule.metric}"
        elif _holds(value, rule.relation, rule.limit):
            yield f"{rule.text}: {check.output} has {rule.metric} {value:.6g}"
    if not looked:
        what = rule.output or "no output"
        yield f"{rule.text}: {what} has no {rule.metric}"


def _holds(value: float, relation: str, limit: float) -> bool:
    if math.isnan(value):
        return True
    return {
        "<": value < limit,
        "<=": value <= limit,
        ">": value > limit,
        ">=": value >= limit,
    }[relation]
