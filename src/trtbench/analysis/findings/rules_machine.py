"""Rules on the machine: clocks, limits, neighbours and virtualisation: H04 to H11, H31."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trtbench.analysis.findings.evidence import Evidence, known
from trtbench.analysis.findings.rule import Hit, Limits, rounded, rule
from trtbench.domain.result import RunRecord, gpu_number

LIMITING_REASONS = 0xE8
"""HW slowdown 0x8, SW thermal 0x20, HW thermal 0x40, HW power brake 0x80 (NVML)."""
SHARING = ("display", "mig", "mps")
LIMITING_COUNTERS = ("power", "thermal", "board", "reliability", "power_brake")
"""``low_utilization`` and ``sync_boost`` also grow on an idle GPU and tell nothing."""


@rule(
    "H04",
    "held back by power or heat",
    severity="warning",
    when="limit counters grew for more than {warning:.0%} of the time (error above {error:.0%}), "
    "or a slowdown reason was seen",
    source="NVML violation counters",
    warning=0.01,
    error=0.10,
)
def limited(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the GPU held itself back while it was measured."""
    shares: dict[str, float] = {}
    for launch in e.launches:
        for name in LIMITING_COUNTERS:
            if launch.wall_s and name in launch.violations_s:
                share = launch.violations_s[name] / launch.wall_s
                shares[name] = max(share, shares.get(name, 0.0))
    worst = max(shares, key=lambda name: shares[name], default=None)
    if worst is not None and shares[worst] > at["warning"]:
        yield Hit(
            severity="error" if shares[worst] > at["error"] else None,
            message=f"the GPU was limited by {worst.replace('_', ' ')} for {shares[worst]:.0%} "
            "of the time",
            evidence={f"{name}_share": rounded(share) for name, share in shares.items()},
            remedy="cool it, raise the power limit, or lock a lower clock: nvidia-smi -lgc MIN,MAX",
            concerns="gpu",
        )
        return
    seen = [s for s in e.telemetry if (s.event_reasons or 0) & LIMITING_REASONS]
    if seen:
        yield Hit(
            message=f"the GPU reported a slowdown in {len(seen)} of {len(e.telemetry)} looks",
            evidence={"reasons": hex(seen[0].event_reasons or 0), "looks": len(seen)},
            remedy="cool it or check the power supply: nvidia-smi -q -d PERFORMANCE",
            concerns="gpu",
        )


@rule(
    "H05",
    "the clock moved",
    severity="note",
    when="the SM clock moved by more than {note:.0%} of its median with telemetry (warning above "
    "{warning:.0%}), or fell by more than {warning:.0%} while a launch was timed (warning); an "
    "error below {least:.0%} of the default clock",
    source="nvbench 75 %; depth-anything-win 5 %",
    note=0.02,
    warning=0.05,
    least=0.75,
)
def clock_drift(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the GPU's clock was not the same throughout."""
    drop = _timed_drop(e)
    if drop > at["warning"]:
        yield Hit(
            severity="warning",
            message=f"the SM clock fell by {drop:.0%} while the times were taken",
            evidence={"drop": rounded(drop)},
            remedy="lock the clock: sudo nvidia-smi -lgc MIN,MAX, or warm up longer: --warmup 5s",
            concerns="gpu",
        )
    clocks = known([sample.sm_clock_hz for sample in e.telemetry])
    if len(clocks) < 2:
        return
    median = float(np.median(clocks))
    default = e.gpu.sm_clock_default_hz if e.gpu else None
    if default and median < at["least"] * default:
        yield Hit(
            severity="error",
            message=f"the SM clock was {median / 1e6:.0f} MHz, {median / default:.0%} of default",
            evidence={"clock_mhz": rounded(median / 1e6), "default_mhz": rounded(default / 1e6)},
            remedy="wait until the GPU has cooled down and measure again",
            concerns="gpu",
        )
        return
    spread = (max(clocks) - min(clocks)) / median
    if spread > at["note"]:
        yield Hit(
            severity="warning" if spread > at["warning"] else None,
            message=f"the SM clock moved by {spread:.0%} while measuring",
            evidence={"min_mhz": rounded(min(clocks) / 1e6), "max_mhz": rounded(max(clocks) / 1e6)},
            remedy="lock the clock: sudo nvidia-smi -lgc MIN,MAX, or warm up longer: --warmup 5s",
            concerns="gpu",
        )


def _timed_drop(e: Evidence) -> float:
    """Tell how far the clock fell while times were taken, as a part of what it was before."""
    drop = e.fact("sm_clock_drop")
    before, after = e.fact("sm_clock_before_hz"), e.fact("sm_clock_after_hz")
    if drop is None and before and after:
        drop = 1 - after / before
    return drop or 0.0


@rule(
    "H07",
    "clocks not locked",
    severity="note",
    when="clocks are not locked and the CoV of GPU time exceeds {cov:.1%}",
    source="trtexec 2.5 %",
    cov=0.025,
)
def clocks_unlocked(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when times spread and the clock is free to move."""
    if (
        e.gpu is None
        or e.gpu.clocks_locked is not False
        or e.median("gpu") is None
        or not e.summary
    ):
        return
    cov = e.summary.column("gpu").cov
    if cov > at["cov"]:
        yield Hit(
            message=f"GPU times spread by {cov:.1%} and the clock is not locked",
            evidence={"cov": rounded(cov), "clocks_locked": False},
            remedy="sudo nvidia-smi -lgc MIN,MAX (and -rgc afterwards)",
            concerns="gpu",
        )


@rule(
    "H08",
    "the GPU is shared",
    severity="warning",
    when="other processes on the GPU, more than {util:.0%} utilisation before the start, or MIG, "
    "MPS or a display",
    source="NVML; TensorRT issue 2289",
    util=0.05,
)
def gpu_shared(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when others could use the GPU at the same time."""
    if not e.on_gpu:
        return
    mine = f"gpu{gpu_number(e.record) if e.record else 0}"
    others, before = e.fact(f"{mine}_processes"), e.fact(f"{mine}_utilisation")
    why = [name for name in SHARING if e.flag(f"{mine}_{name}")]
    if others:
        why.append(f"{others:.0f} other processes")
    if before is not None and before > at["util"]:
        why.append(f"{before:.0%} busy before the start")
    if why:
        yield Hit(
            message=f"the GPU is shared: {', '.join(why)}",
            evidence={"processes": others, "utilisation_before": before},
            remedy="stop the others (nvidia-smi shows them) or choose another: --device cuda:1",
            concerns="gpu",
        )


@rule(
    "H09",
    "the CPU is contended",
    severity="warning",
    when="more than {switches:.0f} involuntary context switches per second, steal above "
    "{steal:.0%}, load above cores - {spare:.0f}, or CPU pressure above {pressure:.0%}",
    source="/proc/stat, getrusage, /proc/pressure",
    switches=10,
    steal=0.01,
    spare=1,
    pressure=0.05,
)
def cpu_contended(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when other work took the CPU away while measuring."""
    why: list[str] = []
    rates = [
        launch.involuntary_switches / launch.wall_s
        for launch in e.launches
        if launch.involuntary_switches is not None and launch.wall_s
    ]
    steal, pressure = e.fact("cpu_steal_fraction"), e.fact("pressure_fraction")
    load, cores = _load(e)
    if rates and max(rates) > at["switches"]:
        why.append(f"pushed off its core {max(rates):.0f} times a second")
    if steal is not None and steal > at["steal"]:
        why.append(f"{steal:.1%} of CPU time stolen by the hypervisor")
    if load is not None and cores and load > cores - at["spare"]:
        why.append(f"load {load:.1f} on {cores} cores before the run")
    if pressure is not None and pressure > at["pressure"]:
        why.append(f"tasks waited for a CPU {pressure:.0%} of the time")
    if why:
        evidence = {
            "switches_per_s": rounded(max(rates)) if rates else None,
            "steal": steal,
            "pressure": pressure,
            "load": load,
        }
        yield Hit(
            message=f"the CPU was contended: {'; '.join(why)}",
            evidence={key: value for key, value in evidence.items() if value is not None},
            remedy="stop other work, or compare with trtbench compare, where it hits both alike",
            concerns="host",
        )


def _load(e: Evidence) -> tuple[float | None, int | None]:
    if e.record is None or e.record.environment.load_before is None:
        return None, None
    return e.record.environment.load_before[0], e.record.environment.cpu_cores


@rule(
    "H10",
    "CPU frequency not fixed",
    severity="note",
    when="the governor is not 'performance', turbo is on, cores share SMT siblings, or nothing "
    "tells the frequency",
    source="pyperf system",
)
def cpu_frequency(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when the CPU may change its speed on its own."""
    if e.record is None or e.record.provenance != "measured":
        return
    machine = e.record.environment
    why = []
    if machine.cpu_governor is None:
        why.append("no frequency information")
    elif machine.cpu_governor != "performance":
        why.append(f"governor {machine.cpu_governor}")
    if e.flag("turbo"):
        why.append("turbo on")
    if e.flag("smt"):
        why.append("hyper-threads shared")
    if why:
        yield Hit(
            message=f"the CPU may change its speed: {', '.join(why)}",
            evidence={"governor": machine.cpu_governor, "turbo": e.flag("turbo")},
            remedy="sudo cpupower frequency-set -g performance; or compare ratios, not times",
            concerns="host",
        )


@rule(
    "H11",
    "virtual machine or CPU quota",
    severity="note",
    when="a hypervisor is present; a warning when a container's CPU quota stopped the process",
    source="launch CV of 18 % on a shared virtual machine",
)
def virtual_machine(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a hypervisor or a quota decides how much CPU there is."""
    throttled = e.fact("throttled_s")
    if throttled:
        yield Hit(
            severity="warning",
            message=f"the container's CPU quota stopped the process for {throttled:.2g} s",
            evidence={"throttled_s": rounded(throttled)},
            remedy="raise the quota (cpu.max) or use fewer --threads",
            concerns="host",
        )
    if e.record is not None and e.record.environment.virtual_machine:
        yield Hit(
            message="measured in a virtual machine: neighbours nobody sees shift whole launches",
            evidence={"virtual_machine": True},
            remedy="trtbench compare A B, whose ratios hold; absolute times may not",
            concerns="host",
        )


@rule(
    "H31",
    "thread settings",
    severity="warning",
    when="more threads than physical cores, two spinning pools in one process, or different "
    "thread counts on the two sides",
    source="a false difference of 35 %, measured",
)
def threads(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when threads compete with one another."""
    if e.record is not None and e.record.spec.threads:
        cores = e.record.environment.cpu_physical_cores
        count = e.record.spec.threads
        if cores and count > cores:
            yield Hit(
                message=f"{count} threads on {cores} physical cores",
                evidence={"threads": count, "physical_cores": cores},
                remedy=f"--threads {cores}",
                concerns="host",
            )
    if e.pair is None:
        return
    sides = (e.pair.baseline, e.pair.candidate)
    if e.pair.one_process and all(_spins(side) for side in sides):
        yield Hit(
            message="two spinning thread pools share one process",
            evidence={"spinning": "on", "one_process": True},
            remedy="--opt spinning=off, or --threads 1, which needs no pool",
            concerns="host",
        )
    counts = [side.spec.threads for side in sides]
    if sides[0].spec.runtime == sides[1].spec.runtime and counts[0] != counts[1]:
        yield Hit(
            message=f"the sides use different thread counts: {counts[0]} against {counts[1]}",
            evidence={"baseline": counts[0], "candidate": counts[1]},
            remedy="give both the same --threads",
            concerns="host",
        )


def _spins(side: RunRecord) -> bool:
    """Say whether idle threads of a side look for work and do not sleep; one has no pool."""
    fact = side.conditions.get("spinning")
    return fact is not None and fact.value == "on" and side.spec.threads != 1
