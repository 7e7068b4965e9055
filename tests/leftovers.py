"""What trtexec and toolkits leave behind, of our own making: a log prints what its times give."""

import json
from pathlib import Path
from typing import Any

import numpy as np

import samples
from standin.standin_statistics import statistics
from trtbench.trtexec.times import read_times

STAMP = "[03/04/2025-05:06:07] [I] "
KEYS = ("Enq", "H2d", "Compute", "D2h")
LAYERS = ("conv1 + relu1", "PWN(sigmoid, mul)", "fc")


def times_text(
    *,
    rows: int = 80,
    gpu_ms: float = 2.0,
    first_ms: float = 203.0,
    transfers: bool = True,
    seed: int = 0,
) -> str:
    """Write a times file of TensorRT 8.4 (beginning early) or later, with six digits."""
    draw = np.random.default_rng(seed)
    lines = []
    at = np.float32(first_ms)
    for _ in range(rows):
        spans = [np.float32(s) for s in ((0.25, 0.0625) if transfers else (0.0, 0.0))]
        ends = [at]
        for span in (spans[0], np.float32(gpu_ms * draw.uniform(0.95, 1.2)), spans[1]):
            ends.append(ends[-1] + span)
        stamps = [at - 1, at - np.float32(0.75), ends[0], ends[1], ends[1], ends[2]]
        stamps += [ends[2], ends[3]]
        names = [f"{word}{key}Ms" for key in KEYS for word in ("start", "end")]
        h2d, gpu, d2h = (ends[i + 1] - ends[i] for i in range(3))
        values = [*stamps, h2d, gpu, d2h, h2d + gpu + d2h]
        pairs = zip([*names, "h2dMs", "computeMs", "d2hMs", "latencyMs"], values, strict=True)
        lines.append("{ " + ", ".join(f'"{k}" : {float(v):.6g}' for k, v in pairs) + " }")
        at = ends[3] + np.float32(0.5)
    return "[\n  " + "\n, ".join(lines) + "\n]\n"


def log_text(
    times: str | None,
    *,
    version: str = "8601",
    engine: str = "net.engine",
    flags: str = "",
    warmup_ms: float = 200,
    options: bool = True,
    batch: int = 4,
    end: str = "PASSED",
) -> str:
    """Write a log whose performance summary is that of the times."""
    command = f"trtexec --loadEngine={engine} {flags}".strip()
    begin = f"&&&& RUNNING TensorRT.trtexec [TensorRT v{version}] # {command}"
    lines = [begin, *(_options(engine, warmup_ms) if options else [])]
    lines += [
        f"{STAMP}Input binding for x with dimensions {batch}x3x8x8 is created.",
        f"{STAMP}Output binding for y with dimensions {batch}x10 is created.",
    ]
    if times is not None:
        lines += _summary(times, warmup_ms)
    lines.append(f"&&&& {end} TensorRT.trtexec [TensorRT v{version}] # {command}")
    return "\n".join(lines) + "\n"


def _options(engine: str, warmup_ms: float) -> list[str]:
    blocks = {
        "Model Options": ["Format: *", "Model: "],
        "Build Options": ["Precision: FP32", f"Load engine: {engine}"],
        "Inference Options": [
            "Batch: 1", "Iterations: 10", f"Duration: 3s (+ {warmup_ms:g}ms warm up)",
            "Inference Streams: 1", "ExposeDMA: Disabled", "Data transfers: Enabled",
            "Spin-wait: Disabled", "CUDA Graph: Disabled", "Separate profiling: Enabled",
        ],
        "Reporting Options": ["Averages: 10 inferences", "Percentiles: 90,95,99"],
        "Device Information": [
            "Selected Device: Test GPU", "Compute Capability: 9.0", "SMs: 132",
            "Device Global Memory: 143155 MiB", "Application Compute Clock Rate: 1.98 GHz",
            "Memory Bus Width: 6016 bits (ECC enabled)",
        ],
    }  # fmt: skip
    lines = []
    for name, entries in blocks.items():
        lines += [f"{STAMP}=== {name} ===", *(STAMP + entry for entry in entries), STAMP]
    return lines


def _summary(times: str, warmup_ms: float) -> list[str]:
    columns = read_times(times.encode(), where="made", warmup_ms=0.0)[0].columns
    first = int(np.argmax(columns["startComputeMs"] >= warmup_ms))
    found = statistics({key: column[first:] for key, column in columns.items()}, [90, 95, 99])
    lines = [f"Timing trace has {found.rows} queries over {found.wall_s:.6g} s"]
    lines += ["=== Performance summary ===", f"Throughput: {found.throughput_qps:.6g} qps"]
    for label, metric in found.metrics.items():
        lines.append(f"{label}: " + ", ".join(f"{n} = {v:.6g} ms" for n, v in metric.items()))
    lines.append(f"Total Host Walltime: {found.wall_s:.6g} s")
    return [STAMP + line for line in lines]


def profile_text(*, count: int = 100, names: tuple[str, ...] = LAYERS) -> str:
    """Write a layer profile; the first layer takes half of the time."""
    others = (len(names) - 1) or 1
    times = [count * 1.0, *([count / others] * (len(names) - 1))]
    return samples.profile_text(list(zip(names, times, strict=True)), count=count)


def graph_text(*, names: tuple[str, ...] = LAYERS, batch: int = 4) -> str:
    """Write layer information whose first layer reads x and whose last writes y."""
    layers = []
    for place, name in enumerate(names):
        ends = {"Inputs": f"t{place}", "Outputs": f"t{place + 1}"}
        if place == 0:
            ends["Inputs"] = "x"
        if place == len(names) - 1:
            ends["Outputs"] = "y"
        tensors = {
            side: [{"Name": t, "Dimensions": [batch, 8], "Format/Datatype": "Half"}]
            for side, t in ends.items()
        }
        layers.append({"Name": name, "LayerType": "gemm", **tensors})
    return json.dumps({"Layers": layers, "Bindings": ["x", "y"]})


def run_set(folder: Path, stem: str = "net", *, seed: int = 0, **options: Any) -> Path:
    """Write ``stem.times.json``, profile, graph and log of one run."""
    folder.mkdir(parents=True, exist_ok=True)
    times = times_text(seed=seed)
    (folder / f"{stem}.times.json").write_text(times)
    (folder / f"{stem}.profile.json").write_text(profile_text())
    (folder / f"{stem}.graph.json").write_text(graph_text())
    (folder / f"{stem}.log").write_text(log_text(times, **options))
    return folder


def folder_000(folder: Path, *, batch: int = 4) -> Path:
    """Write a run folder of the trtexec evaluation toolkit, its own results included."""
    folder.mkdir(parents=True, exist_ok=True)
    times = times_text()
    config = {
        "timestamp_iso": "2025-09-18T10:11:12+08:00", "batch": batch, "iterations": 200,
        "warmup": 200, "avg_runs": 100, "use_cuda_graph": False, "profile_enabled": True,
        "separate_profile_run": True, "trtexec_binary": "/opt/trtexec",
        "command": "/opt/trtexec --loadEngine=/models/pose.engine --warmUp=200", "outdir": "out",
    }  # fmt: skip
    engine = {
        "path": "/models/pose.engine", "filename": "pose.engine", "size_bytes": 1048576,
        "size_megabytes": 1.0, "modified_iso": "2025-09-17T00:00:00+08:00",
    }  # fmt: skip
    latency = read_times(times.encode(), where="made")[0].columns["latencyMs"]
    files = {
        "times.json": times,
        "profile.json": profile_text(),
        "trtexec_stdout.log": "[toolkit] run\n" + log_text(times, engine="/models/pose.engine"),
        "run_config.json": json.dumps(config),
        "engine_metadata.json": json.dumps(engine),
        "summary.json": json.dumps(summary_000(latency, batch=batch)),
        "latency_series.csv": series_text(latency),
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def summary_000(latency_ms: Any, *, batch: int = 4) -> dict[str, Any]:
    block = {
        "count": len(latency_ms), "min_ms": float(np.min(latency_ms)),
        "max_ms": float(np.max(latency_ms)), "mean_ms": float(np.mean(latency_ms)),
        "median_ms": float(np.median(latency_ms)),
        "percentiles_ms": {"p99": float(np.percentile(latency_ms, 99)), "p99_9": 9.0},
    }  # fmt: skip
    rate = batch * 1000 / block["mean_ms"]
    return {
        "batch": batch,
        "samples": len(latency_ms),
        "throughput_qps": rate,
        "latency": block,
        "enqueue": {"count": 0},
    }


def series_text(values: Any) -> str:
    return "latency_ms\n" + "".join(f"{float(value)}\n" for value in values)


def torch_result() -> dict[str, Any]:
    """Find the trtexec evaluation toolkit's result of PyTorch."""
    row = {"min": 4.0, "max": 9.0, "mean": 5.0, "median": 4.5, "p90": 6.0, "p95": 7.0, "p99": 8.0}
    return {
        "model_path": "yolo.pt", "device": "cuda:0", "batch": 2, "shape": [2, 1, 640, 640],
        "dtype": "fp16", "tf32": False, "iters": 2000, "warmup": 200, "throughput_qps": 200.0,
        "total_host_walltime_s": 10.0,
        "metrics": {"host": row, "gpu": {name: value / 2 for name, value in row.items()}},
    }  # fmt: skip


def torch_csv() -> str:
    head = "metric,min,max,mean,median,p90,p95,p99\n"
    return head + "host,4.0,9.0,5.0,4.5,6.0,7.0,8.0\n"
