"""Rules fire from a run or a comparison that the workflow made, if it records what they need.

Only the doors are scripted: what a runtime measures, what the machine is, what NVML tells. The
worker, the record, the facts and the findings in between are the real ones.
"""

import contextlib
import itertools
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from analysis_values import GPU, ar1, environment, stated
from models import conv_model, tiny_model
from trtbench import worker
from trtbench.compare.compare import comparison_from_runs, with_further_findings
from trtbench.core.codec import json_from_value
from trtbench.core.jobs import BenchOutcome, JobEnd
from trtbench.core.run import DuetRef, Environment, Interval, LaunchFacts, Run, Score, Scores
from trtbench.core.samples import Column, IterationTimes, LayerProfile, LayerTime, TelemetrySample
from trtbench.core.spec import InputSpec, RunSpec, TensorSpec
from trtbench.host.telemetry import Counters
from trtbench.importing.run import import_artefacts
from trtbench.measure import bench as job_module
from trtbench.measure import bench as launches
from trtbench.measure import watch as watch_module
from trtbench.measure.bench import run_bench
from trtbench.models.identity import model_ref
from trtbench.requests.execution import Execution
from trtbench.requests.stored import ImportRequest
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import SCORES
from trtbench.store.store import Store, results_folder


def steady(median_s: float = 1e-3, n: int = 600, **more: float) -> Column:
    return median_s * ar1(np.random.default_rng(1), n, sd=0.004, **more)


@dataclass(kw_only=True)
class World:
    """What the doors answer during one run."""

    times: Callable[[int], IterationTimes] = lambda batch: IterationTimes(host=steady())
    device: str = "cpu"
    machine: Environment = field(default_factory=environment)
    outcome: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=lambda: {"wall_s": 1.0, "steady": True})
    clocks_hz: tuple[float, ...] = (1.98e9,)
    limits_s: tuple[float, ...] = (0.0,)
    telemetry: tuple[TelemetrySample, ...] = ()
    graph: str = ""  # the engine's layers as trtexec exports them


class Stage:
    """The workflow with these doors, in this process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, monkeypatch
        self.store: Store = Store(folder / "store")
        self.model = conv_model(folder / "m.onnx")
        self.world = World()
        module = types.ModuleType("scripted")
        real = RUNTIMES.load("onnxruntime")
        known = {name: getattr(real, name) for name in vars(RUNTIMES.contract) if name.isupper()}
        own = {"OPTIONS": {}, "available": lambda: None, "fix": lambda: None, "bench": self._bench,
               "open_session": None, "command_lines": None,
               "device": lambda spec: self.world.device}  # fmt: skip
        vars(module).update({**known, **own})
        monkeypatch.setitem(RUNTIMES._checked, "scripted", module)
        monkeypatch.setattr(job_module, "run_jobs", self._run_jobs)
        monkeypatch.setattr(job_module, "read_environment", lambda **asked: self.world.machine)
        monkeypatch.setattr(watch_module, "opened", self._opened)

        class Nvml:
            def __init__(nvml, device: object) -> None:
                nvml.counters = self.counters

        monkeypatch.setattr("trtbench.host.telemetry.NvmlSource", Nvml)
        monkeypatch.setattr("trtbench.host.telemetry.source_of", self._source_of)
        monkeypatch.setattr(watch_module, "SETTLE_S", 0.0)

    def run(self, world: World, **spec: Any) -> Run:
        self.world = world
        self._clocks, self._limits = itertools.cycle(world.clocks_hz), iter(world.limits_s)
        given = {"inputs": InputSpec(source="data.npz"), **spec}
        asked = RunSpec(model=model_ref(self.model), runtime="scripted", **given)
        return run_bench(asked, store=self.store, execution=Execution())

    def _bench(self, spec: RunSpec, *, folder: Path, stage: Any) -> Any:
        if self.world.graph:
            (folder / "graph.json").write_text(self.world.graph)
        outcome = {
            "facts": LaunchFacts(**self.world.facts),
            "inputs": (
                TensorSpec(name="image", dtype="float32", shape=(spec.batch or 1, 3, 16, 16)),
            ),
            **self.world.outcome,
        }
        return BenchOutcome(**outcome), self.world.times(spec.batch or 1)

    def _run_jobs(self, given: list[Any], *, on_stage: Any, **rest: Any) -> list[JobEnd]:
        job, folder = given[0].job, given[0].folder
        folder.mkdir(parents=True)
        (folder / "log.txt").write_text("")
        path = folder / "job.json"
        path.write_bytes(json_from_value(job))
        on_stage("measure")
        status = worker.main([str(path), str(folder)])
        on_stage("save")
        return [JobEnd(seconds=1.0, stage="save", exit_status=status)]

    def counters(self, *, energy: bool = False) -> Counters:
        limit = next(self._limits, self.world.limits_s[-1])
        self._time = getattr(self, "_time", 0.0) + 1.0
        return Counters(
            at_s=self._time, sm_clock_hz=next(self._clocks), limits_s={"power": limit},
            energy_j=100.0 * self._time,
        )  # fmt: skip

    @contextlib.contextmanager
    def _opened(self, index: int, *, part: str | None = None) -> Iterator[object]:
        yield SimpleNamespace(ask=lambda *_: None, ask_part=lambda *_: None)

    @contextlib.contextmanager
    def _source_of(self, index: int) -> Iterator[object]:
        looks = itertools.cycle(self.world.telemetry)
        yield types.SimpleNamespace(
            counters=self.counters, sample=lambda at_s: next(looks)
        )  # fmt: skip


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def codes(found: Any) -> set[str]:
    findings = found.record.findings if isinstance(found, Run) else found.findings
    return {finding.code for finding in findings}


GPU_MACHINE = environment(gpus=(GPU,))


def on_gpu(**world: Any) -> World:
    return World(**{"device": "cuda:0", "machine": GPU_MACHINE, **world})


def columns(**medians_ms: float) -> Callable[[int], IterationTimes]:
    """Steady columns with these medians."""
    return lambda batch: IterationTimes(
        **{name: steady(1e-3 * value) for name, value in medians_ms.items()}
    )


def profile(total_s: float) -> LayerProfile:
    layers = tuple(
        LayerTime(name=f"l{n}", average_s=total_s / 4, total_s=total_s, median_s=total_s / 4)
        for n in range(4)
    )
    return LayerProfile(count=4, layers=layers)


def layers_json(kind: str) -> str:
    tensor = {"Name": "t", "Location": "Device", "Dimensions": [1, 8], "Format/Datatype": kind}
    layers = [
        {"Name": f"l{n}", "LayerType": "Convolution", "Inputs": [tensor], "Outputs": [tensor]}
        for n in range(4)
    ]
    return msgspec.json.encode({"Layers": layers, "Bindings": ["t"]}).decode()


LOOK = TelemetrySample(at_s=0.0, sm_clock_hz=1.98e9, power_w=300.0, memory_used_bytes=2**30)

ALONE: dict[str, tuple[World, dict[str, Any]]] = {
    "H01": (on_gpu(times=columns(host=0.01, gpu=1e-9)), {}),
    "H02": (on_gpu(times=columns(host=0.5, gpu=1.0)), {}),
    "H03": (on_gpu(outcome={"evidence": {"outputs_finite": False}}), {}),
    "H04": (on_gpu(limits_s=(0.0, 0.5), times=columns(host=1.1, gpu=1.0)), {}),
    "H05": (on_gpu(clocks_hz=(1.98e9, 1.5e9), times=columns(host=1.1, gpu=1.0)), {}),
    "H08": (
        on_gpu(
            machine=environment(gpus=(GPU,), extra={"gpu0_processes": 3}),
            times=columns(host=1.1, gpu=1.0),
        ),
        {},
    ),
    "H12": (World(facts={"wall_s": 1.0, "timer_floor_s": 1e-4}), {}),
    "H15": (World(facts={"wall_s": 1.0, "steady": False}), {}),
    "H22": (on_gpu(times=columns(host=1.2, gpu=1.0), outcome={"layers": profile(2e-3)}), {}),
    "H24": (on_gpu(outcome={"conditions": stated(cuda_graph=False)}), {"cuda_graph": "on"}),
    "H26": (
        on_gpu(
            graph=layers_json("Row major linear FP32"),
            outcome={"conditions": stated(precision="int8")},
        ),
        {},
    ),
    "H29": (on_gpu(outcome={"evidence": {"fallback_nodes": 3, "fallback_names": "a, b, c"}}), {}),
    "H37": (World(outcome={"evidence": {"offered_hz": 100.0, "achieved_hz": 50.0}}), {}),
    "H38": (on_gpu(telemetry=(LOOK,)), {"telemetry_s": 0.02}),
}  # fmt: skip


@pytest.mark.parametrize("code", ALONE)
def test_a_rule_fires_from_a_run_that_the_workflow_made(code: str, stage: Stage) -> None:
    world, spec = ALONE[code]
    assert code in codes(stage.run(world, **spec))


def test_a_quiet_run_has_no_errors(stage: Stage) -> None:
    run = stage.run(World(), launches=5)
    assert not [each for each in run.record.findings if each.severity == "error"]


PAIRS: dict[str, tuple[World, World, dict[str, Any]]] = {
    "H06": (
        on_gpu(times=columns(host=1.1, gpu=1.0)),
        on_gpu(times=columns(host=1.1, gpu=1.0), clocks_hz=(1.5e9,)),
        {},
    ),
    "H25": (World(), World(), {"batch": 4}),
    "H27": (
        on_gpu(outcome={"conditions": stated(tf32=True)}),
        on_gpu(outcome={"conditions": stated(tf32=False)}),
        {},
    ),
    "H28": (World(), World(machine=environment(host="another", cpu="another")), {}),
}


@pytest.mark.parametrize("code", PAIRS)
def test_a_rule_fires_from_a_comparison_of_such_runs(code: str, stage: Stage) -> None:
    first, second, spec = PAIRS[code]
    runs = stage.run(first), stage.run(second, **spec)
    assert code in codes(comparison_from_runs(*runs))


def test_old_numbers_are_told_from_new_ones(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    new = stage.run(World())
    monkeypatch.setattr(launches, "now", lambda: "2020-01-01T00:00:00+00:00")
    assert "H45" in codes(comparison_from_runs(stage.run(World()), new))


def in_turn(run: Run, side: int, *, solo_s: float | None = None) -> Run:
    """The run as one side of a duet of five launches, second places slower."""
    launch = np.repeat(np.arange(5), 120)
    second = np.tile([0.0, 1.0], 300)
    host = steady() * (1 + 0.05 * second)
    facts = tuple(LaunchFacts(wall_s=1.0, solo_median_s=solo_s) for _ in range(5))
    record = run.record.having(duet=DuetRef(id="d", side=side, design="duet"), launches=facts)
    times = IterationTimes(host=host, launch=launch, stamps={"second": second})
    return replace(run, record=record, times=times)


def test_sides_in_turn_show_their_order_and_what_turns_cost(stage: Stage) -> None:
    runs = stage.run(World()), stage.run(World())
    found = codes(comparison_from_runs(in_turn(runs[0], 0), in_turn(runs[1], 1)))
    assert "H33" in found
    moved = comparison_from_runs(in_turn(runs[0], 0, solo_s=1e-3), in_turn(runs[1], 1, solo_s=5e-4))
    assert "H32" in codes(moved)


def test_many_comparisons_and_lost_accuracy_are_told_beside_a_pair(stage, tmp_path):
    first = stage.run(World())
    stage.model = tiny_model(tmp_path / "other.onnx")
    second = stage.run(World())
    for run, value in ((first, 0.9), (second, 0.5)):
        sha256 = run.record.spec.model.sha256
        assert sha256 is not None
        interval = Interval(low=value - 0.01, high=value + 0.01, level=0.95, meaning="top1")
        score = Score(metric="top1", value=value, interval=interval)
        kept = Scores(sha256=sha256, scores=(score,))
        (results_folder(stage.store, sha256) / SCORES).write_bytes(json_from_value(kept))
    comparison = comparison_from_runs(first, second)
    sides, more = (first, second), {"comparisons": 3, "store": stage.store}
    found = with_further_findings(comparison, sides, **more)
    assert {"H34", "H43"} <= codes(found)


def test_an_imported_summary_lacks_what_it_takes_to_compare_it(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(
        "=== Performance summary ===\nThroughput: 600 qps\n"
        "Latency: min = 1 ms, max = 2 ms, mean = 1.5 ms, median = 1.5 ms\n"
    )
    found = import_artefacts(ImportRequest(paths=[log]), store=Store(tmp_path / "store"))
    assert found.runs
    assert "H44" in codes(found.runs[0].record)
