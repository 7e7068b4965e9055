"""Gate rules: reading, deciding, and the files they leave."""

from xml.etree import ElementTree

import numpy as np
import pytest

from analysis_values import launches_of
from trtbench.analysis import gate
from trtbench.analysis.summary import Summary, summarize
from trtbench.analysis.verdict import verdict_from_effects
from trtbench.core.errors import UsageError
from trtbench.core.samples import IterationTimes


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
