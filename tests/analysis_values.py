"""Runs and series for the tests of the analysis, made with fixed seeds."""

from typing import Any

import numpy as np

from trtbench.core.run import Environment, Fact, Gpu, LaunchFacts, Run, RunRecord
from trtbench.core.samples import Column, IterationTimes
from trtbench.core.spec import InputSpec, ModelRef, RunSpec, TensorSpec


def ar1(random: np.random.Generator, n: int, *, phi: float = 0.0, sd: float = 0.01) -> Column:
    """A stationary AR(1) series about one, with this standard deviation."""
    noise = random.normal(size=n + 100)
    series = np.empty(n + 100)
    series[0] = noise[0]
    for i in range(1, n + 100):
        series[i] = phi * series[i - 1] + noise[i]
    return 1 + sd * np.sqrt(1 - phi**2) * series[100:]


def duet(
    random: np.random.Generator,
    *,
    effect: float = 0.0,
    launches: int = 10,
    n: int = 150,
    machine: float = 0.18,
    launch_sd: float = 0.003,
) -> list[tuple[Column, Column]]:
    """Launches as seen on a shared machine: levels 18 % apart, bursts that hit both sides."""
    pairs = []
    for _ in range(launches):
        level = 6e-4 * np.exp(machine * random.normal())
        bursts = np.repeat(random.random(n // 10 + 1) < 0.15, 10)[:n] * random.gamma(2, 0.15)
        drift = 0.05 * (ar1(random, n, phi=0.8, sd=1.0) - 1)
        own = [np.abs(random.normal(scale=0.04, size=n)) for _ in range(2)]
        shift = np.log1p(effect) + launch_sd * random.normal()
        pairs.append(
            (
                level * np.exp(drift + bursts + own[0]),
                level * np.exp(drift + bursts + own[1] + shift),
            )
        )
    return pairs


def spec(**changes: Any) -> RunSpec:
    """A spec whose model is an ONNX file."""
    model = ModelRef(path="model.onnx", format="onnx", sha256="a" * 64)
    fields: dict[str, Any] = {"model": model, "runtime": "onnxruntime"}
    fields["inputs"] = InputSpec(source="data.npz")
    return RunSpec(**{**fields, **changes})


def environment(**changes: Any) -> Environment:
    """A quiet machine without anything to complain about."""
    fields: dict[str, Any] = {
        "host": "bench",
        "os": "Linux",
        "cpu": "cpu",
        "cpu_cores": 8,
        "cpu_physical_cores": 4,
        "cpu_governor": "performance",
        "virtual_machine": False,
        "load_before": (0.1, 0.1, 0.1),
        "versions": {"onnxruntime": "1.2"},
    }
    return Environment(**{**fields, **changes})


GPU = Gpu(
    name="NVIDIA H200",
    uuid="GPU-1",
    driver="580",
    sm_clock_hz=1.98e9,
    sm_clock_default_hz=1.98e9,
    power_limit_w=700.0,
    clocks_locked=True,
    l2_bytes=50 * 2**20,
)


def record(**changes: Any) -> RunRecord:
    """A record of a measured run with one input."""
    fields: dict[str, Any] = {
        "id": "run",
        "created": "2026-01-01T12:00:00+00:00",
        "spec": spec(),
        "environment": environment(),
        "inputs": (TensorSpec(name="x", dtype="float32", shape=(1, 3, 8, 8)),),
        "launches": (LaunchFacts(wall_s=1.0, steady=True),),
    }
    return RunRecord(**{**fields, **changes})


def run(times: IterationTimes, **changes: Any) -> Run:
    """A run with these times; launch facts match the launches."""
    count = 1 if times.launch is None else len(np.unique(times.launch))
    changes.setdefault("launches", tuple(LaunchFacts(steady=True) for _ in range(count)))
    return Run(record=record(**changes), times=times)


def stated(**values: Any) -> dict[str, Fact]:
    """Conditions that were recorded."""
    return {key: Fact(value=value) for key, value in values.items()}


def launches_of(parts: list[Column]) -> IterationTimes:
    """Host times of several launches."""
    index = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return IterationTimes(host=np.concatenate(parts), launch=index)
