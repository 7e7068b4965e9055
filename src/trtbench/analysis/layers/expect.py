"""What is expected of an engine's layers: ``count(Einsum)>=1``, ``share(precision=int8)>=80%``.

The language is that of conditions on results, with three functions over layers. Inside the
brackets stand a kind or an ONNX operator, a pattern of names, or ``key=value``, joined by commas.
What is not known makes an expectation unclear, never met.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from trtbench.analysis.condition_text import condition_from_text
from trtbench.analysis.conditions import Condition, QuantityKind, holds, names_of, unknown_names
from trtbench.analysis.layers.engine_facts import EngineFacts
from trtbench.analysis.layers.grouping import fits
from trtbench.analysis.layers.layer import Layer, LayerTable, total_s
from trtbench.domain.comparison import GateResult, GateRule
from trtbench.domain.spec import Value
from trtbench.errors import UsageError, near_miss
from trtbench.units import text_from_fraction, text_from_seconds

FUNCTIONS: Mapping[str, QuantityKind] = {"count": "count", "share": "share", "time": "time"}
"""Layers that fit; their part of all time; their time."""
TIMES = ("sum", "gpu", "host", "latency", "conversions")
PERCENT = ("jitter",)
NUMBERS = ("layers",)
KEYS = ("kind", "precision", "role", "operator", "name", "asked", "bound", "region")
EXAMPLE = "count(Einsum)>=1, share(precision=int8)>=80% or jitter<5%"

_CALL = re.compile(r"\b(?P<function>[a-z]+)\((?P<arguments>[^()<>!]*)\)")


class Expectation(Value, frozen=True, kw_only=True):
    """One expression, read."""

    text: str
    condition: Condition
    calls: dict[str, tuple[str, str]]
    """Functions and what stands in their brackets, by the name they have in the condition."""


def is_expectation(text: str) -> bool:
    """Tell an expectation from a gate's rule: it asks for layers or for jitter."""
    names = {match.group() for match in re.finditer(r"[A-Za-z_]+", _CALL.sub(" ", text))}
    return bool(_CALL.search(text)) or bool(names & {*PERCENT, *NUMBERS, "conversions"})


def expectation_from_text(text: str) -> Expectation:
    """Read an expectation; what is wrong with it is said at once, not when it is judged."""
    calls: dict[str, tuple[str, str]] = {}

    def named(match: re.Match[str]) -> str:
        name = f"{match['function']}_{len(calls)}"
        calls[name] = _checked(match["function"], match["arguments"], text)
        return name

    plain = _CALL.sub(named, text)
    kinds: dict[str, QuantityKind] = {
        **dict.fromkeys(TIMES, "time"),
        **dict.fromkeys(PERCENT, "share"),
        **dict.fromkeys(NUMBERS, "count"),
        **{name: FUNCTIONS[function] for name, (function, _) in calls.items()},
    }
    try:
        condition = condition_from_text(
            plain, names={*TIMES, *PERCENT, *NUMBERS, *calls}, kinds=kinds
        )
    except UsageError as problem:
        raise UsageError(
            f"the expectation {text!r} cannot be read", facts={"reason": problem.message},
            fix=f"write it like {EXAMPLE}",
        ) from None  # fmt: skip
    return Expectation(text=text.strip(), condition=condition, calls=calls)


def rule_from_expectation(expectation: Expectation) -> GateRule:
    """Make a gate's rule of an expectation, to be judged and written as the others are."""
    return GateRule(text=expectation.text, metric="layers", relation="expect", limit=0.0)


def judge(expectation: Expectation, table: LayerTable, facts: EngineFacts) -> GateResult:
    """Hold an engine to an expectation."""
    row = _row(expectation, table, facts)
    met = holds(expectation.condition, row)
    missing = unknown_names(expectation.condition, row)
    return GateResult(
        rule=rule_from_expectation(expectation),
        outcome="unclear" if met is None else "pass" if met else "fail",
        message=_said(expectation, row) if met is not None else _unknown(missing, expectation),
    )


def judge_all(
    texts: Sequence[str], table: LayerTable, facts: EngineFacts
) -> tuple[GateResult, ...]:
    """Read all expectations, then judge them."""
    read = [expectation_from_text(text) for text in texts]
    return tuple(judge(each, table, facts) for each in read)


def _checked(function: str, arguments: str, text: str) -> tuple[str, str]:
    if function not in FUNCTIONS:
        guess = near_miss(function, FUNCTIONS)
        raise UsageError(
            f"the expectation {text!r} asks for {function}(...), which does not exist",
            facts={"functions": " ".join(FUNCTIONS)},
            fix=f"did you mean {guess}?" if guess else f"write it like {EXAMPLE}",
        )
    for part in arguments.split(","):
        key, equals, _ = part.partition("=")
        if equals and key.strip() not in KEYS:
            guess = near_miss(key.strip(), KEYS)
            raise UsageError(
                f"the expectation {text!r} asks for {key.strip()!r} of layers",
                facts={"known": " ".join(KEYS)},
                fix=f"did you mean {guess}?" if guess else f"write it like {EXAMPLE}",
            )
    return function, arguments.strip()


def _row(
    expectation: Expectation, table: LayerTable, facts: EngineFacts
) -> Mapping[str, float | None]:
    converting = [layer for layer in table.layers if layer.converts]
    row: dict[str, float | None] = {
        "layers": float(len(table.layers)),
        "sum": table.total_s,
        "gpu": facts.gpu_s,
        "host": facts.host_s,
        "latency": facts.latency_s,
        "conversions": total_s(converting) if table.timed else None,
        "jitter": facts.jitter,
    }
    for name, (function, arguments) in expectation.calls.items():
        row[name] = _value(function, arguments, table)
    return row


def _value(function: str, arguments: str, table: LayerTable) -> float | None:
    """Evaluate a function; a kind or type is not known where only names are."""
    conditions = [part.strip() for part in arguments.split(",") if part.strip()]
    if any(not _known(each, table) for each in conditions):
        return None
    found = [layer for layer in table.layers if all(_fits(layer, each) for each in conditions)]
    if function == "count":
        return float(len(found))
    total = table.total_s
    if total is None:
        return None
    if function == "time":
        return total_s(found)
    return total_s(found) / total if total else None


def _known(condition: str, table: LayerTable) -> bool:
    key, equals, _ = condition.partition("=")
    needs_details = bool(equals) and key.strip() in ("kind", "precision", "bound", "asked")
    return table.detailed or not needs_details


def _fits(layer: Layer, condition: str) -> bool:
    key, equals, wanted = (part.strip() for part in condition.partition("="))
    if equals and key == "name":
        return fits(layer, wanted)
    if equals and key == "operator":
        return wanted.lower() in map(str.lower, layer.operators)
    if equals:
        return str(getattr(layer, key) or "").lower() == wanted.lower()
    if any(sign in condition for sign in "*?/"):
        return fits(layer, condition)
    word = condition.lower()
    return word == (layer.kind or "").lower() or word in map(str.lower, layer.operators)


def _said(expectation: Expectation, row: Mapping[str, float | None]) -> str:
    """Write what was found, in the unit it was asked in."""
    said = []
    for name in names_of(expectation.condition):
        function, arguments = expectation.calls.get(name, (name, ""))
        value = row.get(name)
        label = f"{function}({arguments})" if name in expectation.calls else name
        said.append(f"{label} is {_worded(function, value)}")
    return ", ".join(said)


def _worded(function: str, value: float | None) -> str:
    if value is None:
        return "not known"
    if function in ("share", *PERCENT):
        return text_from_fraction(value)
    return text_from_seconds(value) if function in ("time", *TIMES) else f"{value:g}"


def _unknown(missing: Sequence[str], expectation: Expectation) -> str:
    words = [
        f"{expectation.calls[name][0]}({expectation.calls[name][1]})"
        if name in expectation.calls
        else name
        for name in missing
    ]
    return f"{', '.join(words)} is not known: it takes a profile and detailed layer information"
