"""What is expected of numeric checks: ``max_abs<=0.1``, ``close>=99.9%``, ``logits: kl<0.01``.

The language is that of all conditions; the quantities are those of an output's check.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from trtbench.analysis.check import OutputCheck
from trtbench.analysis.condition_text import condition_from_text
from trtbench.analysis.conditions import Condition, Row, holds, names_of, unknown_names
from trtbench.domain.spec import Value
from trtbench.errors import UsageError

SHARES = (
    "close", "equality", "argmax_match", "argmax_mismatch", "top5_agreement",
)  # fmt: skip
METRICS = (
    *SHARES, "nan", "inf", "nonfinite", "shape_mismatch", "max_abs", "mean_abs", "max_rel",
    "mean_rel", "rmse", "rel_l2", "sqnr", "sqnr_db", "cosine", "bias", "kl", "kl_max", "js",
)  # fmt: skip
MORE_IS_BETTER = (
    "close", "equality", "argmax_match", "top5_agreement", "sqnr", "sqnr_db", "cosine",
)  # fmt: skip
EXAMPLE = "'max_abs<=0.1', 'argmax_match>=99%' or 'logits: kl<0.01'"

_OUTPUT = re.compile(r"(?P<output>[^<>=!]+):(?P<rest>.+)")


class CheckRule(Value, frozen=True, kw_only=True):
    """A condition that every output must meet, or one of them."""

    text: str
    condition: Condition
    output: str | None = None
    """``None`` is every output that has the quantities."""


def rule_from_text(text: str) -> CheckRule:
    """Read a condition as a user types it; an output and a colon may stand before it."""
    match = _OUTPUT.fullmatch(text.strip())
    rest = match["rest"] if match else text
    try:
        condition = condition_from_text(rest, names=METRICS)
    except UsageError as problem:
        raise UsageError(
            f"--expect {text!r} cannot be read: {problem.message}",
            facts=problem.facts,
            fix=problem.fix or f"write it like {EXAMPLE}",
        ) from None
    output = match["output"].strip() if match else None
    return CheckRule(text=text.strip(), condition=condition, output=output)


def broken_rules(rules: Iterable[CheckRule], checks: Iterable[OutputCheck]) -> list[str]:
    """Say which conditions are not met, with the values; what nobody knows does not meet them.

    A condition that looks at nothing would hold whatever happens, so it counts as broken.
    """
    found = list(checks)
    return [told for rule in rules for told in _broken(rule, found)]


def _broken(rule: CheckRule, checks: list[OutputCheck]) -> Iterable[str]:
    looked = False
    names = names_of(rule.condition)
    for check in checks:
        if rule.output is not None and rule.output != check.output:
            continue
        if check.note:
            looked = True
            yield f"{rule.text}: {check.output} could not be compared: {check.note}"
            continue
        row = _row(check)
        if not set(names) <= set(row):
            continue
        looked = True
        if holds(rule.condition, row):
            continue
        unknown = unknown_names(rule.condition, row)
        values = ", ".join(f"{name} {row[name]:.6g}" for name in names if name not in unknown)
        missing = f"no {', '.join(unknown)}" if unknown else ""
        yield f"{rule.text}: {check.output} has {' and '.join(filter(None, (values, missing)))}"
    if not looked:
        yield f"{rule.text}: {rule.output or 'no output'} has no {', '.join(names)}"


def _row(check: OutputCheck) -> Row:
    """Find quantities of an output; of equal ones the ratio to their difference is infinite."""
    return worst_numbers([check])


def worst_numbers(checks: Iterable[OutputCheck]) -> dict[str, float | None]:
    """Find the worst number of each name of several outputs; of equal ones SQNR is infinite."""
    found: dict[str, float | None] = {}
    for check in checks:
        row = dict(check.numbers())
        if row.get("sqnr_db") is None and check.identical:
            row["sqnr_db"] = math.inf
        row["sqnr"] = row["sqnr_db"]
        for name, value in row.items():
            found[name] = _worse(name, found[name], value) if name in found else value
    return found


def _worse(name: str, one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    if name in ("nan", "inf", "nonfinite"):
        return one + other
    if name == "bias":
        return max(one, other, key=abs)
    return min(one, other) if name in MORE_IS_BETTER else max(one, other)
