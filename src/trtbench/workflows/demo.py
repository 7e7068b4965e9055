"""The demo: a small network in FP32 and INT8 on ONNX Runtime, measured, judged and reported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.classification import agreement, top_k
from trtbench.data import demo_file
from trtbench.domain.comparison import Comparison
from trtbench.domain.result import Run, Score, Scores
from trtbench.domain.spec import RunSpec
from trtbench.store.store import Store
from trtbench.workflows.compare.compare import Compared, compare
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.measure.infer import infer, write_scores
from trtbench.workflows.request.comparing import CompareRequest
from trtbench.workflows.request.conduct import Conduct, Steps
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.measuring import BenchRequest
from trtbench.workflows.request.spec import run_spec
from trtbench.workflows.stored.report import write_report

MODELS = {"fp32": "digits.onnx", "int8": "digits.int8.onnx"}
BATCHES = (1, 16)
LAUNCHES = 3
DURATION_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the demo found."""

    runs: tuple[Run, ...]
    scores: dict[str, Scores]
    compared: dict[int, Compared]
    """INT8 against FP32, by batch."""
    files: tuple[Path, ...]


def run_demo(folder: Path, *, store: Store, config: Config, conduct: Conduct) -> Demo:
    """Measure both models at both batch sizes, judge them, compare them, and write the report."""
    work = len(MODELS) * len(BATCHES) + len(MODELS) + len(BATCHES) + 1
    steps = Steps(conduct, work)
    runs = {
        (precision, batch): run_bench(
            _spec(precision, batch, config),
            store=store,
            conduct=steps.next(f"{precision}, batch {batch}"),
        )
        for batch in BATCHES
        for precision in MODELS
    }
    with store.scratch() as scratch:
        inputs, labels = _examples(scratch)
        scores = _scores(inputs, labels, config, store, steps)
    for (precision, _), run in runs.items():
        assert run.path is not None
        write_scores(run.path, scores[precision])
    compared = {batch: _compare(batch, config, store, steps) for batch in BATCHES}
    steps.next("report")
    carriers = [
        replace(run, extra={"scores": {s.metric: s for s in scores[precision].scores}})
        for (precision, _), run in runs.items()
    ]
    comparisons = [_as_runs(compared[batch], runs, batch) for batch in BATCHES]
    files = write_report(
        carriers, folder, title="trtbench demo", formats=("html", "md", "json", "png"),
        comparisons=comparisons,
    )  # fmt: skip
    return Demo(runs=tuple(carriers), scores=scores, compared=compared, files=tuple(files))


def _spec(precision: str, batch: int, config: Config, inputs: Path | None = None) -> RunSpec:
    request = BenchRequest(
        model=demo_file(MODELS[precision]),
        runtime="onnxruntime",
        batch=batch,
        duration=DURATION_S,
        launches=LAUNCHES,
        threads=1,
        inputs=inputs,
    )
    return run_spec(request, config)


def _examples(folder: Path) -> tuple[Path, NDArray[np.integer]]:
    """Put the held-out images into the form the network takes."""
    with np.load(demo_file("digits.npz")) as data:
        images, labels = data["images"].astype(np.float32) / 255, data["labels"]
    path = folder / "digits-inputs.npz"
    np.savez(path, image=images)
    return path, labels


def _scores(
    inputs: Path, labels: NDArray[np.integer], config: Config, store: Store, steps: Steps
) -> dict[str, Scores]:
    outputs = {
        precision: infer(
            _spec(precision, 64, config, inputs),
            store=store,
            conduct=steps.next(f"{precision}, accuracy"),
        )["logits"]
        for precision in MODELS
    }
    found = {}
    for precision, logits in outputs.items():
        scores: list[Score] = [top_k(logits, labels), top_k(logits, labels, k=5)]
        if precision != "fp32":
            scores.append(agreement(outputs["fp32"], logits))
        sha256 = _spec(precision, 1, config).model.sha256
        data = f"{len(labels)} held-out digits"
        found[precision] = Scores(sha256=sha256, scores=tuple(scores), data=data)
    return found


def _compare(batch: int, config: Config, store: Store, steps: Steps) -> Compared:
    request = CompareRequest(
        baseline=demo_file(MODELS["fp32"]),
        candidates=[demo_file(MODELS["int8"])],
        runtime="onnxruntime",
        batch=batch,
        threads=1,
    )
    conduct = steps.next(f"int8 against fp32, batch {batch}")
    return compare(request, store=store, config=config, conduct=conduct)[0]


def _as_runs(compared: Compared, runs: dict[tuple[str, int], Run], batch: int) -> Comparison:
    """Let a comparison speak of the runs that stand in the report."""
    return compared.comparison.having(
        baseline=runs["fp32", batch].id, candidate=runs["int8", batch].id
    )
