"""Changes of shape and profile: what the first query after one costs, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_standin import PROFILE_S, SHAPE_S, Trt, plan_bytes
from models import tiny_model
from trtbench.analysis.pass_times import facts_from_blocks, switches_from_facts
from trtbench.core.errors import UsageError
from trtbench.core.jobs import BenchOutcome, Stage
from trtbench.core.run import Environment, Run, RunRecord
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import Length, ModelRef, RunSpec, Warmup
from trtbench.report.run_facts import words_from_switches
from trtbench.report.sections import telemetry as switches
from trtbench.runtimes import onnxruntime, tensorrt

SHORT = {
    "warmup": Warmup(floor=Length(iterations=2), until_steady=False),
    "stop": Length(iterations=10),
}


def on_gpu(folder: Path, **changes: Any) -> BenchOutcome:
    path = folder / "model.engine"
    path.write_bytes(plan_bytes())
    model = ModelRef(path=str(path), format="engine")
    spec = RunSpec(model=model, runtime="tensorrt", batch=4, **SHORT)
    asked = spec.having(**changes)
    return tensorrt.bench(asked, folder=folder, stage=Stage())[0]


def on_cpu(folder: Path, **changes: Any) -> BenchOutcome:
    model = ModelRef(path=str(tiny_model(folder / "m.onnx")), format="onnx")
    spec = RunSpec(model=model, runtime="onnxruntime", batch=1, **SHORT, **changes)
    return onnxruntime.bench(spec, folder=folder, stage=Stage())[0]


def test_the_cost_is_that_of_the_first_against_those_that_stay_whatever_drifts() -> None:
    drift = np.linspace(0, 5e-3, 20)[:, None]
    there = 2e-3 + drift + np.array([[4e-4, 0, 0, 0]])
    back = 1e-3 + drift + np.random.default_rng(0).normal(0, 1e-5, (20, 4))
    to, home = switches_from_facts(facts_from_blocks("8x3", {"there": there, "back": back}))
    assert to.cost_s == pytest.approx(4e-4)
    assert to.is_seen
    assert not home.is_seen
    assert (to.to, home.to) == ("8x3", "back")
    few = facts_from_blocks("8x3", {"there": there[:3], "back": back[:3]})
    assert few["switch_cost_low_s"] is None
    assert switches_from_facts(few)[0].interval is None
    assert switches_from_facts({}) == ()


@pytest.mark.parametrize("graph", ["off", "on"])
@pytest.mark.parametrize(
    ("change", "words", "cost_s"),
    [
        ({"switch_shapes": {"x": (8, 8)}}, "8x8", SHAPE_S),
        ({"switch_profile": 1}, "profile 1", PROFILE_S + SHAPE_S),
        ({"switch_shapes": {"x": (40, 8)}, "switch_profile": 1}, "40x8, profile 1",
         PROFILE_S + SHAPE_S),
    ],
)  # fmt: skip
def test_an_engine_tells_what_a_change_costs_there_and_back(
    gpu: Trt, tmp_path: Path, change: dict[str, Any], words: str, cost_s: float, graph: str
) -> None:
    outcome = on_gpu(tmp_path, **change, cuda_graph=graph, transfers=False)
    for each in switches_from_facts(outcome.evidence):
        assert each.cost_s == pytest.approx(cost_s, rel=0.02)
    assert outcome.evidence["switch_to"] == words
    assert gpu.cuda.live == {}, "buffers of both are given back"


def test_a_query_after_a_change_computes_what_it_should(gpu: Trt, tmp_path: Path) -> None:
    (tmp_path / "m.engine").write_bytes(plan_bytes())
    model = ModelRef(path=str(tmp_path / "m.engine"), format="engine")
    session = tensorrt.open_session(RunSpec(model=model, runtime="tensorrt", batch=4))
    session.bind({"x": np.zeros((4, 8), np.float32)})
    session.first()
    arrays = {n: {"x": np.full((n, 8), n, np.float32)} for n in (2, 40)}
    queries = {2: session.query(arrays[2], profile=0), 40: session.query(arrays[40], profile=1)}
    [context] = gpu.contexts
    for batch in (2, 40, 40, 2):
        queries[batch]()
        out = gpu.cuda.live[context.addresses["y"]]
        found = np.frombuffer(bytes(out), np.float32)
        np.testing.assert_array_equal(found, np.full(batch * 8, 2 * batch + 1))
    session.close()


def test_onnx_runtime_changes_shapes_too_and_has_no_profiles(tmp_path: Path) -> None:
    outcome = on_cpu(tmp_path, switch_shapes={"x": (32, 16)})
    there, back = switches_from_facts(outcome.evidence)
    assert there.to == "32x16"
    assert there.stay_s > 0
    assert back.interval is not None
    run = Run(
        record=RunRecord(
            id="a", created="2026-01-01T00:00:00+00:00",
            spec=RunSpec(model=ModelRef(path="m.onnx", format="onnx"), runtime="onnxruntime"),
            environment=Environment(host="h", os="o"),
            facts=outcome.evidence,
        ),
        times=IterationTimes(host=np.ones(3)),
    )  # fmt: skip
    assert [name for name, _ in words_from_switches(run)] == ["switch", "switch"]
    (section,) = switches.make([run])
    assert len(section.blocks[0].rows) == 2
    with pytest.raises(UsageError, match="no optimization profiles"):
        on_cpu(tmp_path, switch_profile=1)
