"""Verdicts, their arithmetic, and what blocks them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from analysis_values import GPU, duet, environment, launches_of, record, run, spec, stated
from trtbench.analysis.column_summary import summarize_column
from trtbench.analysis.comparability import blocking_reasons, differences, refuse_unknown_keys
from trtbench.analysis.gate import slowdown_result, slowdown_rule
from trtbench.analysis.robust import (
    detectable_effect,
    detectable_factor,
    difference,
    holm,
    trimmed,
)
from trtbench.analysis.stored_comparison import (
    compare_apart,
    drift_from_history,
    drift_from_records,
)
from trtbench.analysis.tails import cliffs_delta, faster_share, shift_function
from trtbench.analysis.verdict import (
    BURSTS_GATE,
    confirm_in_cycles,
    correct_for_many,
    duet_comparison,
    kind_in_cycles,
    launch_effect,
    tail_verdict,
    throughput_effect,
    verdict_from_effects,
    would_tell,
)
from trtbench.domain.comparison import Verdict
from trtbench.domain.result import Fact, Run
from trtbench.domain.samples import IterationTimes
from trtbench.domain.spec import TensorSpec
from trtbench.errors import UsageError
from trtbench.report.documents.comparison import reasons, verdict_cells
from trtbench.workflows.request.comparing import TurnFields

TEN = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.50]


def test_trimmed_mean_by_hand() -> None:
    estimate = trimmed(TEN)
    assert estimate is not None
    assert estimate.mean == pytest.approx(np.mean(TEN[2:8]))
    winsorised = [0.03] * 3 + [0.04, 0.05, 0.06, 0.07] + [0.08] * 3
    assert estimate.error == pytest.approx(np.std(winsorised, ddof=1) / (0.6 * math.sqrt(10)))
    assert estimate.df == 5
    half = stats.t.ppf(0.995, 5) * estimate.error
    assert estimate.interval() == pytest.approx((estimate.mean - half, estimate.mean + half))


def test_few_launches_are_not_trimmed() -> None:
    estimate = trimmed([0.1, 0.2, 0.3, 0.4])
    assert estimate is not None
    t, p = stats.ttest_1samp([0.1, 0.2, 0.3, 0.4], 0.0)
    assert estimate.mean / estimate.error == pytest.approx(t)
    assert estimate.p == pytest.approx(p)


def test_unpaired_difference_is_welch_without_trimming() -> None:
    before, after = [1.0, 1.1, 0.9, 1.05], [1.3, 1.2, 1.6, 1.5]
    estimate = difference(before, after)
    assert estimate is not None
    assert estimate.p == pytest.approx(stats.ttest_ind(after, before, equal_var=False).pvalue)


@pytest.mark.parametrize(
    ("effects", "kind"),
    [
        ([0.03 + e for e in (-0.002, 0.0, 0.001, 0.002) * 3], "slower"),
        ([-0.03 + e for e in (-0.002, 0.0, 0.001, 0.002) * 3], "faster"),
        ([0.001 * (-1) ** k for k in range(10)], "same"),
        ([0.006 + 0.0005 * (-1) ** k for k in range(10)], "same"),
        ([0.05 * (-1) ** k for k in range(10)], "unclear"),
        ([0.04], "unclear"),
        ([], "unclear"),
    ],
)
def test_kinds(effects: list[float], kind: str) -> None:
    assert verdict_from_effects(effects).kind == kind


def test_more_throughput_is_faster() -> None:
    effects = [0.05 + 0.001 * (-1) ** k for k in range(10)]
    assert verdict_from_effects(effects, metric="throughput", better="high").kind == "faster"
    assert throughput_effect(np.array([2.0, 2]), np.array([1.0, 1])) == pytest.approx(math.log(2))


def test_unclear_says_how_many_launches_it_needs() -> None:
    effects = [0.03 * (-1) ** k for k in range(10)]
    verdict = verdict_from_effects(effects)
    assert verdict.interval is not None
    half = math.log(verdict.interval.high / verdict.interval.low) / 2
    spread = half / stats.t.ppf(0.995, df=10 - 2 * 2 - 1) * math.sqrt(10)
    needed = verdict.launches_needed
    assert needed is not None

    def reach(count: int) -> float:
        df = count - 2 * int(0.2 * count) - 1
        return float(stats.t.ppf(0.995, df=df) * spread / math.sqrt(count))

    assert reach(needed) <= math.log(1.02) < reach(int(needed * 0.94)), "it would be the same"
    assert (
        would_tell(verdict.launches_needed)
        == f"; about {verdict.launches_needed} launches would tell"
    )
    assert would_tell(None) == ""
    assert "too noisy to tell" in would_tell(364_472)


def test_launches_needed_aim_at_deciding_not_at_a_width() -> None:
    large = verdict_from_effects([2.6, 3.4])
    assert large.kind == "unclear"
    assert large.launches_needed in (3, 4), "an effect of 20 times needs no interval of ±1 %"
    small = verdict_from_effects([0.015 + 0.02 * (-1) ** k for k in range(10)])
    assert small.kind == "unclear"
    again = verdict_from_effects(
        [0.015 + 0.02 * (-1) ** k for k in range(2 * ((small.launches_needed or 0) // 2 + 1))]
    )
    assert again.kind == "slower"


def test_a_margin_finer_than_what_counts_is_not_waited_for() -> None:
    verdict = verdict_from_effects([0.008 + 0.001 * (-1) ** k for k in range(10)], margin=0.005)
    assert verdict.kind == "unclear"
    assert verdict.launches_needed is None


def test_a_gate_says_how_many_launches_would_leave_its_limit_out() -> None:
    verdict = verdict_from_effects([0.02 + 0.02 * (-1) ** k for k in range(10)])
    result = slowdown_result(slowdown_rule(0.03), verdict)
    assert result.outcome == "unclear"
    assert result.launches_needed is not None
    many = 2 * (result.launches_needed // 2 + 1)
    clearer = verdict_from_effects([0.02 + 0.02 * (-1) ** k for k in range(many)])
    assert slowdown_result(slowdown_rule(0.03), clearer).outcome == "pass"


def test_an_unclear_verdict_says_each_number_once() -> None:
    verdict = verdict_from_effects([0.4 * (-1) ** k for k in range(6)], metric="enqueue")
    assert verdict.interval is not None
    (reason,) = reasons([verdict])
    line = " ".join([*(cell.shown for cell in verdict_cells(verdict)), reason.text])
    assert line.count("%") == 5, "the change, the level, both ends, the margin"
    assert line.endswith("more than 1000 launches would be needed: too noisy to tell")


def test_the_effect_of_a_launch_is_the_median_of_its_pairs() -> None:
    baseline, candidate = np.array([1.0, 2, 4]), np.array([1.1, 2.0, 40])
    assert launch_effect(baseline, candidate) == pytest.approx(math.log(1.1))


def test_a_clock_effect_is_withdrawn() -> None:
    effects = [0.05 + 0.001 * (-1) ** k for k in range(10)]
    verdict = verdict_from_effects(effects, metric="gpu")
    assert kind_in_cycles(verdict, clock_ratio=math.exp(-0.05)) == "same"
    withdrawn = confirm_in_cycles(verdict, clock_ratio=math.exp(-0.05))
    assert withdrawn.kind == "unclear"
    assert withdrawn.reason.endswith("counted in clock cycles it is same: a clock effect")
    assert confirm_in_cycles(verdict, clock_ratio=1.0).kind == "slower"


@pytest.mark.parametrize(
    ("effect", "noise", "kind"),
    [(0.007, 1e-4, "slower"), (0.003, 1e-4, "same"), (0.01, 4.5e-3, "unclear")],
)
def test_cycles_of_equal_clocks_say_what_seconds_say(
    effect: float, noise: float, kind: str
) -> None:
    """Bursts call less a difference than other times do, and many looks demand more of it."""
    effects = [effect + noise * (-1) ** k for k in range(6)]
    verdict = verdict_from_effects(effects, metric="gpu", design="bursts", gate=BURSTS_GATE)
    assert verdict.kind == kind
    assert kind_in_cycles(verdict, clock_ratio=1.0) == kind


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_many_candidates_are_corrected() -> None:
    shaky = Verdict(
        metric="host", kind="slower", ratio=1.02, interval=None, reason="r", launches=10, p=0.008
    )
    sure = shaky.having(p=1e-6)
    corrected = correct_for_many([shaky, sure, shaky])
    assert [verdict.kind for verdict in corrected] == ["unclear", "slower", "unclear"]
    assert "3 comparisons" in corrected[0].reason


def test_detectable_effect_shrinks_with_launches() -> None:
    assert detectable_factor(10) == 1.70
    assert detectable_factor(5) > detectable_factor(10) > detectable_factor(12)
    assert detectable_factor(160) == pytest.approx(detectable_factor(40) / 2)
    effects = np.random.default_rng(0).normal(scale=0.003, size=10).tolist()
    found = detectable_effect(effects)
    assert found is not None
    assert 0.002 < found < 0.01


def test_effect_sizes_on_pairs() -> None:
    pairs = [(np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 4, 4]))]
    assert faster_share(pairs) == pytest.approx(0.375)
    assert cliffs_delta(pairs) == pytest.approx(0.25)


def test_shift_function_sees_a_slower_tail_only() -> None:
    random = np.random.default_rng(3)
    pairs = duet(random, launches=10, launch_sd=0.0)
    slow_tail = [(a, np.where(b > np.quantile(b, 0.85), b * 1.5, b)) for a, b in pairs]
    shift = {point.q: point for point in shift_function(slow_tail)}
    assert shift[0.95].differs
    assert not shift[0.3].differs
    assert tail_verdict(slow_tail, 0.95).kind == "slower"
    assert tail_verdict(pairs[:3], 0.99).kind == "unclear"


def test_a_percentile_that_a_side_does_not_know_is_no_change() -> None:
    """What the table of a run hides, its comparison does not show either."""
    random = np.random.default_rng(5)
    full = duet(random, launches=8, launch_sd=0.0)
    pairs = [(a[:20], b[:20] * np.where(random.random(20) < 0.02, 3.0, 1.0)) for a, b in full]
    shown = {each.q: each for each in summarize_column("host", [a for a, _ in pairs]).quantiles}
    assert shown[0.99].value is None
    comparison = duet_comparison(pairs, baseline="a", candidate="b")
    tail = comparison.verdict("p99")
    assert (tail.kind, tail.ratio, tail.interval) == ("unclear", None, None)
    assert f"needs n={shown[0.99].needed}" in tail.reason
    assert tail.launches_needed is not None
    assert tail.launches_needed > len(pairs)
    assert shown[0.9].value is not None
    assert comparison.verdict("p90").ratio is not None
    assert 0.9 in (known := {point.q for point in comparison.shift})
    assert 0.99 not in known
    many = duet_comparison(full, baseline="a", candidate="b")
    assert many.verdict("p99").ratio is not None
    one_sided = tail_verdict([(a, b[:20]) for a, b in full], 0.99, design="launches")
    assert one_sided.ratio is None


def test_a_comparison_holds_all_verdicts() -> None:
    comparison = duet_comparison(
        duet(np.random.default_rng(1), effect=0.05), baseline="a", candidate="b"
    )
    assert [v.metric for v in comparison.verdicts] == ["host", "throughput", "p90", "p99"]
    assert comparison.verdict("host").kind == "slower"
    assert comparison.verdict("throughput").kind == "slower"
    assert comparison.faster_share is not None
    assert comparison.faster_share < 0.5
    assert len(comparison.effects) == 10


def test_runs_apart_are_only_as_good_as_drift() -> None:
    random = np.random.default_rng(0)

    def measured(level: float, launches: int) -> IterationTimes:
        return launches_of([level * (1 + 0.01 * random.random(50)) for _ in range(launches)])

    base = run(measured(1.0, 5))
    near = compare_apart(base, run(measured(1.2, 5))).verdict("host")
    assert (near.kind, near.design) == ("unclear", "apart")
    assert "drift" in str(near.interval)
    assert compare_apart(base, run(measured(2.0, 5))).verdict("host").kind == "slower"
    single = compare_apart(run(measured(1.0, 1)), run(measured(1.0, 1))).verdict("host")
    assert single.kind == "unclear"
    assert "one launch" in single.reason
    history = drift_from_history([1.0, 1.001, 0.999, 1.0005, 0.9995, 1.0])
    assert history is not None
    assert history.bound < 0.01
    known = compare_apart(base, run(measured(1.2, 5)), drift=history).verdict("host")
    assert known.kind == "slower"
    same = compare_apart(base, run(measured(1.0, 5)), drift=history).verdict("host")
    assert same.kind == "same"
    assert drift_from_history([1.0, 1.1]) is None


def test_graphs_on_a_gpu_drift_little() -> None:
    gpu = record(environment=environment(gpus=(GPU,)), conditions=stated(cuda_graph=True))
    plain = record(environment=environment(gpus=(GPU,)), conditions=stated(cuda_graph=False))
    assert drift_from_records(gpu, gpu, metric="gpu").bound == 0.01
    assert drift_from_records(gpu, plain, metric="gpu").bound == 0.30
    assert drift_from_records(record(), record(), metric="host").bound == 0.40


def test_columns_with_equal_times_get_equal_verdicts() -> None:
    gpu = record(environment=environment(gpus=(GPU,)), conditions=stated(cuda_graph=True))

    def side(level: float, *, transfer: float = 0.0) -> Run:
        times = np.full(50, level)
        columns = IterationTimes(latency=times + transfer, gpu=times)
        return Run(record=gpu, times=columns)

    found = compare_apart(side(1.0), side(1.1))
    assert {found.verdict(name).kind for name in ("latency", "gpu")} == {"slower"}
    apart = compare_apart(side(1.0, transfer=0.2), side(1.1, transfer=0.2))
    assert apart.verdict("gpu").kind == "slower"
    assert apart.verdict("latency").kind == "unclear", "transfers drift as they do"


BIG = (TensorSpec(name="x", dtype="float32", shape=(1, 3, 16, 16)),)


def test_a_difference_that_does_not_exist_cannot_be_accepted() -> None:
    with pytest.raises(UsageError, match="--accept protocl names no difference") as caught:
        TurnFields(accept=("tf32", "protocl"))
    assert caught.value.fix == "--accept protocol"
    with pytest.raises(UsageError, match="bogus"):
        TurnFields(accept=("bogus",))


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("inputs", {"inputs": BIG}),
        ("batch", {"conditions": stated(tf32=False, cuda_graph=False, transfers=True, batch=8)}),
        ("protocol", {"spec": spec(protocol="pipeline")}),
        ("tf32", {"conditions": stated(tf32=True, cuda_graph=False, transfers=True)}),
        ("cuda_graph", {"conditions": stated(tf32=False, cuda_graph=True, transfers=True)}),
        ("transfers", {"conditions": stated(tf32=False, cuda_graph=False, transfers=False)}),
        ("host", {"environment": environment(host="elsewhere", machine="ci-t4", gpus=(GPU,))}),
        (
            "gpu_power_limit_w",
            {"environment": environment(gpus=(GPU.having(power_limit_w=400.0),))},
        ),
        (
            "clock",
            {"environment": environment(gpus=(GPU.having(sm_clock_hz=1.5e9),))},
        ),
    ],
)
def test_what_blocks_a_ratio(key: str, changes: dict[str, object]) -> None:
    common = {
        "environment": environment(gpus=(GPU,)),
        "conditions": stated(tf32=False, cuda_graph=False, transfers=True),
    }
    baseline, candidate = record(**common), record(**{**common, **changes})
    found = differences(baseline, candidate)
    assert [each.key for each in found if each.blocking] == [key]
    assert blocking_reasons(found, metric="host") is not None
    refuse_unknown_keys([each.key for each in found])
    accepted = differences(baseline, candidate, accept=[key])
    assert blocking_reasons(accepted, metric="host") is None
    times = IterationTimes(host=np.ones(50))
    sides = [run(times, **common), run(times, **{**common, **changes})]
    verdict = compare_apart(*sides).verdict("host")
    assert verdict.kind == "incomparable"
    assert verdict.ratio is None


def test_alike_runs_may_be_compared() -> None:
    assert differences(record(), record()) == ()


def test_other_versions_are_one_difference_and_other_conditions_are_shown() -> None:
    one = record(environment=environment(versions={"numpy": "1", "torch": "2", "onnx": "3"}))
    other = record(environment=environment(versions={"numpy": "2", "torch": "3", "onnx": "3"}))
    (found,) = differences(one, other)
    assert not found.blocking
    assert found.message == "other versions: numpy 1 against 2, torch 2 against 3"
    (found,) = differences(
        record(conditions=stated(precision="fp32")), record(conditions=stated(precision="fp16"))
    )
    assert (found.message, found.blocking) == ("precision fp32 against fp16", False)


def test_unknown_conditions_are_named_and_do_not_block() -> None:
    unknown = record(conditions={"tf32": Fact(value=None, source="unknown")})
    found = differences(record(conditions=stated(tf32=True)), unknown)
    assert [(each.key, each.blocking) for each in found] == [("tf32", False)]


def test_implied_conditions_say_so() -> None:
    implied = record(conditions={"cuda_graph": Fact(value=True, source="implied")})
    (found,) = differences(record(conditions=stated(cuda_graph=False)), implied)
    assert found.blocking
    assert "implies" in found.message


def test_transfers_do_not_block_gpu_times() -> None:
    found = differences(
        record(conditions=stated(transfers=True)), record(conditions=stated(transfers=False))
    )
    assert blocking_reasons(found, metric="gpu") is None
    assert blocking_reasons(found, metric="host") is not None


def test_an_interval_that_says_nothing_is_unknown() -> None:
    verdict = verdict_from_effects([-1.9, 0.2], metric="throughput", better="high")
    assert verdict.kind == "unclear"
    assert verdict.interval is None
    assert verdict.ratio == pytest.approx(math.exp(-0.85))
    assert verdict.launches_needed is not None
    shown = [cell.shown for cell in verdict_cells(verdict)]
    assert shown[-1] == "–"
    (said,) = reasons([verdict])
    assert "2 launches differ too much" in said.text
    assert "would tell" in said.text


def test_a_far_interval_that_decides_is_shown() -> None:
    clear = verdict_from_effects([9.0, 9.02, 8.98, 9.01, 8.99], metric="host")
    assert clear.kind == "slower"
    assert clear.interval is not None
