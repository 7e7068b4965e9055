"""The demo: a small network in FP32 and INT8 on ONNX Runtime, measured, judged and reported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from trtbench.accuracy.evaluate import run_evaluation, scores_of
from trtbench.compare.compare import compare
from trtbench.core.results import Compared
from trtbench.core.run import Run, Scores
from trtbench.data import demo_file
from trtbench.measure.bench import run_bench
from trtbench.measure.jobs import write_scores
from trtbench.requests.accuracy import EvalRequest
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
    steps = Steps(execution, len(MODELS) * len(BATCHES) + len(BATCHES) + 2)
    runs = {}
    for batch in BATCHES:
        for precision in MODELS:
            request = BenchRequest(
                model=demo_file(MODELS[precision]),
                runtime="onnxruntime",
                batch=batch,
                duration=DURATION_S,
                launches=LAUNCHES,
                threads=1,
            )
            step = steps.next(f"{precision}, batch {batch}")
            spec = run_spec(request, config)
            runs[precision, batch] = run_bench(spec, store=store, execution=step)
    scores = _scores(config, store, steps.next("accuracy"))
    compared = {}
    for batch in BATCHES:
        sides = CompareRequest(
            baseline=demo_file(MODELS["fp32"]),
            candidates=[demo_file(MODELS["int8"])],
            runtime="onnxruntime",
            batch=batch,
            threads=1,
        )
        step = steps.next(f"int8 against fp32, batch {batch}")
        compared[batch] = compare(sides, store=store, config=config, execution=step)[0]
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


def _scores(config: Config, store: Store, execution: Execution) -> dict[str, Scores]:
    """Accuracy of both models on the held-out images."""
    with store.scratch() as folder:
        request = EvalRequest(
            models=[demo_file(name) for name in MODELS.values()],
            task="classification",
            data=demo_file("digits.npz"),
            runtime="onnxruntime",
            batch=64,
            threads=1,
            output=folder,
        )
        found = run_evaluation(request, store=store, config=config, execution=execution)
    return {name: scores_of(found, each) for name, each in zip(MODELS, found.models, strict=True)}
