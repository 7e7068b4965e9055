"""Runs made up for the tests, with every kind of column and name a report may meet."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trtbench.core import run as records
from trtbench.core import samples
from trtbench.core.run import Environment, Fact, FailedRun, Finding, LaunchFacts, Run, RunRecord
from trtbench.core.spec import ModelRef, Precision, RunSpec, TensorSpec

NASTY = "<script>alert(1)<b>|a`b`\n# 模型_*x*[y](z)$\x00"
WARNING = Finding(
    code="H15",
    severity="warning",
    message="the load was high | before",
    evidence={"load": 2.31},
    remedy="stop other work",
)


def host_column(count: int = 2000, *, base_s: float = 1e-3, seed: int = 0) -> np.ndarray:
    """Make independent times with a right tail, as a quiet machine gives them."""
    random = np.random.default_rng(seed)
    times = base_s * (1 + 0.02 * random.standard_normal(count) + 0.05 * random.gamma(1, 1, count))
    times[:: max(2, count // 10)] *= 4
    return times


def made_times(count: int = 2000, *, base_s: float = 1e-3, seed: int = 0) -> samples.IterationTimes:
    """Make times with host and start only, as a runtime on the processor gives them."""
    host = host_column(count, base_s=base_s, seed=seed)
    return samples.times_from_columns({"host": host, "start": np.cumsum(host) - host})


def phased_times(count: int = 500, *, seed: int = 0) -> samples.IterationTimes:
    """Make times with every phase, as a runtime on a GPU gives them."""
    host = host_column(count, seed=seed)
    parts = {"h2d": 0.1, "gpu": 0.6, "d2h": 0.05, "enqueue": 0.2, "latency": 0.75}
    columns = {name: host * share for name, share in parts.items()}
    return samples.times_from_columns({"host": host, "start": np.cumsum(host) - host, **columns})


def made_profile(count: int = 5, *, name: str = "conv") -> samples.LayerProfile:
    """Make a profile of 100 passes; the last two layers share name and time."""
    averages = [1e-6 * (place + 1) for place in range(count)]
    names = [f"{name}{place}" for place in range(count)]
    if count > 1:
        averages[-1], names[-1] = averages[-2], names[-2]
    total = sum(averages)
    layers = [
        samples.LayerTime(name=n, total_s=100 * a, average_s=a, median_s=a * 0.9, share=a / total)
        for n, a in zip(names, averages, strict=True)
    ]
    return samples.LayerProfile(count=100, layers=tuple(layers))


def made_run(
    times: samples.IterationTimes | None = None,
    *,
    id: str = "run-1",
    model: str = "net.onnx",
    batch: int | None = 4,
    precision: Precision | None = "fp32",
    findings: tuple[Finding, ...] = (),
    host: str = "box",
    runtime: str = "onnxruntime",
    created: str = "2026-03-01T10:00:00+01:00",
    **rest: Any,
) -> Run:
    """Make a run around times."""
    record = RunRecord(
        id=id,
        created=created,
        spec=RunSpec(
            model=ModelRef(
                path=f"/models/{model}",
                format="torch" if runtime == "torch" else "onnx",
                size_bytes=3 * 2**20,
            ),
            runtime=runtime,
            batch=batch,
            precision=precision,
        ),
        environment=Environment(host=host, os="Linux", command=f"trtbench bench '{model}'"),
        findings=findings,
        launches=(LaunchFacts(),),
        facts={"executes_engine": runtime in ("tensorrt", "trtexec")},
        inputs=() if batch is None else (TensorSpec(name="x", dtype="float32", shape=(batch, 3)),),
        conditions={} if precision is None else {"precision": Fact(value=precision)},
    )
    return Run(record=record, times=made_times() if times is None else times, **rest)


def made_score(metric: str, value: float) -> dict[str, records.Score]:
    """Make a score, with an interval, as a run carries it."""
    interval = records.Interval(low=value - 0.01, high=value + 0.01, level=0.95, meaning="")
    return {metric: records.Score(metric=metric, value=value, interval=interval, count=360)}


def made_failure(*, model: str = "net.onnx", reason: str = "killed") -> FailedRun:
    """Make a failure with a log that Markdown could take for its own."""
    made = made_run(model=model).record
    return FailedRun(
        id="run-bad",
        created="2026-03-01T11:00:00+01:00",
        spec=made.spec,
        environment=made.environment,
        stage="warm-up",
        reason=reason,
        signal="SIGKILL",
        log_tail=("one ``` two", "</details>"),
    )


def made_graph(profile: samples.LayerProfile) -> samples.EngineGraph:
    """Make what an inspector would tell about the layers of a profile, in two precisions."""
    layers = []
    for place, layer in enumerate(profile.layers):
        dtype = "fp16" if place % 3 else "fp32"
        tensor = samples.TensorInfo(name=f"t{place}", dimensions=(1, 8), dtype=dtype)
        kind = "Convolution" if place % 2 else "PointWise"
        layers.append(
            samples.LayerInfo(
                name=layer.name, type=kind, outputs=(tensor,), weights_count=10 * place
            )
        )
    return samples.EngineGraph(layers=tuple(layers), io_tensors=("t0",))


def made_telemetry(count: int = 40) -> tuple[samples.TelemetrySample, ...]:
    """Make looks at a GPU that was busy, with one metric that it does not tell."""
    return tuple(
        samples.TelemetrySample(
            at_s=100 + 0.1 * place,
            gpu_util=0.9,
            memory_used_bytes=2 * 2**30,
            sm_clock_hz=1.4e9 + 1e6 * place,
            power_w=200.0 + place,
            temperature_c=55.0,
        )
        for place in range(count)
    )


def full_runs(folder: Path) -> list[Run]:
    """Make runs that fill every section there is."""
    picture = folder / "depth_comparison.png"
    Image.new("RGB", (1800, 300), "#446688").save(picture)
    profile = made_profile(40)
    torch = made_run(phased_times(seed=1), id="torch-1", runtime="torch", batch=1)
    engine = made_run(
        phased_times(seed=2), id="engine-1", runtime="tensorrt", precision="fp16", batch=1,
        findings=(WARNING,), layers=profile, graph=made_graph(profile), path=folder,
        telemetry=made_telemetry(),
    )  # fmt: skip
    engine.extra["build"] = {"build_s": 12.5, "peak_memory_bytes": 2**30, "tensorrt": "10.9"}
    engine.extra["checks"] = [{"output": "logits", "max_abs": 1e-3, "cosine": 0.9999, "ok": True}]
    engine.extra["output_comparison"] = {"max_abs_diff": 0.25, "outputs": {"a": {"mae": 0.1}}}
    engine.extra["pictures"] = ["depth_comparison.png"]
    days = {seed: f"2026-03-0{seed}T10:00:00Z" for seed in (3, 4, 5)}
    later = [
        made_run(phased_times(seed=seed), id=f"day-{seed}", batch=8, created=created)
        for seed, created in days.items()
    ]
    for place, run in enumerate((torch, engine)):
        run.extra["scores"] = made_score("top-1", 0.97 - 0.02 * place)
    return [engine, torch, *later]
