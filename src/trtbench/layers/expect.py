"""What is expected of an engine's layers: ``count(Einsum)>=1``, ``share(precision=int8)>=80%``.

The language is that of conditions on results, with three functions over layers. Inside the
brackets stand a kind or an ONNX operator, a pattern of names, or ``key=value``, joined by commas.
What is not known makes an expectation unclear, never met.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from trtbench.core.conditions import Condition, condition_from_text, holds, unknown_names
from trtbench.core.errors import UsageError, near_miss
from trtbench.core.metrics import Kind
from trtbench.core.results import GateResult, GateRule
from trtbench.core.units import text_from_fraction, text_from_seconds
from trtbench.layers.table import EngineFacts, Layer, LayerTable, fits, total_s

FUNCTIONS: Mapping[str, Kind] = {"count": "count", "share": "share", "time": "time"}
"""Layers that fit; their part of all time; their time."""
QUANTITIES: Mapping[str, Kind] = {
    **dict.fromkeys(("sum", "gpu", "host", "latency", "conversions"), "time"),
    "jitter": "share",
    "layers": "count",
}
KEYS = ("kind", "precision", "role", "operator", "name", "asked", "bound", "region")
EXAMPLE = "count(Einsum)>=1, share(precision=int8)>=80% or jitter<5%"

_CALL = re.compile(r"\b(?P<function>[a-z]+)\((?P<arguments>[^()<>!]*)\)")


def is_expectation(text: str) -> bool:
    """Whether a rule is about layers or jitter, not about a run's times."""
    names = {match.group() for match in re.finditer(r"[A-Za-z_]+", _CALL.sub(" ", text))}
    return bool(_CALL.search(text)) or bool(names & {"jitter", "layers", "conversions"})


def expectation_from_text(text: str) -> Condition:
    """Read an expectation; what is wrong with it is an error at once, not when it is judged."""
    calls = {}
    for match in _CALL.finditer(text):
        function = match["function"]
        _refuse_unless(function, FUNCTIONS, text, f"{function}(...)", "functions")
        for part in match["arguments"].split(","):
            key, equals, _ = part.partition("=")
            if equals:
                _refuse_unless(key.strip(), KEYS, text, f"{key.strip()!r} of layers", "known")
        calls[match.group()] = FUNCTIONS[function]
    kinds = {**QUANTITIES, **calls}
    try:
        return condition_from_text(text.strip(), names=kinds, kinds=kinds, functions=FUNCTIONS)
    except UsageError as problem:
        raise UsageError(
            f"the expectation {text!r} cannot be read", facts={"reason": problem.message},
            fix=f"write it like {EXAMPLE}",
        ) from None  # fmt: skip


def _refuse_unless(name: str, known: Collection[str], text: str, asked: str, heading: str) -> None:
    if name in known:
        return
    guess = near_miss(name, known)
    raise UsageError(
        f"the expectation {text!r} asks for {asked}, which does not exist",
        facts={heading: " ".join(known)},
        fix=f"did you mean {guess}?" if guess else f"write it like {EXAMPLE}",
    )


def rule_from_expectation(expectation: Condition) -> GateRule:
    """Make a gate's rule of an expectation, to be judged and written as the others are."""
    return GateRule(text=expectation.text, metric="layers", relation="expect", limit=0.0)


def judge_all(
    texts: Sequence[str], table: LayerTable, facts: EngineFacts
) -> tuple[GateResult, ...]:
    """Read all expectations, then judge them."""
    read = [expectation_from_text(text) for text in texts]
    return tuple(judge(each, table, facts) for each in read)


def judge(expectation: Condition, table: LayerTable, facts: EngineFacts) -> GateResult:
    """Whether an engine meets an expectation."""
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
    for name in expectation.names:
        function, bracket, arguments = name.removesuffix(")").partition("(")
        if bracket:
            row[name] = _value(function, arguments, table)
    met = holds(expectation, row)
    message = ", ".join(f"{name} is {_worded(name, row.get(name))}" for name in expectation.names)
    if met is None:
        missing = ", ".join(unknown_names(expectation, row))
        message = f"{missing} is not known: it takes a profile and detailed layer information"
    return GateResult(
        rule=rule_from_expectation(expectation),
        outcome="unclear" if met is None else "pass" if met else "fail",
        message=message,
    )


def _value(function: str, arguments: str, table: LayerTable) -> float | None:
    """Evaluate a function; a kind or type is not known where only names are."""
    conditions = [part.strip() for part in arguments.split(",") if part.strip()]
    keys = {each.partition("=")[0].strip() for each in conditions if "=" in each}
    if not table.detailed and keys & {"kind", "precision", "bound", "asked"}:
        return None
    found = [layer for layer in table.layers if all(_fits(layer, each) for each in conditions)]
    if function == "count":
        return float(len(found))
    total = table.total_s
    if total is None or function == "time":
        return None if total is None else total_s(found)
    return total_s(found) / total if total else None


def _fits(layer: Layer, condition: str) -> bool:
    key, equals, wanted = (part.strip() for part in condition.partition("="))
    if not equals:
        key = "name" if any(sign in condition for sign in "*?/") else ""
        wanted = condition
    if key == "name":
        return fits(layer, wanted)
    word, operators = wanted.lower(), [each.lower() for each in layer.operators]
    if key == "operator":
        return word in operators
    if key:
        return word == str(getattr(layer, key) or "").lower()
    return word == (layer.kind or "").lower() or word in operators


def _worded(name: str, value: float | None) -> str:
    if value is None:
        return "not known"
    kind = {**QUANTITIES, **FUNCTIONS}[name.partition("(")[0]]
    if kind == "share":
        return text_from_fraction(value)
    return text_from_seconds(value) if kind == "time" else f"{value:g}"
