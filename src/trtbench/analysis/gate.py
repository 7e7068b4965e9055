"""Gate rules: read from text or a table, evaluated on summaries and verdicts, written as JUnit."""

import math
import operator
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, cast
from xml.etree import ElementTree

from trtbench.analysis.summary import QUANTILES, Summary
from trtbench.analysis.verdict import launches_hint, launches_to_reach
from trtbench.core.conditions import Condition, condition_from_text, holds, limits_of, unknown_names
from trtbench.core.errors import UsageError, refuse_unknown
from trtbench.core.metrics import Kind
from trtbench.core.results import GateResult, GateRule, Verdict
from trtbench.core.run import Interval, Run
from trtbench.core.safety import xml_text
from trtbench.core.samples import DURATIONS
from trtbench.core.units import (
    fraction_from_text,
    text_from_fraction,
    text_from_rate,
    text_from_seconds,
)
from trtbench.layers import table as tables
from trtbench.layers.join import join_layers

Outcome = Literal["pass", "fail", "unclear"]

_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
PERCENTILES = tuple(f"p{100 * q:g}" for q in QUANTILES)
STATISTICS = ("median", "mean", "min", "max", "std", "mad", "cov", *PERCENTILES)
RATES = ("throughput", "items")
NOT_MEASURED = "nothing was measured"
SPEEDUP = "speedup"  # of the median, against a baseline
EXAMPLE = "p99<5ms, gpu.median<=0.2ms, throughput>=100/s or speedup>=2"


def rules_from_text(text: str) -> tuple[GateRule, ...]:
    """Read one rule or several joined by ``and``: ``p99<5ms``, ``gpu.median<=0.2ms``."""
    # Rules about layers or jitter are expectations.
    words = {match.group() for match in re.finditer(r"[A-Za-z_]+", _CALL.sub(" ", text))}
    if _CALL.search(text) or words & {"jitter", "tail", "layers", "conversions"}:
        return (rule_from_expectation(text),)

    def kind(name: str) -> Kind | None:
        metric, statistic = metric_from_name(name)
        if statistic == SPEEDUP:
            return None
        return "share" if statistic == "cov" else "rate" if metric in RATES else "time"

    condition = condition_from_text(
        text.strip(), names=lambda name: bool(metric_from_name(name)), kinds=kind
    )
    limits = limits_of(condition)
    if not limits or any(x.sign not in _HOLDS or not 0 <= x.value < math.inf for x in limits):
        raise UsageError(f"{text!r} is not a gate rule", fix=f"write it like {EXAMPLE}")
    written = re.split(r"\s+and\s+", condition.text)
    if len(written) != len(limits):
        written = [condition.text] * len(limits)
    rules = []
    for own, each in zip(written, limits, strict=True):
        metric, statistic = metric_from_name(each.name)
        relation = cast(Literal["<", "<=", ">", ">=", "slowdown"], each.sign)
        limit = each.value
        if statistic == SPEEDUP:
            if relation not in (">", ">=") or not limit:
                raise UsageError(f"{own!r} is not a gate rule", fix="write it like speedup>=2")
            relation, limit = "slowdown", 1 / limit - 1  # twice as fast: 50 % less time
        rules.append(
            GateRule(text=own, metric=metric, statistic=statistic, relation=relation, limit=limit)
        )
    return tuple(rules)


def slowdown_rule(limit: float, *, metric: str = "headline") -> GateRule:
    """Return the rule of ``--max-slowdown 3%``."""
    text = f"{'' if metric == 'headline' else metric + ' '}slowdown<={100 * limit:g}%"
    return GateRule(text=text, metric=metric, relation="slowdown", limit=limit)


def rules_from_table(
    table: Mapping[str, object], *, where: str, prefix: str = ""
) -> tuple[GateRule, ...]:
    """Read rules from a TOML table: ``p99 = "<5ms"``, ``median = ["4ms", "6ms"]``.

    ``max_slowdown = "3%"`` compares with a baseline; ``gpu = {p99 = "<5ms"}`` nests;
    ``expect = ["count(Einsum)>=1"]`` lists expectations on the layers.
    """
    found: list[GateRule] = []
    for key, value in table.items():
        name = f"{prefix}{key}"
        if key == "max_slowdown":
            metric = prefix.rstrip(".") or "headline"
            found.append(slowdown_rule(fraction_from_text(str(value)), metric=metric))
        elif key == "expect" and not prefix:
            listed = value if isinstance(value, list) else [value]
            found += [rule_from_expectation(str(each)) for each in listed]
        elif isinstance(value, Mapping):
            found += rules_from_table(value, where=where, prefix=f"{name}.")
        elif isinstance(value, str) and value.strip().startswith(("<", ">")):
            found += rules_from_text(name + value)
        elif isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value):
            found += rules_from_text(f"{name}>={value[0]} and {name}<={value[1]}")
        else:
            is_rate = not {*RATES, SPEEDUP}.isdisjoint(name.split("."))
            sign, limit = (">=", "100/s") if is_rate else ("<", "5ms")
            if key == "slowdown":
                sign, limit = "<=", "3%"
            fix = f'{name} = "{sign}{value if isinstance(value, str) else limit}"'
            problem = f"{where}: {name} is neither a rule nor a range"
            raise UsageError(problem, facts={"found": value}, fix=fix)
    return tuple(found)


def metric_from_name(name: str) -> tuple[str, str]:
    """Split ``gpu.p99`` into column and statistic; a missing part gets its default."""
    parts = name.split(".")
    # p99.9 is one statistic although it contains a dot.
    if ".".join(parts[-2:]) in STATISTICS:
        parts[-2:] = [".".join(parts[-2:])]
    metric, statistic = "headline", "median"
    for part in parts:
        if part in (*DURATIONS, *RATES):
            metric = part
        elif part in (*STATISTICS, SPEEDUP):
            statistic = part
        else:
            known = ("headline", *DURATIONS, *RATES, *STATISTICS, SPEEDUP)
            refuse_unknown(part, known, f"{part!r} is not a metric", listed="metrics")
    return metric, statistic


def evaluate(
    rules: Sequence[GateRule],
    *,
    summary: Summary | None = None,
    verdicts: Mapping[str, Verdict] | None = None,
    run: Run | None = None,
) -> tuple[GateResult, ...]:
    """Evaluate every rule on a summary, on verdicts by metric, or on the layers of a run."""
    return tuple(_evaluate(rule, summary, verdicts or {}, run) for rule in rules)


def _evaluate(
    rule: GateRule, summary: Summary | None, verdicts: Mapping[str, Verdict], run: Run | None
) -> GateResult:
    if rule.relation == "expect" and run is not None:
        table = join_layers(run.layers, run.graph)
        return judge_expectation(rule, table, tables.facts_from_run(run))
    if rule.relation == "slowdown":
        first = next(iter(verdicts.values()), None)
        headline = verdicts.get(summary.headline, first) if summary else first
        own = verdicts.get(rule.metric)
        return slowdown_result(rule, headline if rule.metric == "headline" else own)
    if summary is None or rule.relation == "expect":
        return _failed(rule, NOT_MEASURED)
    if rule.metric in RATES:
        rate = summary.queries_per_s if rule.metric == "throughput" else summary.items_per_s
        return _limit_result(rule, rate, interval=None, launches=summary.launches)
    try:
        column = summary.column(summary.headline if rule.metric == "headline" else rule.metric)
    except KeyError:
        return _failed(rule, f"{rule.metric} was not measured")
    interval = column.median_interval if rule.statistic == "median" else None
    value, needed = column.statistic(rule.statistic), None
    if rule.statistic in PERCENTILES:
        quantile = column.quantiles[PERCENTILES.index(rule.statistic)]
        interval, needed = quantile.interval, quantile.needed
    if column.reported and value is None:
        named = ("min", "median", "mean", "max", *PERCENTILES)
        known = " ".join(name for name in named if column.statistic(name) is not None)
        return _failed(rule, f"{rule.statistic} was not printed; known: {known}")
    if column.reported:
        result = _limit_result(rule, value, interval=None, launches=1)
        return result.having(message=f"{result.message}, reported")
    if needed is not None:
        return _unclear(rule, f"{rule.statistic} needs {needed} samples, but has {column.count}")
    over_launches = interval if summary.launches > 1 else None
    return _limit_result(rule, value, interval=over_launches, launches=summary.launches)


def _limit_result(
    rule: GateRule, value: float | None, *, interval: Interval | None, launches: int
) -> GateResult:
    """Compare a value with a limit; unclear if the interval over launches contains the limit."""
    if value is None:
        return _failed(rule, "unknown")

    def meets(number: float) -> bool:
        return bool(_HOLDS[rule.relation](number, rule.limit))

    def shown(number: float) -> str:
        if rule.statistic == "cov":
            return text_from_fraction(number)
        return text_from_rate(number) if rule.metric in RATES else text_from_seconds(number)

    outcome: Outcome = "pass" if meets(value) else "fail"
    message = shown(value)
    if interval is not None:
        low, high = interval.low, interval.high
        outcome = outcome if meets(low) == meets(high) else "unclear"
        message += f", {interval.level * 100:g} % between {shown(low)} and {shown(high)}"
    elif launches == 1:
        message += "; one launch"
    return GateResult(rule=rule, outcome=outcome, message=message, value=value, interval=interval)


def slowdown_result(rule: GateRule, verdict: Verdict | None) -> GateResult:
    """Evaluate a slowdown rule: pass or fail if the whole interval is on one side of the limit.

    It fails if the sides cannot be compared: no launches would decide it.
    """
    if verdict is None:
        return _failed(rule, "there is no comparison with a baseline")
    if verdict.across_devices is not None:
        return _failed(rule, f"not comparable: two devices, {verdict.across_devices}")
    if verdict.kind == "incomparable":
        return _failed(rule, f"not comparable: {verdict.reason}")
    if verdict.interval is None or verdict.ratio is None:
        return _unclear(rule, verdict.reason, needed=verdict.launches_needed)
    ratio, low, high = verdict.ratio, verdict.interval.low, verdict.interval.high
    if verdict.metric in RATES:
        # A rate that falls to 1/1.03 is a slowdown of 3 %.
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    most = 1 + rule.limit
    outcome: Outcome = "pass" if high <= most else "fail" if low > most else "unclear"
    # Launches until the interval excludes the limit at this ratio; drift does not shrink.
    goal, half = abs(math.log(ratio) - math.log1p(rule.limit)), math.log(high / low) / 2
    needed = None
    if outcome == "unclear" and verdict.design != "apart" and verdict.launches > 1 and goal > 0:
        needed = launches_to_reach(goal, half=half, count=verdict.launches)
    change, *ends = (text_from_fraction(end - 1, signed=True) for end in (ratio, low, high))
    if rule.statistic == SPEEDUP:
        change, *ends = (f"{1 / end:.3g}×" for end in (ratio, high, low))
    return GateResult(
        rule=rule,
        outcome=outcome,
        message=f"{change}, {verdict.interval.words} between {' and '.join(ends)}",
        value=1 / ratio if rule.statistic == SPEEDUP else ratio - 1,
        interval=verdict.interval,
        launches_needed=needed,
    )


def passed(results: Sequence[GateResult], *, on_unclear: str = "fail") -> bool:
    """Whether all rules pass; ``on_unclear`` says whether unclear ones do."""
    allowed = ("pass", "unclear") if on_unclear == "pass" else ("pass",)
    return all(result.outcome in allowed for result in results)


def standing_results(
    sides: Mapping[str, Run], verdict: Verdict | None, rules: Sequence[GateRule]
) -> tuple[GateResult, ...]:
    """Return what fails a gate whatever its rules are: errors of a run, and other conditions."""
    bad = [side for side, run in sides.items() if run.record.facts.get("outputs_finite") is False]
    found = [("finite outputs", f"the outputs of the {side} hold NaN or infinity") for side in bad]
    found += [
        (f"no error {each.code}", f"{side}: {each.message}")
        for side, run in sides.items()
        for each in run.findings
        if each.severity == "error" and (each.code != "H03" or side not in bad)
    ]
    judged = any(rule.relation == "slowdown" for rule in rules)
    if verdict is not None and verdict.kind == "incomparable" and not judged:
        found.append(("same conditions", f"not comparable: {verdict.reason}"))
    return tuple(
        _failed(GateRule(text=text, metric="outputs", relation="expect", limit=0.0), message)
        for text, message in found
    )


def gate_answer(results: Sequence[GateResult], *, passed: bool) -> str:
    """Return the answer of a gate in one line: how many rules are met, or the first that is not."""
    count = Counter(result.outcome for result in results)
    if passed:
        unclear = f", {count['unclear']} unclear" if count["unclear"] else ""
        return f"PASS ({count['pass']} of {len(results)} rules{unclear})"
    unmet = (each for each in results if each.outcome != "pass")
    first, *others = sorted(unmet, key=lambda each: each.outcome)
    is_unclear = " is unclear" if first.outcome == "unclear" else ""
    more = f" (and {len(others)} more)" if others else ""
    return f"FAIL: {first.rule.text}{is_unclear}: {first.message}{more}"


def _failed(rule: GateRule, message: str) -> GateResult:
    return GateResult(rule=rule, outcome="fail", message=message)


def _unclear(rule: GateRule, message: str, *, needed: int | None = None) -> GateResult:
    return GateResult(rule=rule, outcome="unclear", message=message, launches_needed=needed)


FUNCTIONS: Mapping[str, Kind] = {"count": "count", "share": "share", "time": "time"}
"""Functions of the layers that match all arguments: a kind, operator, pattern or ``key=value``."""
QUANTITIES: Mapping[str, Kind] = {
    **dict.fromkeys(("sum", "gpu", "host", "latency", "conversions"), "time"),
    **dict.fromkeys(("jitter", "tail"), "share"),
    "layers": "count",
}
_CALL = re.compile(r"\b(?P<function>[a-z]+)\((?P<arguments>[^()]*)\)")


def expectation_from_text(text: str) -> Condition:
    """Read an expectation on the layers; raise ``UsageError`` if it is not valid."""
    calls: dict[str, Kind] = {}
    for match in _CALL.finditer(text):
        function = match["function"]
        if function not in ("and", "or", "not"):
            missing = f"the expectation {text!r} uses {function!r}, which does not exist"
            refuse_unknown(function, FUNCTIONS, missing)
            _conditions(match["arguments"])
            calls[match.group()] = FUNCTIONS[function]
    kinds = {**QUANTITIES, **calls}
    try:
        return condition_from_text(text.strip(), names=kinds, kinds=kinds, functions=FUNCTIONS)
    except UsageError as problem:
        fix = "write it like count(Einsum)>=1, share(precision=int8)>=80% or jitter<5%"
        raise UsageError(
            f"the expectation {text!r} cannot be read", facts={"reason": problem.message}, fix=fix
        ) from None


def rule_from_expectation(text: str) -> GateRule:
    read = expectation_from_text(text)
    return GateRule(text=read.text, metric="layers", relation="expect", limit=0.0)


def judge_expectations(
    texts: Sequence[str], table: tables.LayerTable, facts: tables.EngineFacts
) -> tuple[GateResult, ...]:
    rules = [rule_from_expectation(text) for text in texts]
    return tuple(judge_expectation(rule, table, facts) for rule in rules)


def judge_expectation(
    rule: GateRule, table: tables.LayerTable, facts: tables.EngineFacts
) -> GateResult:
    expectation = expectation_from_text(rule.text)
    converting = [layer for layer in table.layers if layer.converts]
    row: dict[str, float | None] = {
        "layers": float(len(table.layers)),
        "sum": table.total_s,
        "gpu": facts.gpu_s,
        "host": facts.host_s,
        "latency": facts.latency_s,
        "conversions": tables.total_s(converting) if table.timed and table.detailed else None,
        "jitter": facts.jitter,
        "tail": facts.tail,
    }
    message = []
    for name in expectation.names:
        function, bracket, arguments = name.removesuffix(")").partition("(")
        if bracket:
            row[name] = _value(function, arguments, table)
        kind, value = {**QUANTITIES, **FUNCTIONS}[function], row.get(name)
        shown = f"{value:g}" if value is not None else "unknown"
        if value is not None and kind in ("share", "time"):
            shown = text_from_fraction(value) if kind == "share" else text_from_seconds(value)
        message.append(f"{name} is {shown}")
    met = holds(expectation, row)
    if met is None:
        missing = ", ".join(unknown_names(expectation, row))
        needs = "a profile and detailed layer information"
        if {*unknown_names(expectation, row)} <= {"gpu", "host", "latency", "jitter", "tail"}:
            needs = "the times of queries, from --exportTimes"
        elif any(tables.hides_nodes(layer) for layer in table.layers):
            needs += ", and --onnx MODEL.onnx for what a ForeignNode contains"
        nothing = f"{', '.join(message)}: there is nothing to divide by"
        message = [f"{missing} is unknown: it needs {needs}" if missing else nothing]
    outcome: Outcome = "unclear" if met is None else "pass" if met else "fail"
    return GateResult(rule=rule, outcome=outcome, message=", ".join(message))


def _conditions(arguments: str) -> list[tuple[str, str, str]]:
    """Return conditions on layers; the key is empty for a kind or an operator."""
    found = []
    for part in filter(None, map(str.strip, arguments.split(","))):
        key = "name" if any(sign in part for sign in "*?/") else ""
        found += tables.conditions_from_text(part) or [(key, "=", part)]
    return found


def _value(function: str, arguments: str, table: tables.LayerTable) -> float | None:
    """Evaluate a function; ``None`` if it needs kinds or types and only names are known."""
    conditions = _conditions(arguments)
    keys = {key for key, *_ in conditions}
    kinds = any(layer.kind for layer in table.layers)
    if not table.detailed and keys - {"", *tables.NAMED_KEYS, *(["kind"] if kinds else [])}:
        return None
    hidden = table.lacks or any(tables.hides_nodes(layer) for layer in table.layers)
    if hidden and keys & {"", "operator"}:  # an operator may be inside a layer of another name
        return None

    def meets(layer: tables.Layer, key: str, relation: str, wanted: str) -> bool:
        each = [key] if key else ["operator", "kind"]
        return any(tables.meets(layer, name, relation, wanted) for name in each)

    found = [layer for layer in table.layers if all(meets(layer, *each) for each in conditions)]
    if function == "count":
        return float(len(found))
    total = table.total_s
    if total is None or function == "time":
        return None if total is None else tables.total_s(found)
    return tables.total_s(found) / total if total else None


class Suite(NamedTuple):
    """The results of one candidate; its rules are the test cases."""

    name: str
    results: Sequence[GateResult]
    seconds: float = 0.0
    error: str | None = None


def junit_from_suites(suites: Sequence[Suite], *, on_unclear: str = "fail") -> str:
    """Return JUnit XML: a rule is a test case; unclear ones are failures or skipped."""
    made = []
    for name, results, seconds, error in suites:
        count, classname = Counter(result.outcome for result in results), xml_text(name)
        skipped = count["unclear"] if on_unclear == "pass" else 0
        suite = ElementTree.Element(
            "testsuite",
            name=classname,
            tests=str(len(results) + (error is not None)),
            failures=str(count["fail"] + count["unclear"] - skipped),
            errors=str(int(error is not None)),
            skipped=str(skipped),
            time=f"{seconds:.3f}",
        )
        made.append(suite)
        if error is not None:
            case = ElementTree.SubElement(suite, "testcase", classname=classname, name="measured")
            ElementTree.SubElement(case, "error", message=xml_text(error))
        for result in results:
            # All rules share one measurement, so its time is divided among them.
            share = f"{seconds / max(1, len(results)):.3f}"
            named = {"classname": classname, "name": xml_text(result.rule.text), "time": share}
            case = ElementTree.SubElement(suite, "testcase", named)
            message = xml_text(f"{result.message}{launches_hint(result.launches_needed)}")
            if result.outcome == "pass":
                ElementTree.SubElement(case, "system-out").text = message
            elif result.outcome == "fail" or on_unclear != "pass":
                ElementTree.SubElement(case, "failure", type=result.outcome, message=message)
            else:
                ElementTree.SubElement(case, "skipped", message=message)
    root = made[0]
    if len(made) > 1:
        root = ElementTree.Element("testsuites", name="trtbench gate")
        root.extend(made)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
