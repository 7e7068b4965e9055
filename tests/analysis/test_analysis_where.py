"""Conditions on sweeps and gate rules: reading, deciding, and what is refused."""

from xml.etree import ElementTree

import numpy as np
import pytest

from analysis_values import launches_of
from trtbench.analysis import gate
from trtbench.analysis.summary import Summary, summarize
from trtbench.analysis.sweep import pareto_front, quantities
from trtbench.analysis.verdict import verdict_from_effects
from trtbench.core.conditions import condition_from_text, holds, limits_of, unknown_names
from trtbench.core.errors import UsageError
from trtbench.core.metrics import kinds
from trtbench.core.samples import IterationTimes

NAMES = ("p99", "p99.9", "top1", "items", "size", "precision", "batch")


def met(text: str, baseline: dict[str, object] | None = None, **row: object) -> bool | None:
    values = {name.replace("_", "."): value for name, value in row.items()}
    return holds(condition_from_text(text, names=NAMES), values, baseline=baseline)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "row", "outcome"),
    [
        ("p99<5ms", {"p99": 0.004}, True),
        ("p99 < 5 ms", {"p99": 0.006}, False),
        ("p99<5ms", {"p99": None}, None),
        ("p99<5ms and items>100/s", {"p99": 0.006}, False),  # decided by what is known
        ("p99<5ms or items>100/s", {"p99": 0.006}, None),
        ("not p99<5ms", {"p99": 0.006}, True),
        ("not p99<5ms", {}, None),
        ("p99.9<=1ms", {"p99_9": 0.001}, True),
        ("size<20MB", {"size": 19e6}, True),
        ("size<20MiB", {"size": 20.5e6}, True),
        ("precision=='int8' or precision = \"fp16\"", {"precision": "fp16"}, True),
        ("precision!='int8'", {"precision": "int8"}, False),
        ("(p99+1ms)*2<=10ms", {"p99": 0.004}, True),
        ("10ms-p99-p99>=2ms", {"p99": 0.004}, True),
        ("items/batch>2", {"items": 10.0, "batch": 4}, True),
        ("items/batch>2", {"items": 10.0, "batch": 0}, None),
        ("-1<batch", {"batch": 0}, True),
        ("top1>=99%", {"top1": 0.992}, True),
        ("p99>0", {"p99": 0.1}, True),
        ("p99<5ms or p99>1s and batch==7", {"p99": 0.001, "batch": 1}, True),  # and binds tighter
    ],
)
def test_conditions_mean_what_they_say(text: str, row: dict[str, object], outcome: bool | None):
    assert met(text, **row) is outcome


def test_the_baseline_is_the_same_quantity_of_another_row() -> None:
    assert met("top1>=baseline-0.5%", {"top1": 0.700}, top1=0.696) is True
    assert met("top1>=baseline-0.5%", {"top1": 0.700}, top1=0.694) is False
    assert met("baseline*0.9>p99", {"p99": 0.01}, p99=0.008) is True
    assert met(
        "items>2*baseline.items and p99<=baseline.p99", {"items": 1, "p99": 1}, items=3, p99=1
    )
    assert met("top1>=baseline", None, top1=70.0) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p9<5ms", "did you mean p99"), ("p99<5", "5ms"), ("0.5>=p99", "no unit"),
        ("p99", "comparison"), ("p99<", "missing"), ("p99<5ms and", "missing"),
        ("p99<5ms)", "superfluous"), ("(p99<5ms", "bracket"), ("p99 <5 parsecs", "is not a unit"),
        ("__import__('os').system('true')", "is not valid"), ("exec>1", "no quantity called"),
        ("p99<5ms; top1>3", "is not valid"), ("precision==fp16", "in quotes"),
        ("baseline<baseline", "one quantity"), ("", "missing"), ("(" * 200 + "p99<1", "too long"),
        ("median<5%", "a time, but 5% is not"), ("median<=baseline+10%", "write baseline*1.1"),
        ("p99<baseline+5", "write 5ms"), ("p99<10MB", "a time, but 10MB is not"),
        ("size<10", "write 10MiB"), ("size<10ms", "is a size, but"),
        ("top1>=70ms", "is a share, but"), ("mAP>=30", "add the %"),
        ("batch>5%", "is a count, but"), ("throughput>5ms", "is a rate, but"),
        ("p99<2*5", "has no unit"), ("p99<baseline+2*5", "has no unit"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_and_a_wrong_unit_say_why(text: str, said: str) -> None:
    names = [*NAMES, "median", "throughput", "mAP"]
    with pytest.raises(UsageError) as caught:
        condition_from_text(text, names=names, kinds=kinds(names))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("top1>=baseline-0.5", "top1>=baseline-0.5%"),
        ("top1 >= baseline.top1 - .5 and p99<2", "top1 >= baseline.top1 - .5% and p99<2"),
        ("(0.5<baseline.top1-top1)", "(0.5%<baseline.top1-top1)"),
        ("top1-baseline.top1>=-0.5", "top1-baseline.top1>=-0.5%"),
        ("top1>=baseline-1-0.5%", "top1>=baseline-1%-0.5%"),
        ("top1>=baseline*0.99", "top1>=baseline*0.99"),
        ("p99<=baseline+1", "p99<=baseline+1"),
    ],
)
def test_between_two_shares_a_bare_number_is_points_of_per_cent(text: str, meant: str) -> None:
    bare, written = (condition_from_text(each, names=NAMES, kinds={"top1": "share"})
                     for each in (text, meant))  # fmt: skip
    assert bare == written
    assert bare.text == meant
    if "0.5%" in meant and "1%" not in meant and "<" not in meant:
        assert holds(bare, {"top1": 0.696}, baseline={"top1": 0.7}) is True
        assert holds(bare, {"top1": 0.694}, baseline={"top1": 0.7}) is False


@pytest.mark.parametrize(
    "text",
    ["median<=baseline*110%", "size<=baseline+1MiB", "items>5", "items>5/s", "batch>=4", "std<0",
     "p99<2*5ms", "workspace<5", "workspace<5MiB"],
)  # fmt: skip
def test_what_needs_no_other_unit_is_read(text: str) -> None:
    names = [*quantities(()), "workspace"]
    assert condition_from_text(text, names=names, kinds=kinds(names))


def test_what_a_condition_lacks_is_named() -> None:
    condition = condition_from_text("p99<5ms and top1>=baseline-0.5%", names=NAMES)
    assert unknown_names(condition, {"p99": 0.001, "top1": None}) == ["top1"]


def test_the_front_is_what_nothing_beats() -> None:
    points = [
        {"time": 1.0, "right": 70.0}, {"time": 2.0, "right": 80.0}, {"time": 2.5, "right": 75.0},
        {"time": 1.0, "right": 70.0}, {"time": 0.5, "right": None},
    ]  # fmt: skip
    assert pareto_front(points, better={"time": "low", "right": "high"}) == [0, 1, 3]
    assert pareto_front(points, better={"time": "low"}) == [4]
    assert pareto_front([], better={"time": "low"}) == []


@pytest.mark.parametrize(
    "text", ["PCK@0.2>=90%", "PCK@0.2 >= baseline-1", "p99<5ms and PCK@0.2>90%"]
)
def test_a_name_may_hold_its_parameter(text: str) -> None:
    condition = condition_from_text(text, names=("PCK@0.2", "p99"), kinds={"PCK@0.2": "share"})
    row = {"PCK@0.2": 0.95, "p99": 0.001}
    assert holds(condition, row, baseline=row) is True
    assert holds(condition, {**row, "PCK@0.2": 0.5}, baseline=row) is False


def test_one_language_for_limits_and_chains() -> None:
    condition = condition_from_text("1ms≤p99<5ms and 20>items", names=NAMES)
    assert limits_of(condition) == [("p99", ">=", 0.001), ("p99", "<", 0.005), ("items", "<", 20.0)]
    assert limits_of(condition_from_text("p99<5ms or items>3", names=NAMES)) is None
    assert limits_of(condition_from_text("p99<baseline", names=NAMES)) is None
    assert met("1ms<p99<5ms", p99=0.004) is True
    assert met("1ms<p99<5ms", p99=0.006) is False


def one_launch(n: int = 1000) -> Summary:
    host = np.linspace(0.9e-3, 1.1e-3, n)
    host = np.random.default_rng(0).permutation(host)
    return summarize(IterationTimes(host=host, gpu=host / 2))


@pytest.mark.parametrize(
    ("text", "metric", "statistic", "limit"),
    [
        ("p99<5ms", "headline", "p99", 5e-3), ("p99.9 <= 5 ms", "headline", "p99.9", 5e-3),
        ("gpu.median<=0.2ms", "gpu", "median", 2e-4), ("gpu.p99.9<1ms", "gpu", "p99.9", 1e-3),
        ("throughput>=100/s", "throughput", "median", 100.0),
        ("items>=1kHz", "items", "median", 1000.0), ("host<5ms", "host", "median", 5e-3),
        ("cov<5%", "headline", "cov", 0.05),
    ],
)  # fmt: skip
def test_rules_are_read(text: str, metric: str, statistic: str, limit: float) -> None:
    rule = gate.rules_from_text(text)[0]
    assert (rule.metric, rule.statistic) == (metric, statistic)
    assert rule.limit == pytest.approx(limit)


@pytest.mark.parametrize("text", ["p99", "p99=5ms", "speed<5ms", "p99<5", "throughput>=5ms"])
def test_wrong_rules_say_what_to_type(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        gate.rules_from_text(text)[0]
    assert caught.value.fix


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("median<1.01ms", "pass"), ("median<0.99ms", "fail"), ("p99<1.2ms", "pass"),
        ("p99.9<1.2ms", "unclear"), ("gpu.max<=0.55ms", "pass"), ("throughput>=900/s", "pass"),
        ("throughput>=1100/s", "fail"), ("h2d<1ms", "fail"), ("max>=1ms", "pass"),
    ],
)  # fmt: skip
def test_limits(text: str, outcome: str) -> None:
    (result,) = gate.evaluate([gate.rules_from_text(text)[0]], summary=one_launch())
    assert result.outcome == outcome
    assert result.message


def test_a_limit_inside_the_interval_over_launches_is_unclear() -> None:
    summary = summarize(launches_of([np.full(50, level) for level in (0.9e-3, 1e-3, 1.1e-3)]))
    texts = ("median<1.01ms", "median<9ms", "median<0.1ms")
    outcomes = gate.evaluate([gate.rules_from_text(x)[0] for x in texts], summary=summary)
    assert [result.outcome for result in outcomes] == ["unclear", "pass", "fail"]


@pytest.mark.parametrize("metric", ["host", "throughput"])
@pytest.mark.parametrize(
    ("slower", "outcome"), [(0.0, "pass"), (0.02, "pass"), (0.05, "fail"), (0.03, "unclear")]
)
def test_slowdown_against_a_baseline(slower: float, outcome: str, metric: str) -> None:
    effect = np.log1p(slower) * (-1 if metric == "throughput" else 1)
    effects = [effect + 0.001 * (-1) ** k for k in range(10)]
    rule = gate.slowdown_rule(0.03, metric=metric)
    (result,) = gate.evaluate(
        [rule], verdicts={metric: verdict_from_effects(effects, metric=metric)}
    )
    assert (result.outcome, result.value) == (outcome, pytest.approx(slower, abs=1e-3))
    (alone,) = gate.evaluate([rule], summary=one_launch())
    assert alone.outcome == "fail", "there is no baseline"


def test_ranges_from_a_table() -> None:
    table = {
        "median": ["0.9ms", "1.1ms"],
        "throughput": ">=100/s",
        "max_slowdown": "3%",
        "gpu": {"p99": "<5ms", "max_slowdown": "5%"},
    }
    rules = gate.rules_from_table(table, where="model.toml")
    texts = "median>=0.9ms, median<=1.1ms, throughput>=100/s, slowdown<=3%, gpu.p99<5ms"
    assert ", ".join(rule.text for rule in rules) == f"{texts}, gpu slowdown<=5%"
    with pytest.raises(UsageError, match=r"model\.toml: median"):
        gate.rules_from_table({"median": 5}, where="model.toml")


def test_reports_hold_every_rule() -> None:
    texts = ["median<2ms", "median<0.1ms", "p99.9<2ms"]
    results = gate.evaluate([gate.rules_from_text(text)[0] for text in texts], summary=one_launch())
    root = ElementTree.fromstring(gate.junit_from_suites([gate.Suite("gate", results)]))
    assert root.attrib["tests"] == "3"
    assert root.attrib["failures"] == "2"
    assert [case.attrib["name"] for case in root.iter("testcase")] == texts
    lenient = ElementTree.fromstring(
        gate.junit_from_suites([gate.Suite("gate", results)], on_unclear="pass")
    )
    assert (lenient.attrib["failures"], lenient.attrib["skipped"]) == ("1", "1")
    assert (gate.passed(results[2:]), gate.passed(results[2:], on_unclear="pass")) == (False, True)
