"""Gate rules: read from text or a table, evaluated on summaries and verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

from trtbench.analysis.column_summary import QUANTILES, ColumnSummary
from trtbench.analysis.condition_text import parts_of_relation
from trtbench.analysis.layers.engine_facts import facts_from_run
from trtbench.analysis.layers.expect import (
    expectation_from_text,
    is_expectation,
    judge,
    rule_from_expectation,
)
from trtbench.analysis.layers.join import join_layers
from trtbench.analysis.summary import Summary
from trtbench.analysis.verdict import launches_to_reach
from trtbench.domain.comparison import GateResult, GateRule, Verdict
from trtbench.domain.result import Interval, Run
from trtbench.domain.samples import DURATIONS
from trtbench.errors import UsageError, near_miss
from trtbench.units import (
    fraction_from_text,
    hertz_from_text,
    seconds_from_text,
    text_from_fraction,
    text_from_rate,
    text_from_seconds,
)

RuleSign = Literal["<", "<=", ">", ">="]
Outcome = Literal["pass", "fail", "unclear"]

PERCENTILES = tuple(f"p{100 * q:g}" for q in QUANTILES)
STATISTICS = ("median", "mean", "min", "max", "std", "mad", "cov", *PERCENTILES)
RATES = ("throughput", "items")
EXAMPLE = "p99<5ms, gpu.median<=0.2ms or throughput>=100/s"


def rule_from_text(text: str) -> GateRule:
    """Read one rule such as ``p99<5ms``, ``gpu.median<=0.2ms`` or ``throughput>=100/s``."""
    if is_expectation(text):
        return rule_from_expectation(expectation_from_text(text))
    parts = parts_of_relation(text)
    if parts is None:
        raise UsageError(f"{text!r} is not a gate rule", fix=f"write it like {EXAMPLE}")
    name, relation, limit = parts
    metric, statistic = metric_from_name(name)
    return GateRule(
        text=text.strip(),
        metric=metric,
        statistic=statistic,
        relation=cast(RuleSign, relation),
        limit=_limit(limit, metric, statistic),
    )


def slowdown_rule(limit: float, *, metric: str = "headline") -> GateRule:
    """Make the rule behind ``--max-slowdown 3%``."""
    shown = f"{100 * limit:g}%"
    return GateRule(
        text=f"{'' if metric == 'headline' else metric + ' '}slowdown<={shown}",
        metric=metric,
        relation="slowdown",
        limit=limit,
    )


def rules_from_table(table: Mapping[str, object], *, where: str) -> tuple[GateRule, ...]:
    """Read the expected ranges of a TOML table: ``p99 = "<5ms"``, ``median = ["4ms", "6ms"]``.

    ``max_slowdown = "3%"`` is the rule against a baseline; ``gpu = {p99 = "<5ms"}`` nests;
    ``expect = ["count(Einsum)>=1"]`` lists what is expected of the layers.
    """
    return tuple(_rules(table, prefix="", where=where))


def _rules(table: Mapping[str, object], *, prefix: str, where: str) -> Iterator[GateRule]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if key == "max_slowdown":
            metric = prefix.rstrip(".") or "headline"
            limit = fraction_from_text(str(value))
            yield slowdown_rule(limit, metric=metric)
        elif key == "expect" and not prefix:
            texts = value if isinstance(value, list) else [value]
            yield from (rule_from_expectation(expectation_from_text(str(each))) for each in texts)
        elif isinstance(value, Mapping):
            yield from _rules(value, prefix=f"{name}.", where=where)
        elif isinstance(value, str):
            yield rule_from_text(name + value)
        elif isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value):
            yield rule_from_text(f"{name}>={value[0]}")
            yield rule_from_text(f"{name}<={value[1]}")
        else:
            raise UsageError(
                f"{where}: {name} is neither a rule nor a range",
                facts={"found": value},
                fix=f'{name} = "<5ms" or {name} = ["4ms", "6ms"]',
            )


def metric_from_name(name: str) -> tuple[str, str]:
    """Split ``gpu.p99`` into column and statistic; a part that is missing has its default."""
    parts = name.split(".")
    # p99.9 is one statistic although it holds a dot.
    if len(parts) >= 2 and f"{parts[-2]}.{parts[-1]}" in STATISTICS:
        parts[-2:] = [f"{parts[-2]}.{parts[-1]}"]
    metric, statistic = "headline", "median"
    for part in parts:
        if part in DURATIONS or part in RATES:
            metric = part
        elif part in STATISTICS:
            statistic = part
        elif part != "headline":
            known = (*DURATIONS, *RATES, *STATISTICS)
            guess = near_miss(part, known)
            raise UsageError(
                f"{part!r} is not a metric",
                facts={"metrics": " ".join((*DURATIONS, *RATES)), "of": " ".join(STATISTICS)},
                fix=f"did you mean {guess}?" if guess else f"write it like {EXAMPLE}",
            )
    return metric, statistic


def evaluate(
    rules: Sequence[GateRule],
    *,
    summary: Summary | None = None,
    verdicts: Mapping[str, Verdict] | None = None,
    run: Run | None = None,
) -> tuple[GateResult, ...]:
    """Evaluate every rule; ``verdicts`` are by metric, for the rules against a baseline.

    ``run`` is for what is expected of layers.
    """
    return tuple(
        _expected(rule, run)
        if rule.relation == "expect"
        else _evaluate(rule, summary, verdicts or {})
        for rule in rules
    )


def _expected(rule: GateRule, run: Run | None) -> GateResult:
    if run is None:
        return _unclear(rule, "nothing was measured")
    table = join_layers(run.layers, run.graph)
    return judge(expectation_from_text(rule.text), table, facts_from_run(run))


def _evaluate(
    rule: GateRule, summary: Summary | None, verdicts: Mapping[str, Verdict]
) -> GateResult:
    if rule.relation == "slowdown":
        return slowdown_result(rule, _verdict(rule, summary, verdicts))
    if summary is None:
        return _unclear(rule, "nothing was measured")
    if rule.metric in RATES:
        rate = summary.queries_per_s if rule.metric == "throughput" else summary.items_per_s
        return limit_result(rule, rate, interval=None, launches=summary.launches)
    try:
        column = summary.column(summary.headline if rule.metric == "headline" else rule.metric)
    except KeyError:
        return _unclear(rule, f"{rule.metric} was not measured")
    value, interval, needed = _statistic(column, rule.statistic)
    if column.reported:
        return _printed_result(rule, column, value)
    if value is None:
        return _unclear(rule, f"{rule.statistic} needs {needed} samples, {column.count} were taken")
    over_launches = interval if summary.launches > 1 else None
    return limit_result(rule, value, interval=over_launches, launches=summary.launches)


def _printed_result(rule: GateRule, column: ColumnSummary, value: float | None) -> GateResult:
    """Hold a rule against a number another tool printed: one launch, and no samples."""
    if value is None or math.isnan(value):
        named = ("min", "median", "mean", "max", *PERCENTILES)
        known = " ".join(name for name in named if column.statistic(name) is not None)
        return _unclear(rule, f"{rule.statistic} was not printed; known: {known}")
    result = limit_result(rule, value, interval=None, launches=1)
    return result.having(message=f"{result.message}, reported")


def limit_result(
    rule: GateRule, value: float | None, *, interval: Interval | None, launches: int
) -> GateResult:
    """Compare a value with a limit; an interval over launches that holds both is unclear."""
    if value is None or math.isnan(value):
        return _unclear(rule, "not known")
    outcome: Outcome = "pass" if _holds(value, rule) else "fail"
    shown = shown_value(value, rule)
    if interval is None:
        remark = "; one launch" if launches == 1 else ""
        return GateResult(
            rule=rule, outcome=outcome, message=f"{shown}{remark}", value=value, interval=None
        )
    both = _holds(interval.low, rule) != _holds(interval.high, rule)
    low, high = shown_value(interval.low, rule), shown_value(interval.high, rule)
    return GateResult(
        rule=rule,
        outcome="unclear" if both else outcome,
        message=f"{shown}, {interval.level * 100:g} % between {low} and {high}",
        value=value,
        interval=interval,
    )


def slowdown_result(rule: GateRule, verdict: Verdict | None) -> GateResult:
    """Ask whether a candidate is surely not slower than allowed, or surely is."""
    if verdict is None:
        return _unclear(rule, "there is no comparison with a baseline")
    if verdict.across_devices is not None:
        return _unclear(rule, f"the sides ran on two devices: {verdict.across_devices}")
    if verdict.interval is None or verdict.ratio is None:
        return _unclear(rule, verdict.reason, needed=verdict.launches_needed)
    low, high = verdict.interval.low, verdict.interval.high
    ratio = verdict.ratio
    if verdict.metric in RATES:
        # A rate that falls to 1/1.03 is a slowdown of 3 %.
        low, high, ratio = 1 / high, 1 / low, 1 / ratio
    outcome: Outcome = "unclear"
    if high <= 1 + rule.limit:
        outcome = "pass"
    elif low > 1 + rule.limit:
        outcome = "fail"
    # What would leave the limit out, if the ratio stays what it is; drift does not shrink.
    goal, half = abs(math.log(ratio) - math.log1p(rule.limit)), math.log(high / low) / 2
    needed = None
    if verdict.design != "apart" and verdict.launches > 1 and goal > 0:
        needed = launches_to_reach(goal, half=half, count=verdict.launches)
    change = text_from_fraction(ratio - 1, signed=True)
    ends = (text_from_fraction(end - 1, signed=True) for end in (low, high))
    return GateResult(
        rule=rule,
        outcome=outcome,
        message=f"{change}, {verdict.interval.level * 100:g} % between {' and '.join(ends)}",
        value=ratio - 1,
        interval=verdict.interval,
        launches_needed=needed if outcome == "unclear" else None,
    )


def passed(results: Sequence[GateResult], *, on_unclear: Literal["fail", "pass"] = "fail") -> bool:
    """Tell whether the gate is open."""
    allowed = {"pass", "unclear"} if on_unclear == "pass" else {"pass"}
    return all(result.outcome in allowed for result in results)


def shown_value(value: float, rule: GateRule) -> str:
    """Write a value in the unit of its rule."""
    if rule.relation == "slowdown" or rule.statistic == "cov":
        return text_from_fraction(value)
    if rule.metric in RATES:
        return text_from_rate(value)
    return text_from_seconds(value)


def _limit(text: str, metric: str, statistic: str) -> float:
    if statistic == "cov":
        return fraction_from_text(text)
    if metric in RATES:
        return hertz_from_text(text)
    return seconds_from_text(text)


def _holds(value: float, rule: GateRule) -> bool:
    if rule.relation == "<":
        return value < rule.limit
    if rule.relation == "<=":
        return value <= rule.limit
    return value > rule.limit if rule.relation == ">" else value >= rule.limit


def _statistic(
    column: ColumnSummary, statistic: str
) -> tuple[float | None, Interval | None, int | None]:
    if statistic == "median":
        return column.median, column.median_interval, None
    if statistic in PERCENTILES:
        quantile = column.quantiles[PERCENTILES.index(statistic)]
        return quantile.value, quantile.interval, quantile.needed
    return cast(float, getattr(column, statistic)), None, None


def _verdict(
    rule: GateRule, summary: Summary | None, verdicts: Mapping[str, Verdict]
) -> Verdict | None:
    if rule.metric != "headline":
        return verdicts.get(rule.metric)
    first = next(iter(verdicts.values()), None)
    return verdicts.get(summary.headline, first) if summary else first


def _unclear(rule: GateRule, message: str, *, needed: int | None = None) -> GateResult:
    return GateResult(rule=rule, outcome="unclear", message=message, launches_needed=needed)
