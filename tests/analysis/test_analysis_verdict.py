"""Verdicts, their arithmetic, and what blocks them; the trust experiment; the spread of builds."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from analysis_values import GPU, duet, environment, launches_of, record, run, spec, stated
from trtbench.analysis.builds import (
    Draw,
    builds_needed,
    bytes_aspect,
    graph_aspects,
    latency_aspect,
    spread_from_draws,
    verdict_over_builds,
)
from trtbench.analysis.comparability import blocking_reasons, differences, refuse_unknown_keys
from trtbench.analysis.distributions import detectable_effect, difference, trimmed
from trtbench.analysis.gate import slowdown_result, slowdown_rule
from trtbench.analysis.stored_comparison import (
    COMPARISON_HEADER,
    compare_apart,
    comparison_rows,
    drift_from_history,
    drift_from_records,
)
from trtbench.analysis.summary import COMPARED_STATISTICS, summarize_column
from trtbench.analysis.verdict import (
    confirm_in_cycles,
    correct_for_many,
    duet_comparison,
    in_cycles,
    launches_hint,
    pair_effect,
    tail_verdict,
    verdict_from_effects,
)
from trtbench.core.results import Verdict
from trtbench.core.run import Fact, Interval, Run
from trtbench.core.samples import Column, EngineGraph, IterationTimes, LayerInfo
from trtbench.core.spec import TensorSpec
from trtbench.report.sections.verdicts import undecided_reasons, verdict_table

TEN = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.50]
COMPARISONS = 300


def effects(mean: float, noise: float = 0.001, count: int = 10) -> list[float]:
    return [mean + noise * (-1) ** k for k in range(count)]


def test_trimmed_mean_by_hand() -> None:
    estimate = trimmed(TEN)
    winsorised = [0.03] * 3 + [0.04, 0.05, 0.06, 0.07] + [0.08] * 3
    assert estimate.mean == pytest.approx(np.mean(TEN[2:8]))
    assert estimate.error == pytest.approx(np.std(winsorised, ddof=1) / (0.6 * math.sqrt(10)))
    assert estimate.df == 5
    half = stats.t.ppf(0.995, 5) * estimate.error
    assert estimate.interval() == pytest.approx((estimate.mean - half, estimate.mean + half))


def test_few_launches_are_not_trimmed_and_unpaired_ones_are_welchs() -> None:
    few = [0.1, 0.2, 0.3, 0.4]
    t, p = stats.ttest_1samp(few, 0.0)
    estimate = trimmed(few)
    assert (estimate.mean / estimate.error, estimate.p) == pytest.approx((t, p))
    before, after = [1.0, 1.1, 0.9, 1.05], [1.3, 1.2, 1.6, 1.5]
    welch = stats.ttest_ind(after, before, equal_var=False).pvalue
    assert difference(before, after).p == pytest.approx(welch)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ([0.03 + e for e in (-0.002, 0.0, 0.001, 0.002) * 3], "slower"),
        ([-0.03 + e for e in (-0.002, 0.0, 0.001, 0.002) * 3], "faster"),
        (effects(0.0), "same"),
        (effects(0.006, 0.0005), "same"),
        (effects(0.0, 0.05), "unclear"),
        ([0.04], "unclear"),
        ([], "unclear"),
    ],
)
def test_kinds(given: list[float], kind: str) -> None:
    assert verdict_from_effects(given).kind == kind
    other = {"slower": "faster", "faster": "slower"}.get(kind, kind)
    assert verdict_from_effects(given, metric="throughput").kind == other, "more is faster"


def test_unclear_says_how_many_launches_it_needs() -> None:
    verdict = verdict_from_effects(effects(0.0, 0.03))
    needed, interval = verdict.launches_needed, verdict.interval
    assert needed
    assert interval
    half = math.log(interval.high / interval.low) / 2
    spread = half / stats.t.ppf(0.995, df=10 - 2 * 2 - 1) * math.sqrt(10)

    def reach(count: int) -> float:
        df = count - 2 * int(0.2 * count) - 1
        return float(stats.t.ppf(0.995, df=df) * spread / math.sqrt(count))

    assert reach(needed) <= math.log(1.02) < reach(int(needed * 0.94)), "it would be the same"
    assert launches_hint(needed) == f"; about {needed} launches would decide it"
    assert launches_hint(None) == ""
    assert "too noisy" in launches_hint(364_472)


def test_launches_needed_aim_at_deciding_not_at_a_width() -> None:
    large = verdict_from_effects([2.6, 3.4])
    assert large.kind == "unclear"
    assert large.launches_needed in (3, 4), "an effect of 20 times needs no interval of ±1 %"
    small = verdict_from_effects(effects(0.015, 0.02))
    many = 2 * ((small.launches_needed or 0) // 2 + 1)
    assert small.kind == "unclear"
    assert verdict_from_effects(effects(0.015, 0.02, many)).kind == "slower"
    # A margin finer than what counts is not waited for.
    fine = verdict_from_effects(effects(0.008), margin=0.005)
    assert (fine.kind, fine.launches_needed) == ("unclear", None)


def test_a_gate_says_how_many_launches_would_leave_its_limit_out() -> None:
    result = slowdown_result(slowdown_rule(0.03), verdict_from_effects(effects(0.02, 0.02)))
    assert result.outcome == "unclear"
    many = 2 * ((result.launches_needed or 0) // 2 + 1)
    clearer = verdict_from_effects(effects(0.02, 0.02, many))
    assert slowdown_result(slowdown_rule(0.03), clearer).outcome == "pass"


def test_an_interval_that_says_nothing_is_unknown_and_a_far_one_that_decides_is_shown() -> None:
    verdict = verdict_from_effects([-1.9, 0.2], metric="throughput")
    assert (verdict.kind, verdict.interval) == ("unclear", None)
    assert verdict.ratio == pytest.approx(math.exp(-0.85))
    assert verdict.launches_needed is not None
    assert verdict_table([verdict]).rows[0][-1].shown == "–"
    (said,) = undecided_reasons([verdict])
    assert "2 launches differ too much" in said.text
    assert "would decide it" in said.text
    clear = verdict_from_effects([9.0, 9.02, 8.98, 9.01, 8.99])
    assert clear.kind == "slower"
    assert clear.interval is not None


def test_the_effect_of_a_launch_is_the_median_of_its_pairs() -> None:
    effect = pair_effect(np.array([1.0, 2, 4]), np.array([1.1, 2.0, 40]))
    assert effect == pytest.approx(math.log(1.1))


def test_a_clock_effect_is_withdrawn() -> None:
    verdict = verdict_from_effects(effects(0.05), metric="gpu")
    withdrawn = confirm_in_cycles(verdict.having(clock_ratio=math.exp(-0.05)))
    assert withdrawn.kind == "unclear"
    assert withdrawn.reason.endswith("in clock cycles it is same: the clocks differ")
    assert confirm_in_cycles(verdict.having(clock_ratio=1.0)).kind == "slower"


@pytest.mark.parametrize(
    ("effect", "noise", "kind"),
    [(0.007, 1e-4, "slower"), (0.003, 1e-4, "same"), (0.01, 4.5e-3, "unclear")],
)
def test_cycles_of_equal_clocks_say_what_seconds_say(effect: float, noise: float, kind: str):
    """Bursts call less a difference than other times do, and many looks demand more of it."""
    given = effects(effect, noise, 6)
    verdict = verdict_from_effects(given, metric="gpu", design="bursts")
    again = in_cycles(verdict.having(clock_ratio=1.0))
    assert (verdict.kind, again.kind) == (kind, kind)


def test_many_candidates_are_corrected_by_holms_rule() -> None:
    shaky = Verdict(
        metric="host", kind="slower", ratio=1.02, interval=None, reason="r", launches=10, p=0.008
    )
    corrected = correct_for_many([shaky, shaky.having(p=1e-6), shaky])
    assert [verdict.kind for verdict in corrected] == ["unclear", "slower", "unclear"]
    assert "3 comparisons" in corrected[0].reason
    found = correct_for_many([shaky.having(p=p) for p in (0.01, 0.04, 0.03)])
    assert [each.p for each in found] == pytest.approx([0.03, 0.06, 0.06])


def test_detectable_effect_shrinks_with_launches() -> None:
    drawn = np.random.default_rng(0).normal(scale=0.003, size=10)
    assert detectable_effect(drawn.tolist()) == pytest.approx(np.expm1(1.70 * drawn.std(ddof=1)))
    found = [detectable_effect([0.0, 1e-9] * half) or 0 for half in (3, 5, 6, 20, 80)]
    assert sorted(found, reverse=True) == found


def test_a_slower_tail_is_seen() -> None:
    pairs = duet(np.random.default_rng(3), launches=10, launch_sd=0.0)
    slow_tail = [(a, np.where(b > np.quantile(b, 0.85), b * 1.5, b)) for a, b in pairs]
    assert tail_verdict(slow_tail, 0.95).kind == "slower"
    assert tail_verdict(pairs[:3], 0.99).kind == "unclear"


def lone(random: np.random.Generator, *, stalls: float, drift: float) -> Column:
    """Times of one of two processes: bursts of stalls hit it alone, and it drifts by itself."""
    walk = np.cumsum(random.normal(scale=drift / 20, size=400)) + 0.004 * random.normal()
    times = np.exp(walk + 0.003 * random.standard_exponential(400))
    for begin in random.integers(400, size=random.poisson(stalls)):
        times[begin : begin + random.geometric(1 / 40)] *= 1 + 0.1 * random.standard_exponential()
    return times


@pytest.mark.parametrize(("stalls", "drift"), [(3.0, 0.01), (0.0, 0.03), (0.0, 0.0)])
def test_tails_of_two_equal_processes_never_differ(
    monkeypatch: pytest.MonkeyPatch, stalls: float, drift: float
) -> None:
    """Of 100 verdicts; by chance, as bounded, 2 of 1000 may. Drift made 4 of 50 false before."""
    monkeypatch.setattr("trtbench.analysis.verdict.REPEATS", 60)
    random = np.random.default_rng(2)
    found: Counter[str] = Counter()
    for _ in range(50):
        pairs = [
            (lone(random, stalls=stalls, drift=drift), lone(random, stalls=stalls, drift=drift))
            for _ in range(6)
        ]
        found.update(tail_verdict(pairs, q).kind for q in (0.9, 0.99))
    assert found["slower"] + found["faster"] == 0, found
    assert drift or found["same"] >= 80, "where nothing is wrong, that is said"


def test_a_percentile_that_a_side_does_not_know_is_no_change() -> None:
    """What the table of a run hides, its comparison does not show either."""
    random = np.random.default_rng(5)
    full = duet(random, launches=8, launch_sd=0.0)
    pairs = [(a[:20], b[:20] * np.where(random.random(20) < 0.02, 3.0, 1.0)) for a, b in full]
    shown = {each.q: each for each in summarize_column("host", [a for a, _ in pairs]).quantiles}
    assert (shown[0.99].value, shown[0.9].value is None) == (None, False)
    comparison = duet_comparison(pairs, baseline="a", candidate="b")
    tail = comparison.verdict("p99")
    assert (tail.kind, tail.ratio, tail.interval) == ("unclear", None, None)
    assert f"needs {shown[0.99].needed} samples" in tail.reason
    assert (tail.launches_needed or 0) > len(pairs)
    assert comparison.verdict("p90").ratio is not None
    assert duet_comparison(full, baseline="a", candidate="b").verdict("p99").ratio is not None
    assert tail_verdict([(a, b[:20]) for a, b in full], 0.99, design="launches").ratio is None


@pytest.mark.parametrize(
    ("effect", "seed", "kind"), [(0.0, 1, "same"), (0.02, 2, "slower"), (-0.02, 3, "faster")]
)
def test_two_per_cent_are_found_and_a_model_never_differs_from_itself(
    effect: float, seed: int, kind: str
) -> None:
    random = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    for _ in range(COMPARISONS):
        pairs = duet(random, effect=effect, n=100)
        found[verdict_from_effects([pair_effect(*pair) for pair in pairs]).kind] += 1
    assert found[kind] >= 0.95 * COMPARISONS
    assert sum(found[other] for other in {"slower", "faster"} - {kind}) == 0


def test_the_usual_way_would_have_been_fooled() -> None:
    random = np.random.default_rng(4)
    fooled = 0
    for _ in range(COMPARISONS):
        (a, _), (b, _) = duet(random, launches=2, n=100)
        fooled += stats.ttest_ind(a, b, equal_var=False).pvalue < 0.01
    assert fooled >= 0.5 * COMPARISONS


def test_intervals_hold_the_true_effect() -> None:
    random = np.random.default_rng(5)
    found: list[Interval | None] = []
    for _ in range(COMPARISONS):
        pairs = duet(random, effect=0.01, n=60)
        found.append(verdict_from_effects([pair_effect(*pair) for pair in pairs]).interval)
    held = [each for each in found if each and each.low <= 1.01 <= each.high]
    assert len(held) >= 0.97 * COMPARISONS
    assert math.isclose(held[0].level, 0.99)


def test_runs_apart_are_only_as_good_as_drift() -> None:
    random = np.random.default_rng(0)

    def measured(level: float, launches: int = 5) -> Run:
        return run(launches_of([level * (1 + 0.01 * random.random(50)) for _ in range(launches)]))

    base = measured(1.0)
    near = compare_apart(base, measured(1.2)).verdict("host")
    assert (near.kind, near.design) == ("unclear", "apart")
    assert "drift" in str(near.interval)
    assert compare_apart(base, measured(2.0)).verdict("host").kind == "slower"
    single = compare_apart(measured(1.0, 1), measured(1.0, 1)).verdict("host")
    assert single.kind == "unclear"
    assert "one launch" in single.reason
    history = drift_from_history([1.0, 1.001, 0.999, 1.0005, 0.9995, 1.0])
    assert history.bound < 0.01
    assert compare_apart(base, measured(1.2), drift=history).verdict("host").kind == "slower"
    assert compare_apart(base, measured(1.0), drift=history).verdict("host").kind == "same"
    assert drift_from_history([1.0, 1.1]) is None


def test_columns_with_equal_times_get_equal_verdicts() -> None:
    on_gpu = {"environment": environment(gpus=(GPU,))}
    graph, plain = (record(**on_gpu, conditions=stated(cuda_graph=x)) for x in (True, False))
    assert drift_from_records(graph, graph, metric="gpu").bound == 0.01
    assert drift_from_records(graph, plain, metric="gpu").bound == 0.30
    back, cold = (graph.having(spec=spec(protocol=x)) for x in ("gpu", "coldl2"))
    assert drift_from_records(graph, back, metric="gpu").bound == 0.06, "colder one by one"
    assert blocking_reasons(differences(back, cold), metric="gpu") is not None
    assert drift_from_records(record(), record(), metric="host").bound == 0.40

    def side(level: float, *, transfer: float = 0.0) -> Run:
        times, launch = np.full(50, level), np.repeat([0, 1], 25)
        columns = IterationTimes(latency=times + transfer, gpu=times, launch=launch)
        return Run(record=graph, times=columns)

    found = compare_apart(side(1.0), side(1.1))
    assert found.verdict("gpu").range.startswith("with an assumed drift: ")
    assert {found.verdict(name).kind for name in ("latency", "gpu")} == {"slower"}
    apart = compare_apart(side(1.0, transfer=0.2), side(1.1, transfer=0.2))
    assert apart.verdict("gpu").kind == "slower"
    assert apart.verdict("latency").kind == "unclear", "transfers drift as they do"


ALIKE = {
    "environment": environment(gpus=(GPU,)),
    "conditions": stated(tf32=False, cuda_graph=False, transfers=True),
}


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("inputs", {"inputs": (TensorSpec(name="x", dtype="float32", shape=(1, 3, 16, 16)),)}),
        ("batch", {"conditions": {**ALIKE["conditions"], **stated(batch=8)}}),
        ("protocol", {"spec": spec(protocol="pipeline")}),
        ("tf32", {"conditions": {**ALIKE["conditions"], **stated(tf32=True)}}),
        ("cuda_graph", {"conditions": {**ALIKE["conditions"], **stated(cuda_graph=True)}}),
        ("transfers", {"conditions": {**ALIKE["conditions"], **stated(transfers=False)}}),
        ("host", {"environment": environment(host="elsewhere", machine="ci-t4", gpus=(GPU,))}),
        ("gpu_power_limit_w", {"environment": environment(gpus=(GPU.having(power_limit_w=4e2),))}),
        ("clock", {"environment": environment(gpus=(GPU.having(sm_clock_hz=1.5e9),))}),
    ],
)
def test_what_blocks_a_ratio(key: str, changes: dict[str, object]) -> None:
    other = {**ALIKE, **changes}
    found = differences(record(**ALIKE), record(**other))
    assert [each.key for each in found if each.blocking] == [key]
    assert blocking_reasons(found, metric="host") is not None
    refuse_unknown_keys([each.key for each in found])
    accepted = differences(record(**ALIKE), record(**other), accept=[key])
    assert blocking_reasons(accepted, metric="host") is None
    times = IterationTimes(host=np.ones(50))
    verdict = compare_apart(run(times, **ALIKE), run(times, **other)).verdict("host")
    assert (verdict.kind, verdict.ratio) == ("incomparable", None)


def test_other_versions_are_one_difference_and_other_conditions_are_shown() -> None:
    assert differences(record(), record()) == ()
    one = record(environment=environment(versions={"numpy": "1", "torch": "2", "onnx": "3"}))
    other = record(environment=environment(versions={"numpy": "2", "torch": "3", "onnx": "3"}))
    (found,) = differences(one, other)
    assert not found.blocking
    assert found.message == "different versions: numpy 1 against 2, torch 2 against 3"
    sides = (record(conditions=stated(precision=name)) for name in ("fp32", "fp16"))
    (found,) = differences(*sides)
    assert (found.message, found.blocking) == ("precision fp32 against fp16", False)


def test_unknown_conditions_do_not_block_and_implied_ones_say_so() -> None:
    unknown = record(conditions={"tf32": Fact(value=None, source="unknown")})
    found = differences(record(conditions=stated(tf32=True)), unknown)
    assert [(each.key, each.blocking) for each in found] == [("tf32", False)]
    implied = record(conditions={"cuda_graph": Fact(value=True, source="implied")})
    (other,) = differences(record(conditions=stated(cuda_graph=False)), implied)
    assert other.blocking
    assert "implied" in other.message


def test_transfers_do_not_block_gpu_times() -> None:
    found = differences(*(record(conditions=stated(transfers=x)) for x in (True, False)))
    assert blocking_reasons(found, metric="gpu") is None
    assert blocking_reasons(found, metric="host") is not None


def test_rows_of_the_toolkits_comparison_in_their_order() -> None:
    times = IterationTimes(host=np.full(4, 0.002), gpu=np.full(4, 0.001))
    pt = run(times, spec=spec(precision="fp32"), conditions=stated(tf32=False))
    engine = run(
        IterationTimes(latency=np.full(4, 0.001), gpu=np.full(4, 0.0)),
        spec=spec(precision="fp16"),
        reported={"throughput_qps": 1000.0},
    )
    rows = comparison_rows(pt, engine)
    names = [row.metric for row in rows]
    assert names[:4] == ["dtype", "tf32", "throughput_qps", "total_host_walltime_s"]
    assert names[4:11] == [f"host_{name}" for name in COMPARED_STATISTICS]
    assert COMPARED_STATISTICS == ("min", "max", "mean", "median", "p90", "p95", "p99")
    assert len(rows) == 4 + 4 * 7
    cells = {row.metric: row.cells() for row in rows}
    assert cells["tf32"] == ("tf32", "Off", "Unknown", "", "", "")
    assert cells["dtype"][:3] == ("dtype", "fp32", "fp16"), "as they are labelled"
    assert cells["throughput_qps"][1:5] == ("500.000000", "1000.000000", "500.000000", "2.000000")
    assert cells["host_median"][1:5] == ("2.000000", "1.000000", "-1.000000", "0.500000")
    assert cells["h2d_p99"] == ("h2d_p99", "", "", "", "", "")
    assert cells["host_median"][5] == "host time against latency"
    assert len(COMPARISON_HEADER) == len(cells["dtype"])
    thrice = IterationTimes(host=np.full(12, 0.002), launch=np.repeat([0, 1, 2], 4))
    several = {
        row.metric: row for row in comparison_rows(pt, run(thrice, spec=spec(precision="tf32")))
    }
    assert several["total_host_walltime_s"].engine_over_pt_ratio == 1
    assert several["tf32"].engine == "On"
    back = {row.metric: row.cells() for row in comparison_rows(engine, pt)}
    assert back["gpu_min"] == ("gpu_min", "0.000000", "1.000000", "1.000000", "", "")


Rng = np.random.Generator


def draws(
    rng: Rng, *, count: int, between: float, within: float, launches: int = 3, scale: float = 1.0
) -> list[Draw]:
    found = []
    for number in range(count):
        own = rng.normal(0, between)
        logs = math.log(scale * 1e-3) + own + rng.normal(0, within, launches)
        found.append(draw(f"{number + 1}", tuple(np.exp(logs).tolist())))
    return found


def draw(label: str, launches_s: tuple[float, ...], sha256: str = "") -> Draw:
    return Draw(
        label=label, engine=f"{label}.engine", sha256=sha256 or label, size_bytes=1, build_s=1.0,
        launches_s=launches_s,
    )  # fmt: skip


def graph(**tactics: str | None) -> EngineGraph:
    return EngineGraph(
        layers=tuple(LayerInfo(name=name, type="conv", tactic=t) for name, t in tactics.items())
    )


def test_variance_between_builds_is_told_from_that_of_launches() -> None:
    rng = np.random.default_rng(0)
    many = [spread_from_draws(draws(rng, count=8, between=0.05, within=0.01)) for _ in range(60)]
    squares = [each.between**2 for each in many if each is not None]
    inside = [each.within**2 for each in many if each is not None]
    assert math.sqrt(np.mean(squares)) == pytest.approx(0.05, rel=0.15)
    assert math.sqrt(np.mean(inside)) == pytest.approx(0.01, rel=0.15)


def test_equal_builds_look_different_as_seldom_as_the_level_says() -> None:
    rng = np.random.default_rng(1)
    found = [spread_from_draws(draws(rng, count=5, between=0.0, within=0.03)) for _ in range(600)]
    ps = np.array([each.p for each in found if each is not None], dtype=float)
    assert abs((ps < 0.1).mean() - 0.1) < 0.04
    assert sum(latency_aspect(each).same is False for each in found if each) < 0.03 * len(found)


def test_builds_that_spread_are_called_different() -> None:
    spread = spread_from_draws(draws(np.random.default_rng(2), count=5, between=0.06, within=0.001))
    assert latency_aspect(spread).same is False
    assert spread.p is not None
    assert spread.p < 0.001


@pytest.mark.parametrize("claim", [0.02, 0.05])
def test_so_many_builds_find_the_claim_and_fewer_do_not(claim: float) -> None:
    rng, spread = np.random.default_rng(3), 0.02
    needed = builds_needed(claim, spread)

    def found(builds: int) -> float:
        verdicts = [
            verdict_over_builds(
                draws(rng, count=builds, between=spread, within=0.0, launches=1),
                draws(rng, count=builds, between=spread, within=0.0, launches=1, scale=1 + claim),
                metric="gpu",
            ).kind
            for _ in range(300)
        ]
        return verdicts.count("slower") / len(verdicts)

    assert found(needed) > 0.7
    if needed > 4:
        assert found(needed // 2) < 0.7


def test_two_draws_of_one_network_are_not_called_different() -> None:
    rng = np.random.default_rng(4)
    kinds = [
        verdict_over_builds(
            *(draws(rng, count=3, between=0.06, within=0.001) for _ in range(2)), metric="gpu"
        ).kind
        for _ in range(500)
    ]
    assert kinds.count("slower") + kinds.count("faster") <= 15


def test_pairs_with_one_timing_cache_find_what_single_draws_hide() -> None:
    rng = np.random.default_rng(5)
    luck = rng.normal(0, 0.06, 5)
    noise = rng.normal(0, 0.001, (2, 5))
    first = [draw(f"A{i}", (1e-3 * math.exp(luck[i] + noise[0, i]),)) for i in range(5)]
    second = [draw(f"B{i}", (1.022e-3 * math.exp(luck[i] + noise[1, i]),)) for i in range(5)]
    assert verdict_over_builds(first, second, metric="gpu", paired=True).kind == "slower"
    assert verdict_over_builds(first, second, metric="gpu").kind == "unclear"


def test_one_build_of_each_is_no_comparison() -> None:
    one = [draw("A1", (1e-3,))]
    assert verdict_over_builds(one, one, metric="gpu", paired=True).kind == "incomparable"
    assert verdict_over_builds(one, one, metric="gpu").kind == "incomparable"
    assert spread_from_draws(one) is None


def test_bytes_layers_and_kernels_are_told_apart() -> None:
    assert bytes_aspect([draw("1", (), "x"), draw("2", (), "x")]).same is True
    assert bytes_aspect([draw("1", (), "x"), draw("2", (), "y")]).same is False
    layers, kernels = graph_aspects([graph(a="0x1", b="0x2"), graph(a="0x1", b="0x3")])
    assert (layers.same, kernels.same) == (True, False)
    assert "1 of 2 layers, such as b" in kernels.text
    layers, _ = graph_aspects([graph(a="0x1"), graph(a="0x1", c="0x1")])
    assert layers.same is False
    layers, kernels = graph_aspects([graph(a="0x1"), None])
    assert (layers.same, kernels.same) == (None, None)
    _, kernels = graph_aspects([graph(a=None), graph(a=None)])
    assert kernels.same is None
