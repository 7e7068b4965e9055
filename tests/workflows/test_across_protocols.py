"""PyTorch against trtexec: GPU time is judged, what callers see is not, and ratios are marked."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analysis_values import record, spec, stated
from trtbench.analysis.stored_comparison import comparison_rows
from trtbench.compare.compare import comparison_from_runs
from trtbench.core.run import DuetRef, LaunchFacts, Run
from trtbench.core.samples import IterationTimes

LAUNCHES = 8


def side(number: int, *, gpu_s: float, paired: bool) -> Run:
    """PyTorch, which serves and sees host time, or trtexec, with a pipeline and latency."""
    torch = number == 0
    rng = np.random.default_rng(number)
    gpu = gpu_s * np.exp(rng.normal(0, 0.002, 50 * LAUNCHES))
    seen = {"host" if torch else "latency": gpu + 2e-4}
    protocol: Any = "serve" if torch else "pipeline"
    made = record(
        id=f"side-{number}",
        spec=spec(runtime="torch" if torch else "trtexec", protocol=protocol),
        conditions=stated(protocol=protocol, transfers=True, cuda_graph=False, tf32=False),
        launches=(LaunchFacts(wall_s=1.0),) * LAUNCHES,
        duet=DuetRef(id="pair", side=number, design="launches") if paired else None,  # type: ignore[arg-type]
    )
    launch = np.repeat(np.arange(LAUNCHES), 50)
    return Run(record=made, times=IterationTimes(gpu=gpu, launch=launch, **seen))


@pytest.mark.parametrize("paired", [True, False])
def test_gpu_time_is_judged_and_the_callers_time_is_not(paired: bool) -> None:
    pair = side(0, gpu_s=2e-3, paired=paired), side(1, gpu_s=1e-3, paired=paired)
    found = comparison_from_runs(*pair)
    head = found.verdicts[0]
    assert (head.metric, head.kind) == ("gpu", "faster")
    assert head.ratio == pytest.approx(0.5, rel=0.01)
    host = found.verdict("host")
    assert host.kind == "incomparable"
    assert "the candidate has latency" in host.reason or "protocols" in host.reason


def test_ratios_across_protocols_are_marked() -> None:
    pair = side(0, gpu_s=2e-3, paired=True), side(1, gpu_s=1e-3, paired=True)
    notes = {row.metric: row.note for row in comparison_rows(*pair)}
    assert notes["gpu_median"] == ""
    assert "serve against pipeline" in notes["host_median"]
    assert "host time against latency" in notes["host_median"]
    assert "serve against pipeline" in notes["throughput_qps"]
    few = replace(pair[1], times=IterationTimes(gpu=pair[1].times.gpu[:60], latency=None))
    notes = {row.metric: row.note for row in comparison_rows(pair[0], few)}
    assert notes["gpu_p90"] == ""
    assert notes["gpu_p99"].startswith("p99: too few samples (")
    assert not any("against" in row.note for row in comparison_rows(pair[0], pair[0]))
