"""Expectations on layers: what they mean, what is wrong with them, and that gates know them."""

from __future__ import annotations

import pytest
from layer_sets import fp16_chain, int8_chain, profile

from trtbench.analysis.gate import evaluate, passed, rule_from_text, rules_from_table
from trtbench.analysis.gate_report import junit_from_results
from trtbench.analysis.layers.engine_facts import EngineFacts
from trtbench.analysis.layers.expect import expectation_from_text, judge, judge_all
from trtbench.analysis.layers.join import join_layers
from trtbench.errors import UsageError

FACTS = EngineFacts(gpu_s=30e-6, jitter=0.02)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("count(Conv)==3", "pass"),
        ("count(Convolution)>=4", "fail"),
        ("count(operator=Gelu)==1", "pass"),
        ("count(Einsum)>=1", "fail"),
        ("count(/a/*)==1 and count(name=Gelu)==1", "pass"),
        ("share(precision=int8)>=58%", "pass"),  # 25 of 43 µs
        ("share(precision=int8)>=59%", "fail"),
        ("share(role=quantize, name=*c*)<20%", "pass"),
        ("time(precision=int8)<=25us", "pass"),
        ("conversions<10us", "fail"),
        ("not conversions<10us", "pass"),
        ("jitter<5%", "pass"),
        ("jitter<1%", "fail"),
        ("layers==6", "pass"),
        ("gpu<40us or latency<1us", "pass"),
        ("latency<1us", "unclear"),
        ("share(bound=memory)<50%", "pass"),
    ],
)
def test_expectations_are_judged(text: str, outcome: str) -> None:
    assert judge(expectation_from_text(text), int8_chain(), FACTS).outcome == outcome


def test_what_is_not_known_is_unclear_and_said() -> None:
    bare = join_layers(profile(["Conv_0", "Conv_1"], [1, 2]))
    kind = judge(expectation_from_text("share(precision=int8)>=80%"), bare, EngineFacts())
    assert kind.outcome == "unclear"
    assert "detailed layer information" in kind.message
    named = judge(expectation_from_text("count(Conv)==2"), bare, EngineFacts())
    assert named.outcome == "pass"
    jitter = judge(expectation_from_text("jitter<5%"), bare, EngineFacts())
    assert (jitter.outcome, "jitter" in jitter.message) == ("unclear", True)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("cuont(Conv)==3", "count"),
        ("share(precison=int8)>=80%", "precision"),
        ("share(precision=int8)>=0.8", "80%"),
        ("time(precision=int8)<3", "ms"),
        ("count(Conv)", "comparison"),
        ("count(Conv)==", "missing"),
        ("jitter<5", "5%"),
        ("layers<100%", "is no count"),
        ("gpu<2*5", "has no unit"),
    ],
)
def test_a_wrong_expectation_says_how_to_write_it(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as problem:
        expectation_from_text(text)
    assert hint in str(problem.value)


def test_gates_take_the_same_expressions() -> None:
    rule = rule_from_text("share(precision=int8)>=80%")
    assert (rule.relation, rule.text) == ("expect", "share(precision=int8)>=80%")
    table = {"p99": "<5ms", "expect": ["count(Einsum)>=1", "jitter<5%"]}
    rules = rules_from_table(table, where="model.gate.toml")
    assert [each.relation for each in rules] == ["<", "expect", "expect"]
    (unclear,) = evaluate([rules[1]])
    assert unclear.outcome == "unclear"


def test_results_become_junit() -> None:
    results = judge_all(["count(Conv)==3", "count(Einsum)>=1"], fp16_chain(), FACTS)
    assert not passed(results)
    xml = junit_from_results(results, suite="trtbench layers x")
    assert 'failures="1"' in xml
    assert "count(Einsum) is 0" in xml
