"""The demo: a small network in FP32 and INT8 on ONNX Runtime, measured, judged and reported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trtbench.analysis.scores import agreement, rank_of_label, top_k
from trtbench.compare.compare import compare
from trtbench.core.results import Compared, Feed
from trtbench.core.run import Run, Score, Scores
from trtbench.core.spec import RunSpec
from trtbench.data import demo_file
from trtbench.host.arrays import Chunks
from trtbench.measure.bench import run_bench
from trtbench.measure.jobs import stream, write_scores
from trtbench.requests.execution import Execution, Steps
from trtbench.requests.measure import BenchRequest, CompareRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.workflows.report import write_report

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
    files: tuple[Path, ...]


def run_demo(folder: Path, *, store: Store, config: Config, execution: Execution) -> Demo:
    """Measure both models at both batch sizes, judge them, compare them, and write the report."""
    steps = Steps(execution, len(MODELS) * len(BATCHES) + len(MODELS) + len(BATCHES) + 1)
    runs = {}
    for batch in BATCHES:
        for precision in MODELS:
            spec, step = _spec(precision, batch, config), steps.next(f"{precision}, batch {batch}")
            runs[precision, batch] = run_bench(spec, store=store, execution=step)
    scores = _scores(config, store, steps)
    compared = {}
    for batch in BATCHES:
        request = CompareRequest(
            baseline=demo_file(MODELS["fp32"]),
            candidates=[demo_file(MODELS["int8"])],
            runtime="onnxruntime",
            batch=batch,
            threads=1,
        )
        step = steps.next(f"int8 against fp32, batch {batch}")
        compared[batch] = compare(request, store=store, config=config, execution=step)[0]
    steps.next("report")
    shown = []
    for (precision, _), run in runs.items():
        assert run.path is not None
        write_scores(run.path, scores[precision])
        shown.append(replace(run, extra={"scores": scores[precision].by_metric()}))
    # The comparisons of the report are between the runs that it shows.
    comparisons = [
        found.comparison.having(baseline=runs["fp32", batch].id, candidate=runs["int8", batch].id)
        for batch, found in compared.items()
    ]
    files = write_report(
        shown, folder, title="trtbench demo", formats=("html", "md", "json", "png"),
        comparisons=comparisons,
    )  # fmt: skip
    return Demo(runs=tuple(shown), scores=scores, compared=compared, files=tuple(files))


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


def _scores(config: Config, store: Store, steps: Steps) -> dict[str, Scores]:
    """Accuracy of both models on the held-out images."""
    with np.load(demo_file("digits.npz")) as data:
        images, labels = data["images"].astype(np.float32) / 255, data["labels"]
    outputs = {}
    with store.scratch() as folder:
        inputs = folder / "digits-inputs.npz"
        np.savez(inputs, image=images)
        for precision in MODELS:
            spec, step = _spec(precision, 64, config, inputs), steps.next(f"{precision}, accuracy")
            work = folder / precision
            stream(spec, Feed(kind="arrays"), folder=work, store=store, execution=step)
            outputs[precision] = Chunks(work).whole()["logits"]
    found = {}
    for precision, logits in outputs.items():
        ranks = rank_of_label(logits, labels)
        scores: list[Score] = [top_k(ranks), top_k(ranks, k=5)]
        if precision != "fp32":
            scores.append(agreement(outputs["fp32"].argmax(axis=1), logits.argmax(axis=1)))
        sha256 = _spec(precision, 1, config).model.sha256
        data = f"{len(labels)} held-out digits"
        found[precision] = Scores(sha256=sha256, scores=tuple(scores), data=data)
    return found
