"""Stores full of runs that were never measured: written straight to disk, quickly."""

import datetime
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trtbench.core import run
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import ModelRef, RunSpec, TensorSpec
from trtbench.store.directory import Cached, Entry, entry_from_record, write_record, write_samples
from trtbench.store.store import Store

START = datetime.datetime(2026, 1, 1, 6, tzinfo=datetime.timezone.utc)
WIDTHS = {"resnet18": 3.0, "mobilenet_v2": 1.6, "yolov8n-pose": 5.2, "depth_small": 11.0}
FASTER = {"fp32": 1.0, "fp16": 0.55, "int8": 0.38}


def record(
    number: int,
    *,
    model: str = "net.onnx",
    created: datetime.datetime | None = None,
    runtime: str = "onnxruntime",
    precision: str | None = None,
    batch: int = 1,
    versions: dict[str, str] | None = None,
    host: str = "lab-1",
    machine: str | None = None,
    gpu: str | None = None,
    driver: str = "570.10",
    tags: tuple[str, ...] = (),
    sha256: str = "ab" * 32,
    findings: tuple[run.Finding, ...] = (),
) -> run.RunRecord:
    """One run; its number makes its id, and its time where none is given."""
    when = created or START + datetime.timedelta(days=number)
    gpus = (run.Gpu(name=gpu, uuid=f"GPU-{host}", driver=driver),) if gpu else ()
    return run.RunRecord(
        id=f"{when:%Y%m%d-%H%M%S}-{number:06x}",
        created=when.isoformat(timespec="milliseconds"),
        spec=RunSpec(
            model=ModelRef(
                path=f"/models/{model}", format="onnx", sha256=sha256, size_bytes=42_000_000
            ),
            runtime=runtime, precision=precision, batch=batch, threads=None if gpu else 2,
        ),
        environment=run.Environment(
            host=host, machine=machine, os="Linux 6.1", cpu="Xeon", cpu_cores=8,
            python="3.11.7", gpus=gpus,
            versions=versions or {"onnxruntime": "1.20.0"}, git_commit=f"{number // 10:040x}",
        ),
        inputs=(TensorSpec(name="image", dtype="float32", shape=(batch, 3, 224, 224)),),
        conditions={
            "transfers": run.Fact(value=True), "tf32": run.Fact(value=False),
            **({} if precision is None else {"precision": run.Fact(value=precision)}),
        },
        launches=(run.LaunchFacts(load_s=0.1, first_s=0.01, warmup_s=0.2),) * 2,
        tags=tags,
        findings=findings,
    )  # fmt: skip


def failed(number: int, *, model: str, created: datetime.datetime) -> run.FailedRun:
    like = record(number, model=model, created=created)
    return run.FailedRun(
        id=like.id, created=like.created, spec=like.spec, environment=like.environment,
        stage="measure", reason="ended by SIGKILL (the kernel does that when memory runs out)",
        signal="SIGKILL", log_tail=("allocating", "Killed"),
    )  # fmt: skip


def add_series(
    store: Store, medians: Sequence[float], records: Sequence[run.RunRecord]
) -> list[str]:
    """Store runs with these medians, in seconds."""
    add(store, [(each, median) for each, median in zip(records, medians, strict=True)])
    return [each.id for each in records]


def add(
    store: Store, made: Sequence[tuple[run.AnyRecord, float | None]], *, samples: int = 60
) -> None:
    """Write directories and index them."""
    rng = np.random.default_rng(0)
    shape = np.exp(0.02 * np.abs(rng.standard_normal(samples)))
    shape /= np.median(shape)
    entries: list[Entry] = []
    for each, median in made:
        folder = store.runs / each.id
        folder.mkdir(parents=True)
        cached = None
        if isinstance(each, run.RunRecord) and median is not None:
            write_samples(folder, _times(shape * median))
            rate = (each.spec.batch or 1) / median
            cached = Cached(samples=samples, median_s=median, items_per_s=rate)
        write_record(folder, each)
        path = str(folder.relative_to(store.root))
        entries.append(entry_from_record(each, path=path, cached=cached))
    for entry in entries:
        store.index.put_all([entry])


def fill_store(root: Path, *, count: int) -> Store:
    """Make a store of several models on two machines over a year, with changes to be found."""
    store = Store(root)
    rng = np.random.default_rng(1)
    kinds = [
        (model, runtime, precision, batch)
        for model in WIDTHS
        for runtime, precision in (
            ("onnxruntime", None),
            ("tensorrt", "fp16"),
            ("tensorrt", "int8"),
        )
        for batch in (1, 8)
    ]
    made: list[tuple[run.AnyRecord, float | None]] = []
    for number in range(count):
        model, runtime, precision, batch = kinds[number % len(kinds)]
        day = number // len(kinds)
        when = START + datetime.timedelta(days=7 * day, minutes=5 * (number % len(kinds)))
        made.append(_one(rng, number, day, when, model, runtime, precision, batch))
    add(store, made)
    return store


def _one(
    rng: np.random.Generator,
    number: int,
    day: int,
    when: datetime.datetime,
    model: str,
    runtime: str,
    precision: str | None,
    batch: int,
) -> tuple[run.AnyRecord, float | None]:
    if number % 97 == 96:
        return failed(number, model=f"{model}.onnx", created=when), None
    on_gpu = runtime == "tensorrt"
    slower = 1.12 if on_gpu and day >= 20 and model == "resnet18" else 1.0
    median = 1e-3 * WIDTHS[model] * FASTER[precision or "fp32"] * slower * batch**0.8
    median *= (0.25 if on_gpu else 3.0) * float(np.exp(rng.normal(0, 0.01)))
    version = "10.9.0" if day < 20 else "10.13.2"
    warning = run.Finding(
        code="H07", severity="warning", message="the machine was busy", remedy="try again"
    )
    made = record(
        number,
        model=f"{model}.{precision}.engine" if on_gpu else f"{model}.onnx",
        created=when,
        runtime=runtime,
        precision=precision,
        batch=batch,
        versions={"tensorrt": version} if on_gpu else {"onnxruntime": "1.20.0"},
        host="gpu-box" if on_gpu else "lab-1",
        gpu="NVIDIA RTX A4000" if on_gpu else None,
        tags=("release",) if day == 10 else (),
        findings=(warning,) if number % 13 == 0 else (),
    )
    return made, median


def _times(host: np.ndarray) -> IterationTimes:
    half = np.repeat((0, 1), (len(host) // 2, len(host) - len(host) // 2))
    return IterationTimes(host=host, start=np.cumsum(host), launch=half)
