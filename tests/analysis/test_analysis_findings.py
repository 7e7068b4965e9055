"""Every rule of the checklist: cases that must fire, with their severity, and others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis_values import GPU, ar1, environment, launches_of, record, run, spec, stated
from trtbench.analysis.findings import (
    RULES,
    Evidence,
    evidence_from_run,
    findings_from_evidence,
    findings_from_run,
    rule_table,
    rules,
)
from trtbench.analysis.findings.evidence import Batches, PairFacts
from trtbench.analysis.summary import modes
from trtbench.analysis.verdict import verdict_from_effects
from trtbench.compare.compare import comparison_from_runs
from trtbench.core import samples
from trtbench.core.results import Comparison, Unreadable, Verdict
from trtbench.core.run import Fact, Finding, LaunchFacts, Run
from trtbench.core.spec import InputSpec
from trtbench.report.sections.summary import finding_names
from trtbench.report.sections.verdicts import with_cycle_verdicts

Found = tuple[Finding, ...]
REPOSITORY = Path(__file__).resolve().parents[2]
HERE = {"conditions": stated(cuda_graph=True, transfers=True, tf32=True)}
ON_GPU = {"environment": environment(gpus=(GPU,))}
LAUNCHED = (LaunchFacts(wall_s=1.0, steady=True),)
ORDER = (0.020, 0.021, 0.019, 0.020, 0.022, 0.018, 0.020, 0.021)
NO_ORDER = (0.020, -0.021, 0.019, -0.020, 0.022, -0.018, 0.020, -0.021)
CLEAR = verdict_from_effects([0.1 + 0.001 * (-1) ** k for k in range(10)])
NOISY = verdict_from_effects([0.5 * (-1) ** k for k in range(10)])


def measured(times: samples.IterationTimes | None = None, **changes: Any) -> Evidence:
    """The evidence of a run with these times, steady host times by default."""
    return evidence_from_run(run(times or samples.IterationTimes(host=series()), **changes))


def series(n: int = 600, *, seed: int = 0, of: float = 1e-3, sd: float = 0.005) -> samples.Column:
    return of * ar1(np.random.default_rng(seed), n, sd=sd)


def spans(**medians: float) -> Evidence:
    """A run on a GPU whose columns have these medians, in milliseconds."""
    columns = {name: 1e-3 * value * series(of=1, sd=0.002) for name, value in medians.items()}
    return measured(samples.IterationTimes(**columns), **ON_GPU)


def batches(last_ms: float) -> Found:
    points = ((1, 6e-3, 2e12), (256, last_ms * 1e-3, None))
    return rules.missing_sync.findings(Batches(points, peak=2e15))


def correlated(phi: float) -> Evidence:
    return measured(
        samples.IterationTimes(host=1e-3 * ar1(np.random.default_rng(8), 3000, phi=phi))
    )


def told(record_changes: dict[str, Any] | None = None, **fields: Any) -> Evidence:
    """Evidence without samples."""
    without = run(samples.IterationTimes(), **{"launches": LAUNCHED, **(record_changes or {})})
    return replace(evidence_from_run(without), **fields)


def facts(**known: Any) -> Evidence:
    return told({"facts": known})


def pair(
    baseline: dict[str, Any] | None = None, candidate: dict[str, Any] | None = None, **fields: Any
) -> PairFacts:
    """The evidence of a comparison of two records."""
    sides = record(**(baseline or {})), record(**(candidate or {}))
    return PairFacts(baseline=sides[0], candidate=sides[1], **fields)


def compared(effects: int = 10) -> Comparison:
    same = Verdict(metric="host", kind="same", ratio=1, interval=None, reason="", launches=effects)
    return Comparison(
        baseline="a", candidate="b", design="duet", verdicts=(same,), effects=(0.0,) * effects
    )


def disturbed(baseline: float, candidate: float, alone: Verdict) -> PairFacts:
    """Sides that taking turns slowed down, and what the times alone say."""
    found = Comparison(baseline="a", candidate="b", design="duet", verdicts=(CLEAR,), alone=alone)
    moved = {"baseline": baseline, "candidate": candidate}
    return pair(comparison=found, interference=moved)


def looks(*clocks_mhz: float, reasons: int = 0) -> tuple[samples.TelemetrySample, ...]:
    return tuple(
        samples.TelemetrySample(at_s=0.1 * i, sm_clock_hz=clock * 1e6, event_reasons=reasons)
        for i, clock in enumerate(clocks_mhz)
    )


def gpu_told(*clocks_mhz: float, reasons: int = 0, **extra: Any) -> Evidence:
    here = environment(gpus=(GPU,), extra=extra)
    return told({"environment": here}, telemetry=looks(*clocks_mhz or (1980,), reasons=reasons))


def launched(**known: Any) -> Evidence:
    return told({"launches": (LaunchFacts(wall_s=1.0, **known),)})


def machine(**changes: Any) -> Evidence:
    return told({"environment": environment(**changes)})


def changed(places: Any, by: float, *, seed: int = 2, n: int = 1000) -> Evidence:
    """A run of which some times are so many times as long."""
    host = series(n, seed=seed)
    host[places] *= by
    return measured(samples.IterationTimes(host=host, start=np.cumsum(host)))


def steps(step_s: float) -> Evidence:
    """Times of about 100 µs from a clock that moves in such steps."""
    return measured(samples.IterationTimes(gpu=np.round(series(seed=1, of=1e-4) / step_s) * step_s))


def two_kinds(distance: float) -> Evidence:
    random = np.random.default_rng(3)
    host = 1e-3 * ar1(random, 1000, sd=0.004) * np.where(random.random(1000) < 0.3, distance, 1.0)
    return measured(samples.IterationTimes(host=host))


def layered(total_ms: float) -> Evidence:
    layer = samples.LayerTime(name="conv", total_s=total_ms * 1e-3, average_s=total_ms * 1e-3)
    profile = samples.LayerProfile(count=10, layers=(layer,))
    return replace(spans(host=1.3, gpu=1.0), layers=profile)


def typed(dtype: str) -> Evidence:
    layer = samples.LayerInfo(name="conv", inputs=(samples.TensorInfo(name="x", dtype=dtype),))
    return told({"spec": spec(precision="fp16")}, graph=samples.EngineGraph(layers=(layer,) * 4))


def unlocked(spread: float) -> Evidence:
    here = environment(gpus=(GPU.having(clocks_locked=False),))
    return measured(samples.IterationTimes(gpu=series(seed=6, sd=spread)), environment=here)


def worked(flops: float) -> Evidence:
    """A run of 1 ms on a GPU whose data sheet says about 2 PFLOP/s."""
    return measured(samples.IterationTimes(gpu=series(sd=0.002)), facts={"flops": flops}, **ON_GPU)


def clock_floor(floor_s: float) -> Evidence:
    return measured(launches=(LaunchFacts(steady=True, timer_floor_s=floor_s),))


def of_launches(count: int, *, n: int = 100) -> Evidence:
    random = np.random.default_rng(7)
    return measured(launches_of([1e-3 * ar1(random, n, sd=0.005) for _ in range(count)]))


def imported(versions: dict[str, str], fact: Fact) -> Evidence:
    here = environment(versions=versions)
    return told({"provenance": "imported", "environment": here, "conditions": {"tf32": fact}})


def left_out(count: int) -> Found:
    lost = (Unreadable(place=0, name="1.png", reason="cut off"),) * count
    return rules.items_left_out.findings("a.onnx", lost, 9)


def prepared(normalize: str) -> Found:
    judged = {"task": "classification", "fit": "crop", "normalize": "imagenet"}
    return rules.prepared_alike.findings("m", {**judged, "normalize": normalize}, judged)


TF32 = ({"conditions": stated(tf32=True)}, {"conditions": stated(tf32=False)})
GRAPHS = ({"conditions": stated(cuda_graph=True)}, {"conditions": stated(cuda_graph=False)})
NO_GRAPH = {"spec": spec(cuda_graph="on"), "conditions": stated(cuda_graph=False)}
OTHER_HOST = {"environment": environment(host="b", machine="b")}
OTHER_VERSION = {"environment": environment(versions={"onnxruntime": "2"})}
ENERGY = {"energy_window_s": 20.0, "energy_update_s": 0.1, "energy_counter_j": 100}

CASES: list[tuple[str, str | None, Callable[[], Evidence | PairFacts | Found]]] = [
    ("H01", "error", lambda: worked(1e13)),
    ("H01", None, lambda: worked(5e11)),
    ("H02", "error", lambda: spans(host=0.5, gpu=1.0)),
    ("H02", None, lambda: spans(host=1.1, gpu=1.0)),
    ("H02", "error", lambda: spans(host=1.5, gpu=1.0, h2d=0.4, d2h=0.4)),
    ("H03", "error", lambda: facts(outputs_finite=False)),
    ("H03", "error", lambda: facts(outputs_vary=False)),
    ("H03", "warning", lambda: facts(graph_outputs_differ=True)),
    ("H03", None, lambda: facts(outputs_finite=True, outputs_vary=True)),
    ("H04", "warning", lambda: launched(violations_s={"power": 0.05})),
    ("H04", "error", lambda: launched(violations_s={"thermal": 0.2})),
    ("H04", None, lambda: launched(violations_s={"power": 0.001, "low_utilization": 0.9})),
    ("H04", "warning", lambda: gpu_told(1980, 1980, reasons=0x40)),
    ("H04", None, lambda: gpu_told(1980, 1980, reasons=0x1)),
    ("H05", "note", lambda: gpu_told(1980, 1930)),
    ("H05", "warning", lambda: gpu_told(1980, 1800)),
    ("H05", "error", lambda: gpu_told(1300, 1300)),
    ("H05", None, lambda: gpu_told(1980, 1975)),
    ("H05", "warning", lambda: facts(sm_clock_drop=0.3)),
    ("H06", "warning", lambda: pair(baseline_clock_hz=1.98e9, candidate_clock_hz=1.9e9)),
    ("H06", None, lambda: pair(baseline_clock_hz=1.98e9, candidate_clock_hz=1.975e9)),
    ("H06", "warning", lambda: pair(in_time="slower", in_cycles="same")),
    ("H07", "note", lambda: unlocked(0.05)),
    ("H07", None, lambda: unlocked(0.01)),
    ("H08", "warning", lambda: gpu_told(gpu0_processes=2)),
    ("H08", None, lambda: gpu_told(gpu0_processes=0)),
    ("H09", "warning", lambda: launched(involuntary_switches=50)),
    ("H09", None, lambda: launched(involuntary_switches=3)),
    ("H09", None, lambda: launched()),
    ("H09", "warning", lambda: machine(load_before=(9.0, 1, 1))),
    ("H10", "note", lambda: machine(cpu_governor="powersave")),
    ("H10", None, lambda: told()),
    ("H10", "note", lambda: machine(virtual_machine=True)),
    ("H09", "warning", lambda: machine(extra={"throttled_s": 0.5})),
    ("H12", "warning", lambda: steps(1e-6)),
    ("H12", None, lambda: steps(1e-8)),
    ("H12", "warning", lambda: clock_floor(1e-4)),
    ("H12", None, lambda: clock_floor(1e-7)),
    ("H13", "warning", lambda: of_launches(2)),
    ("H13", None, lambda: of_launches(8, n=800)),
    ("H13", "warning", lambda: pair(comparison=compared(effects=4))),
    ("H14", "warning", lambda: measured()),
    ("H14", None, lambda: of_launches(5)),
    ("H15", "warning", lambda: changed(slice(300, None), 1.1)),
    ("H15", None, lambda: changed(slice(300, None), 1.0)),
    ("H15", "warning", lambda: told({"launches": (LaunchFacts(steady=False),)})),
    ("H17", "warning", lambda: two_kinds(1.1)),
    ("H17", None, lambda: two_kinds(1.0)),
    ("H18", "note", lambda: changed([100, 500], 8.0, seed=4)),
    ("H18", None, lambda: changed([100, 500], 1.2, seed=4)),
    ("H20", "warning", lambda: spans(host=1.2, gpu=1.0, enqueue=0.9)),
    ("H20", None, lambda: spans(host=1.1, gpu=1.0, enqueue=0.1)),
    ("H20", None, lambda: spans(host=1.0, gpu=1.0, enqueue=0.9)),  # the GPU is never idle
    ("H21", "warning", lambda: spans(host=3.2, gpu=1.0, h2d=1.5, d2h=0.5)),
    ("H21", "note", lambda: spans(host=2.0, gpu=1.0, h2d=0.8, d2h=0.1)),
    ("H21", None, lambda: spans(host=1.3, gpu=1.0, h2d=0.1, d2h=0.1)),
    ("H02", "warning", lambda: batches(6.1)),
    ("H02", None, lambda: batches(1020.0)),
    ("H19", "note", lambda: correlated(0.95)),
    ("H19", None, lambda: correlated(0.3)),
    ("H22", "note", lambda: layered(0.92)),
    ("H22", "warning", lambda: layered(1.3)),
    ("H22", None, lambda: layered(1.02)),
    ("H24", "error", lambda: pair(*GRAPHS)),
    ("H24", None, lambda: pair(HERE, HERE)),
    ("H24", "error", lambda: told(NO_GRAPH)),
    ("H25", "error", lambda: pair(None, {"conditions": stated(batch=8)})),
    ("H25", None, lambda: pair()),
    ("H26", "warning", lambda: typed("fp32")),
    ("H26", None, lambda: typed("fp16")),
    ("H27", "error", lambda: pair(*TF32)),
    ("H27", "note", lambda: pair(*TF32, accept=("tf32",))),
    ("H27", "note", lambda: pair(HERE)),
    ("H27", None, lambda: pair(HERE, HERE)),
    ("H28", "error", lambda: pair(None, OTHER_HOST)),
    ("H28", "note", lambda: pair(None, OTHER_VERSION)),
    ("H28", None, lambda: pair()),
    ("H29", "warning", lambda: facts(fallback_nodes=3)),
    ("H29", None, lambda: facts(fallback_nodes=0)),
    ("H30", "note", lambda: told({"spec": spec(inputs=InputSpec())})),
    ("H30", None, lambda: told()),
    ("H31", "warning", lambda: told({"spec": spec(threads=16)})),
    ("H31", "warning", lambda: pair({"spec": spec(threads=1)}, {"spec": spec(threads=2)})),
    ("H28", None, lambda: pair({"spec": spec(threads=1)}, {"spec": spec(threads=2)})),
    ("H31", None, lambda: told({"spec": spec(threads=2)})),
    ("H32", "warning", lambda: pair(interference={"candidate": 1.35})),
    ("H32", None, lambda: pair(interference={"candidate": 1.01})),
    ("H32", None, lambda: disturbed(1.30, 1.31, CLEAR)),  # both alike: the ratio is not touched
    ("H32", "warning", lambda: disturbed(1.05, 1.30, CLEAR)),
    ("H32", "warning", lambda: disturbed(1.70, 1.71, CLEAR)),
    ("H32", None, lambda: disturbed(0.4, 2.5, NOISY)),  # times alone that say nothing
    ("H33", "warning", lambda: pair(position_effects=ORDER)),
    ("H33", None, lambda: pair(position_effects=NO_ORDER)),
    ("H34", "note", lambda: rules.many_comparisons.findings(3)),
    ("H34", None, lambda: rules.many_comparisons.findings(1)),
    ("H36", "note", lambda: told()),
    ("H36", None, lambda: told({"spec": spec(protocol="server", rate_hz=100.0)})),
    ("H36", "warning", lambda: facts(offered_hz=1, achieved_hz=1, late_share=0.05)),
    ("H37", "error", lambda: facts(offered_hz=100, achieved_hz=80)),
    ("H37", None, lambda: facts(offered_hz=100, achieved_hz=99.9)),
    ("H38", "warning", lambda: facts(energy_window_s=3.0, energy_update_s=0.1)),
    ("H38", "warning", lambda: facts(**ENERGY, energy_integral_j=110)),
    ("H38", None, lambda: facts(**ENERGY, energy_integral_j=101)),
    ("H41", "warning", lambda: changed(slice(0, 6), 3.0, seed=5, n=600)),
    ("H41", None, lambda: changed(slice(0, 6), 1.05, seed=5, n=600)),
    ("H43", "warning", lambda: rules.less_accurate.findings("top1", 0.01, 0.02)),
    ("H43", None, lambda: rules.less_accurate.findings("top1", -0.01, 0.02)),
    ("H44", "warning", lambda: imported({}, Fact(value=None, source="unknown"))),
    ("H44", None, lambda: imported({"tensorrt": "10.9"}, Fact(value=True))),
    ("H45", "note", lambda: pair(None, {"created": "2026-02-01T12:00:00+00:00"})),
    ("H45", None, lambda: pair()),
    ("H46", "warning", lambda: told({"spec": spec(batch=8)})),
    ("H46", None, lambda: told({"spec": spec(batch=1)})),
    ("H47", "warning", lambda: facts(**{"trtexec_warned.unstable": "a; trtexec: b"})),
    (
        "H47",
        None,
        lambda: told(
            {
                "facts": {"trtexec_warned.enqueue-bound": "a; trtexec: b"},
                "reported": {"throughput_qps": 24.56, "gpu_compute_time_median_ms": 39.998},
            }
        ),
    ),
    ("H48", "error", lambda: prepared("none")),
    ("H48", None, lambda: prepared("imagenet")),
    ("H49", "warning", lambda: rules.crashed_builder.findings("ended by SIGSEGV")),
    ("H49", None, lambda: told()),
    ("H50", "warning", lambda: left_out(2)),
    ("H50", None, lambda: left_out(0)),
    ("H51", "warning", lambda: machine(extra={"variables": "DNNL_MAX_CPU_ISA=AVX2"})),
    ("H51", None, lambda: machine(extra={"variables": "CUDNN_HOME=/opt"})),
]


def severity(evidence: Evidence | PairFacts, code: str) -> str | None:
    return next((f.severity for f in findings_from_evidence(evidence) if f.code == code), None)


@pytest.mark.parametrize(("code", "expected", "make"), CASES)
def test_rule(code: str, expected: str | None, make: Callable[[], Evidence | PairFacts | Found]):
    made = make()
    every = made if isinstance(made, tuple) else findings_from_evidence(made)
    found = [each for each in every if each.code == code]
    assert [each.severity for each in found][:1] == ([expected] if expected else [])
    assert all(each.evidence and each.remedy and each.message for each in found)
    assert code != "H41" or not any("CUDA" in str(each.remedy) for each in found), "on a CPU"


def test_modes_and_changes_of_gpu_time_are_told_beside_it() -> None:
    """It stands first: of an H200 135 and 197 us, where host time hid that."""
    gpu = series(of=135e-6, sd=0.002) * np.repeat([1.0, 197 / 135], 300)
    for host, concerned in ((series(), ["gpu"]), (gpu + 60e-6, ["gpu", "host"])):
        found = measured(samples.IterationTimes(gpu=gpu, host=host), **ON_GPU)
        told = [each for each in findings_from_evidence(found) if each.code in ("H15", "H17")]
        assert [each.concerns for each in told] == 2 * concerned
        first = finding_names(told, beside="host").partition(";")[0]
        assert first == "not stationary, two modes"


def test_the_checklist_is_complete() -> None:
    dropped = {11, 16, 23, 35, 39, 40, 42}  # see docs/findings.md
    kept = [f"H{n:02}" for n in range(1, 52) if n not in dropped]
    assert [rule.code for rule in RULES if rule.part("Means")] == kept
    for fires in (True, False):
        assert {code for code, expected, _ in CASES if bool(expected) is fires} == {*kept}
    assert rule_table() in (REPOSITORY / "docs" / "findings.md").read_text(encoding="utf-8")


def test_nothing_is_said_about_nothing() -> None:
    bare = run(samples.IterationTimes(), launches=(), inputs=())
    assert {f.code for f in findings_from_run(bare)} <= {"H10", "H30", "H36"}


def test_two_spinning_pools_in_one_process_are_found_by_what_the_runtime_records() -> None:
    spins = {"conditions": stated(spinning="on")}
    rests = {"conditions": stated(spinning="off")}
    one = {**spins, "spec": spec(threads=1)}
    assert severity(pair(spins, spins, one_process=True), "H31")
    assert not severity(pair(spins, spins), "H31")
    assert not severity(pair(spins, rests, one_process=True), "H31")
    assert not severity(pair(one, one, one_process=True), "H31")


def test_findings_look_at_the_gpu_that_ran() -> None:
    other = GPU.having(name="NVIDIA T4", uuid="GPU-2", l2_bytes=4 * 2**20)
    here = environment(gpus=(GPU, other), extra={"gpu0_processes": 3, "gpu1_processes": 0})
    busy = {"environment": here, "spec": spec(device="cuda:0")}
    quiet = {"environment": here, "spec": spec(device="cuda:1")}
    assert severity(told(busy, telemetry=looks(1980)), "H08")
    assert not severity(told(quiet, telemetry=looks(1980)), "H08")
    # CUDA_VISIBLE_DEVICES may give another GPU the number 0: what was seen by NVML counts.
    renumbered = told({**busy, "facts": {"gpu_index": 1}}, telemetry=looks(1980))
    assert not severity(renumbered, "H08")
    assert renumbered.gpu == other


@pytest.mark.parametrize(
    "draw",
    [
        lambda r: r.normal(1, 0.02, 1000),
        lambda r: r.lognormal(0, 0.1, 1000),
        lambda r: 1 + r.exponential(0.05, 1000),
        lambda r: r.uniform(0.9, 1.1, 1000),
        lambda r: 1 + r.gamma(2, 0.02, 1000),
    ],
)
def test_one_mode_is_never_taken_for_two(draw: Callable[[np.random.Generator], samples.Column]):
    random = np.random.default_rng(9)
    for _ in range(50):
        split = modes(draw(random))
        assert not (split.separation > 4 and split.minor_share >= 0.05 and split.gap > 0.01)


def at_clock(factor: float, clock_hz: float | None, *, in_bursts: bool = False) -> Run:
    """Six launches of GPU time, and the clock before and after, or after bursts of two of them."""
    gpu = 1e-4 * factor * np.exp(np.random.default_rng(3).normal(scale=1e-4, size=600))
    times = samples.IterationTimes(gpu=gpu, host=gpu + 2e-5, launch=np.repeat(np.arange(6), 100))
    if in_bursts:
        seen = (LaunchFacts(burst_clock_hz=clock_hz),) * 2 + (LaunchFacts(),) * 4
        return run(times, launches=seen)
    names = ("sm_clock_before_hz", "sm_clock_after_hz")
    return run(times, facts={} if clock_hz is None else dict.fromkeys(names, clock_hz))


@pytest.mark.parametrize("in_bursts", [False, True])
def test_a_slower_clock_explains_a_slower_engine(in_bursts: bool) -> None:
    sides = (at_clock(k, 1.98e9 / k, in_bursts=in_bursts) for k in (1.0, 2.0))
    found = comparison_from_runs(*sides)
    assert [each.metric for each in with_cycle_verdicts(found.verdicts)].count("gpu, cycles") == 1
    verdict = found.verdict("gpu")
    assert verdict.kind == "unclear"
    assert "in clock cycles it is unclear: the clocks differ" in verdict.reason
    messages = [each.message for each in found.findings if each.code == "H06"]
    assert "GPU time is slower in seconds, unclear in cycles: a clock effect" in messages


def test_clocks_that_are_the_same_unknown_or_as_near_as_ever_leave_the_verdict() -> None:
    """One launch a side is unclear by itself; counted in cycles it must not become a finding."""
    for clock_hz in (1.98e9, None):
        found = comparison_from_runs(at_clock(1.0, 1.98e9), at_clock(2.0, clock_hz))
        assert found.verdict("gpu").kind == "slower"
        assert not [each for each in found.findings if "clock effect" in each.message]
    single = [
        run(samples.IterationTimes(gpu=np.full(50, 1e-4), host=np.full(50, 1.2e-4)), facts=known)
        for known in ({"sm_clock_after_hz": 1.98e9}, {"sm_clock_after_hz": 1.975e9})
    ]
    found = comparison_from_runs(*single)
    assert found.verdict("gpu").kind == "unclear"
    assert "H06" not in [each.code for each in found.findings]
