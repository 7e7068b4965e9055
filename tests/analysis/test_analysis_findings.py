"""Every rule of the checklist: a case that must fire and one that must not."""

from __future__ import annotations

from collections.abc import Callable
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
)
from trtbench.analysis.findings.evidence import (
    AccuracyFacts,
    BatchPoint,
    EnergyFacts,
    LoadFacts,
    OutputFacts,
    PairFacts,
    Peaks,
    PreparationFacts,
    UnreadableFacts,
    Work,
)
from trtbench.analysis.modes import modes, worst
from trtbench.analysis.summary import summarize
from trtbench.domain.comparison import Comparison, Verdict
from trtbench.domain.result import Fact, LaunchFacts, RunRecord
from trtbench.domain.samples import (
    Column,
    EngineGraph,
    IterationTimes,
    LayerInfo,
    LayerProfile,
    LayerTime,
    TelemetrySample,
    TensorInfo,
)
from trtbench.domain.spec import InputSpec

REPOSITORY = Path(__file__).resolve().parents[2]


def test_two_spinning_pools_in_one_process_are_found_by_what_the_runtime_records() -> None:
    spins = {"conditions": stated(spinning="on")}
    assert "H31" in codes(pair(spins, spins, one_process=True))
    assert "H31" not in codes(pair(spins, spins))
    assert "H31" not in codes(pair(spins, {"conditions": stated(spinning="off")}, one_process=True))
    one = {**spins, "spec": spec(threads=1)}
    assert "H31" not in codes(pair(one, one, one_process=True))


def test_findings_look_at_the_gpu_that_ran() -> None:
    other = GPU.having(name="NVIDIA T4", uuid="GPU-2", l2_bytes=4 * 2**20)
    here = environment(gpus=(GPU, other), extra={"gpu0_processes": 3, "gpu1_processes": 0})
    busy = {"environment": here, "spec": spec(device="cuda:0")}
    quiet = {"environment": here, "spec": spec(device="cuda:1")}
    assert "H08" in codes(told(busy, telemetry=looks(1980)))
    assert "H08" not in codes(told(quiet, telemetry=looks(1980)))
    # CUDA_VISIBLE_DEVICES may give another GPU the number 0: what was seen by NVML counts.
    renumbered = {**busy, "facts": {"gpu_index": 1}}
    assert "H08" not in codes(told(renumbered, telemetry=looks(1980)))
    seen = evidence_from_run(run(IterationTimes(host=np.full(9, 0.1)), **renumbered))
    assert seen.gpu is not None
    assert seen.gpu.name == "NVIDIA T4"
    assert seen.peaks is not None
    assert seen.peaks.l2_bytes == 4 * 2**20


def codes(evidence: Evidence) -> set[str]:
    return {finding.code for finding in findings_from_evidence(evidence)}


def measured(times: IterationTimes | None = None, **changes: Any) -> Evidence:
    """The evidence of a run with these times, steady host times by default."""
    if times is None:
        times = IterationTimes(host=1e-3 * ar1(np.random.default_rng(0), 600, sd=0.005))
    return evidence_from_run(run(times, **changes))


def spans(**medians: float) -> Evidence:
    """A run on a GPU whose columns have these medians, in milliseconds."""
    noise = ar1(np.random.default_rng(0), 600, sd=0.002)
    columns = {name: 1e-3 * value * noise for name, value in medians.items()}
    return measured(IterationTimes(**columns), environment=environment(gpus=(GPU,)))


def told(record_changes: dict[str, Any] | None = None, **fields: Any) -> Evidence:
    """Evidence without samples."""
    return Evidence(record=record(**(record_changes or {})), **fields)


def pair(baseline: dict[str, Any], candidate: dict[str, Any], **fields: Any) -> Evidence:
    """The evidence of a comparison of two records."""
    sides = record(**baseline), record(**candidate)
    return Evidence(pair=PairFacts(baseline=sides[0], candidate=sides[1], **fields))


def verdict(kind: Any, *, effects: int = 10, design: Any = "duet") -> Comparison:
    said = Verdict(metric="host", kind=kind, ratio=1.0, interval=None, reason="", launches=effects)
    return Comparison(
        baseline="a", candidate="b", design=design, verdicts=(said,), effects=(0.0,) * effects
    )


def looks(*clocks_mhz: float, reasons: int = 0) -> tuple[TelemetrySample, ...]:
    return tuple(
        TelemetrySample(at_s=0.1 * i, sm_clock_hz=clock * 1e6, event_reasons=reasons)
        for i, clock in enumerate(clocks_mhz)
    )


def steps(step_s: float) -> Evidence:
    """Times of about 100 µs from a clock that moves in such steps."""
    times = 1e-4 * ar1(np.random.default_rng(1), 600, sd=0.005)
    return measured(IterationTimes(gpu=np.round(times / step_s) * step_s))


def stepped(share: float, by: float) -> Evidence:
    """A run whose level changes once."""
    host = 1e-3 * ar1(np.random.default_rng(2), 1000, sd=0.005)
    host[int(share * 1000) :] *= by
    return measured(IterationTimes(host=host))


def two_kinds(distance: float) -> Evidence:
    random = np.random.default_rng(3)
    host = 1e-3 * ar1(random, 1000, sd=0.004) * np.where(random.random(1000) < 0.3, distance, 1.0)
    return measured(IterationTimes(host=host))


def tailed(factor: float) -> Evidence:
    host = 1e-3 * ar1(np.random.default_rng(4), 1000, sd=0.005)
    host[[100, 500]] *= factor
    return measured(IterationTimes(host=host, start=np.cumsum(host)))


def started(factor: float) -> Evidence:
    host = 1e-3 * ar1(np.random.default_rng(5), 600, sd=0.005)
    host[:6] *= factor
    return measured(IterationTimes(host=host))


def layered(total_ms: float) -> Evidence:
    layer = LayerTime(name="conv", total_s=total_ms * 1e-3, average_s=total_ms * 1e-3)
    base = spans(host=1.3, gpu=1.0)
    return Evidence(
        record=base.record,
        summary=base.summary,
        layers=LayerProfile(count=10, layers=(layer,)),
    )


def typed(dtype: str) -> Evidence:
    layer = LayerInfo(name="conv", inputs=(TensorInfo(name="x", dtype=dtype),))
    return told({"spec": spec(precision="fp16")}, graph=EngineGraph(layers=(layer,) * 4))


def launched(**facts: Any) -> Evidence:
    return told({"launches": (LaunchFacts(wall_s=1.0, **facts),)})


def gpu_told(telemetry: tuple[TelemetrySample, ...] = (), **extra: Any) -> Evidence:
    here = environment(gpus=(GPU,), extra=extra)
    return told({"environment": here}, telemetry=telemetry or looks(1980))


def clock_facts(before: float, after: float, **facts: float) -> Evidence:
    """Clocks in MHz before and after the timed part, without a look in between."""
    told_hz = {"sm_clock_before_hz": before * 1e6, "sm_clock_after_hz": after * 1e6}
    return told({"facts": {**told_hz, **facts}})


def unlocked(spread: float) -> Evidence:
    gpu = GPU.having(clocks_locked=False)
    times = IterationTimes(gpu=1e-3 * ar1(np.random.default_rng(6), 600, sd=spread))
    return measured(times, environment=environment(gpus=(gpu,)))


def worked(flops: float) -> Evidence:
    base = spans(host=1.2, gpu=1.0)
    return Evidence(
        record=base.record,
        summary=base.summary,
        work=Work(flops=flops),
        peaks=Peaks(flops_per_s=1e15),
    )


def batches(last_ms: float) -> Evidence:
    return Evidence(
        work=Work(flops=2e12),
        peaks=Peaks(flops_per_s=1e15),
        batches=(
            BatchPoint(batch=1, latency_s=6e-3),
            BatchPoint(batch=256, latency_s=last_ms * 1e-3),
        ),
    )


def clock_floor(floor_s: float) -> Evidence:
    return measured(launches=(LaunchFacts(steady=True, timer_floor_s=floor_s),))


def of_launches(count: int, *, n: int = 100) -> Evidence:
    random = np.random.default_rng(7)
    parts: list[Column] = [1e-3 * ar1(random, n, sd=0.005) for _ in range(count)]
    return measured(launches_of(parts))


def imported(versions: dict[str, str], fact: Fact) -> Evidence:
    here = environment(versions=versions)
    return told({"provenance": "imported", "environment": here, "conditions": {"tf32": fact}})


def correlated(phi: float) -> Evidence:
    return measured(IterationTimes(host=1e-3 * ar1(np.random.default_rng(8), 3000, phi=phi)))


LATER = {"created": "2026-02-01T12:00:00+00:00"}
TWO_CLOCKS = {"baseline_clock_hz": 1.98e9, "candidate_clock_hz": 1.9e9}
ORDER = (0.020, 0.021, 0.019, 0.020, 0.022, 0.018, 0.020, 0.021)
NO_ORDER = (0.020, -0.021, 0.019, -0.020, 0.022, -0.018, 0.020, -0.021)
VM = {"environment": environment(virtual_machine=True)}
RANDOM = {"spec": spec(inputs=InputSpec())}
MANY_THREADS = {"spec": spec(threads=16)}
FEW_THREADS = {"spec": spec(threads=2)}
SERVER = {"spec": spec(protocol="server", rate_hz=100.0)}
GAPS = {"spec": spec(gap_s=0.002)}
HERE = stated(cuda_graph=True, transfers=True, tf32=True)
KNOWN = Fact(value=True)

CASES: dict[str, tuple[Callable[[], Evidence], Callable[[], Evidence]]] = {
    "H01": (lambda: worked(2e12), lambda: worked(5e11)),
    "H02": (lambda: spans(host=0.5, gpu=1.0), lambda: spans(host=1.1, gpu=1.0)),
    "H03": (
        lambda: Evidence(outputs=OutputFacts(finite=False)),
        lambda: Evidence(outputs=OutputFacts(finite=True, varies=True)),
    ),
    "H04": (
        lambda: launched(violations_s={"power": 0.05}),
        lambda: launched(violations_s={"power": 0.001, "low_utilization": 0.9}),
    ),
    "H05": (lambda: gpu_told(looks(1980, 1900)), lambda: gpu_told(looks(1980, 1975))),
    "H06": (
        lambda: pair({}, {}, **TWO_CLOCKS),
        lambda: pair({}, {}, baseline_clock_hz=1.98e9, candidate_clock_hz=1.975e9),
    ),
    "H07": (lambda: unlocked(0.05), lambda: unlocked(0.01)),
    "H08": (lambda: gpu_told(gpu0_processes=2), lambda: gpu_told(gpu0_processes=0)),
    "H09": (
        lambda: launched(involuntary_switches=50),
        lambda: launched(involuntary_switches=3),
    ),
    "H10": (
        lambda: told({"environment": environment(cpu_governor="powersave")}),
        lambda: told(),
    ),
    "H11": (lambda: told(VM), lambda: told()),
    "H12": (lambda: steps(1e-6), lambda: steps(1e-8)),
    "H13": (lambda: of_launches(2), lambda: of_launches(8, n=800)),
    "H14": (lambda: measured(), lambda: of_launches(5)),
    "H15": (lambda: stepped(0.3, 1.1), lambda: stepped(0.3, 1.0)),
    "H16": (lambda: stepped(0.8, 1.1), lambda: stepped(0.2, 1.1)),
    "H17": (lambda: two_kinds(1.1), lambda: two_kinds(1.0)),
    "H18": (lambda: tailed(8.0), lambda: tailed(1.2)),
    "H19": (lambda: correlated(0.95), lambda: correlated(0.3)),
    "H20": (
        lambda: spans(host=1.2, gpu=1.0, enqueue=0.9),
        lambda: spans(host=1.1, gpu=1.0, enqueue=0.1),
    ),
    "H21": (
        lambda: spans(host=3.2, gpu=1.0, h2d=1.5, d2h=0.5),
        lambda: spans(host=1.3, gpu=1.0, h2d=0.1, d2h=0.1),
    ),
    "H22": (lambda: layered(1.3), lambda: layered(1.02)),
    "H23": (
        lambda: profiled(1.2e-3),
        lambda: profiled(1.02e-3),
    ),
    "H24": (
        lambda: pair(
            {"conditions": stated(cuda_graph=True)}, {"conditions": stated(cuda_graph=False)}
        ),
        lambda: pair({"conditions": HERE}, {"conditions": HERE}),
    ),
    "H25": (lambda: pair({}, {"conditions": stated(batch=8)}), lambda: pair({}, {})),
    "H26": (lambda: typed("fp32"), lambda: typed("fp16")),
    "H27": (
        lambda: pair({"conditions": stated(tf32=True)}, {"conditions": stated(tf32=False)}),
        lambda: pair({"conditions": HERE}, {"conditions": HERE}),
    ),
    "H28": (
        lambda: pair({}, {"environment": environment(host="b", machine="b")}),
        lambda: pair({}, {}),
    ),
    "H29": (
        lambda: told({"facts": {"fallback_nodes": 3}}),
        lambda: told({"facts": {"fallback_nodes": 0}}),
    ),
    "H30": (lambda: told(RANDOM), lambda: told()),
    "H31": (lambda: told(MANY_THREADS), lambda: told(FEW_THREADS)),
    "H32": (
        lambda: pair({}, {}, interference={"candidate": 1.35}),
        lambda: pair({}, {}, interference={"candidate": 1.01}),
    ),
    "H33": (
        lambda: pair({}, {}, position_effects=ORDER),
        lambda: pair({}, {}, position_effects=NO_ORDER),
    ),
    "H34": (lambda: pair({}, {}, comparisons=3), lambda: pair({}, {})),
    "H36": (lambda: told(), lambda: told(SERVER)),
    "H37": (
        lambda: Evidence(load=LoadFacts(offered_hz=100, achieved_hz=80)),
        lambda: Evidence(load=LoadFacts(offered_hz=100, achieved_hz=99.9)),
    ),
    "H38": (
        lambda: Evidence(energy=EnergyFacts(window_s=3.0, update_s=0.1)),
        lambda: Evidence(
            energy=EnergyFacts(window_s=20.0, update_s=0.1, counter_j=100, integral_j=101)
        ),
    ),
    "H39": (
        lambda: Evidence(device_memory=True),
        lambda: Evidence(),
    ),
    "H40": (lambda: told(), lambda: told(GAPS)),
    "H41": (lambda: started(3.0), lambda: started(1.05)),
    "H43": (
        lambda: Evidence(accuracy=AccuracyFacts(metric="top1", drop_low=0.01, drop_high=0.02)),
        lambda: Evidence(accuracy=AccuracyFacts(metric="top1", drop_low=-0.01, drop_high=0.02)),
    ),
    "H44": (
        lambda: imported({}, Fact(value=None, source="unknown")),
        lambda: imported({"tensorrt": "10.9"}, KNOWN),
    ),
    "H45": (lambda: pair({}, LATER), lambda: pair({}, {})),
    "H50": (lambda: left_out(2), lambda: left_out(0)),
    "H51": (lambda: surrounded("DNNL_MAX_CPU_ISA=AVX2"), lambda: surrounded("CUDNN_HOME=/opt")),
    "H49": (lambda: Evidence(crashed="ended by SIGSEGV"), lambda: Evidence()),
    "H48": (lambda: prepared("none"), lambda: prepared("imagenet")),
    "H46": (lambda: told({"spec": spec(batch=8)}), lambda: told({"spec": spec(batch=1)})),
    "H47": (
        lambda: Evidence(record=record(facts={"trtexec_warned.unstable": "a; trtexec: b"})),
        lambda: Evidence(record=record(facts={"measured_at": "a"})),
    ),
}


def surrounded(variables: str) -> Evidence:
    """A run on a CPU in an environment that sets these."""
    return told({"environment": environment(extra={"variables": variables})})


def left_out(count: int) -> Evidence:
    facts = UnreadableFacts(model="a.onnx", count=count, items=9, example="1.png", reason="cut off")
    return Evidence(unreadable=facts)


def prepared(normalize: str) -> Evidence:
    facts = {"task": "classification", "fit": "crop", "normalize": "imagenet"}
    return Evidence(
        preparation=PreparationFacts(
            model="net.int8.onnx", calibrated={**facts, "normalize": normalize}, judged=facts
        )
    )


def profiled(gpu_s: float) -> Evidence:
    base = spans(host=1.3, gpu=1.0)
    facts = (LaunchFacts(profiled_gpu_s=gpu_s),)
    return Evidence(record=record(launches=facts), summary=base.summary)


def test_the_checklist_is_complete() -> None:
    dropped = {35, 42}  # nothing can bring them about: see docs/findings.md
    kept = [n for n in range(1, 52) if n not in dropped]
    assert [rule.code for rule in RULES] == [f"H{n:02}" for n in kept]
    assert set(CASES) == {rule.code for rule in RULES}


@pytest.mark.parametrize("code", sorted(CASES))
def test_rule_fires(code: str) -> None:
    found = [f for f in findings_from_evidence(CASES[code][0]()) if f.code == code]
    assert found
    for finding in found:
        assert finding.evidence
        assert finding.remedy
        assert finding.message


@pytest.mark.parametrize("code", sorted(CASES))
def test_rule_is_silent(code: str) -> None:
    assert code not in codes(CASES[code][1]())


def test_nothing_is_said_about_nothing() -> None:
    assert findings_from_evidence(Evidence()) == ()


def severity(evidence: Evidence, code: str) -> str | None:
    return next((f.severity for f in findings_from_evidence(evidence) if f.code == code), None)


@pytest.mark.parametrize(
    ("make", "code", "expected"),
    [
        (lambda: launched(violations_s={"thermal": 0.2}), "H04", "error"),
        (lambda: gpu_told(looks(1980, 1980, reasons=0x40)), "H04", "warning"),
        (lambda: gpu_told(looks(1980, 1980, reasons=0x1)), "H04", None),
        (lambda: gpu_told(looks(1980, 1930)), "H05", "note"),
        (lambda: gpu_told(looks(1980, 1800)), "H05", "warning"),
        (lambda: gpu_told(looks(1300, 1300)), "H05", "error"),
        (lambda: clock_facts(1800, 1692), "H05", "warning"),
        (lambda: clock_facts(1800, 1750), "H05", None),
        (lambda: clock_facts(300, 1800), "H05", None),
        (lambda: clock_facts(1800, 1800, sm_clock_drop=0.3), "H05", "warning"),
        (lambda: spans(host=1.5, gpu=1.0, h2d=0.4, d2h=0.4), "H02", "error"),
        (lambda: batches(6.1), "H02", "warning"),
        (lambda: batches(1020.0), "H02", None),
        (lambda: clock_floor(1e-4), "H12", "warning"),
        (lambda: clock_floor(1e-7), "H12", None),
        (lambda: Evidence(outputs=OutputFacts(varies=False)), "H03", "error"),
        (lambda: launched(), "H09", None),
        (lambda: told({"environment": environment(load_before=(9.0, 1, 1))}), "H09", "warning"),
        (lambda: told({"environment": environment(extra={"throttled_s": 0.5})}), "H11", "warning"),
        (lambda: layered(0.92), "H22", "note"),
        (lambda: layered(0.6), "H22", "warning"),
        (lambda: told({"launches": (LaunchFacts(steady=False),)}), "H16", "warning"),
        (
            lambda: pair({}, {"environment": environment(versions={"onnxruntime": "2"})}),
            "H28",
            "note",
        ),
        (lambda: pair({"conditions": HERE}, {}), "H27", "note"),
        (lambda: pair({}, {}, comparison=verdict("same", effects=4)), "H13", "warning"),
        (
            lambda: Evidence(load=LoadFacts(offered_hz=1, achieved_hz=1, late_share=0.05)),
            "H36",
            "warning",
        ),
        (lambda: pair({}, {}, in_time="slower", in_cycles="same"), "H06", "warning"),
        (
            lambda: told({"spec": spec(cuda_graph="on"), "conditions": stated(cuda_graph=False)}),
            "H24",
            "error",
        ),
    ],
)
def test_severities(make: Callable[[], Evidence], code: str, expected: str | None) -> None:
    assert severity(make(), code) == expected


def test_equal_outputs_may_be_a_constant_network() -> None:
    found = findings_from_evidence(Evidence(outputs=OutputFacts(varies=False)))
    [message] = [each.message for each in found if each.code == "H03"]
    assert "nothing was computed" in message
    assert "underflow to zero in FP16" in message


def test_an_accepted_difference_is_a_note() -> None:
    sides = {"conditions": stated(tf32=True)}, {"conditions": stated(tf32=False)}
    assert severity(pair(*sides), "H27") == "error"
    assert severity(pair(*sides, accept=("tf32",)), "H27") == "note"


def test_drift_matters_less_in_a_duet() -> None:
    alone = stepped(0.3, 1.1)
    sides = PairFacts(baseline=record(), candidate=record(), comparison=verdict("same"))
    duet = Evidence(times=alone.times, summary=alone.summary, segments=alone.segments, pair=sides)
    assert severity(alone, "H15") == "warning"
    assert severity(duet, "H15") == "note"


def test_findings_name_their_number_and_stand_in_order_of_severity() -> None:
    found = findings_from_run(run(IterationTimes(host=np.ones(50), gpu=np.full(50, 2.0))))
    assert found[0].code == "H02"
    assert found[0].concerns == "host"
    order = ["error", "warning", "note"]
    assert [f.severity for f in found] == sorted((f.severity for f in found), key=order.index)


def test_a_run_without_samples_is_judged_too() -> None:
    assert isinstance(findings_from_run(run(IterationTimes())), tuple)


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
def test_one_mode_is_never_taken_for_two(draw: Callable[[np.random.Generator], Column]) -> None:
    random = np.random.default_rng(9)
    for _ in range(50):
        split = modes(draw(random))
        assert split is not None
        assert not (split.separation > 4 and split.minor_share >= 0.05 and split.gap > 0.01)


def test_worst_samples_come_first() -> None:
    assert worst(np.array([1.0, 9, 3, 8, 2]), count=3) == [1, 3, 2]
    assert worst(np.array([1.0])) == [0]


def test_the_documentation_holds_the_table() -> None:
    assert rule_table() in (REPOSITORY / "docs" / "findings.md").read_text(encoding="utf-8")


def test_no_rule_needs_more_than_a_record(record_only: RunRecord) -> None:
    assert {f.code for f in findings_from_evidence(Evidence(record=record_only))} <= {
        "H10", "H11", "H30", "H36", "H40",
    }  # fmt: skip


@pytest.fixture
def record_only() -> RunRecord:
    return record(launches=(), inputs=())


def test_summary_is_taken_from_the_caller_where_given() -> None:
    times = IterationTimes(host=np.ones(50))
    summary = summarize(times)
    assert evidence_from_run(run(times), summary=summary).summary is summary
