"""The Python API: the command line's verbs as functions, same specs, same workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trtbench.analysis.layers.columns import rows_from_diff
from trtbench.analysis.layers.why import Why
from trtbench.analysis.summary import Summary, summary_from_run
from trtbench.domain.result import Comparison, FailedRun, Run
from trtbench.store.index import Entry
from trtbench.store.store import Store
from trtbench.workflows.check.check import run_check
from trtbench.workflows.check.check_files import join_checks, write_check
from trtbench.workflows.check.evaluate import Evaluation, run_evaluation
from trtbench.workflows.check.evaluate_files import join, write_evaluation
from trtbench.workflows.check.values import Checked
from trtbench.workflows.compare.compare import compare as compare_sides
from trtbench.workflows.compare.gate import Gate
from trtbench.workflows.compare.gate import gate as hold_to_rules
from trtbench.workflows.explain.engines import diff_of, two_engines, why_of
from trtbench.workflows.explain.ladder import (
    Explanation,
    explain_measured,
    explain_stated,
    named_run,
)
from trtbench.workflows.explain.layers import frame_of, layer_rows
from trtbench.workflows.explain.source import engine_from_words
from trtbench.workflows.importing.run import ImportResult
from trtbench.workflows.importing.run import import_artefacts as import_files
from trtbench.workflows.look.doctor import Diagnosis, diagnose
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.comparing import CompareRequest, GateRequest
from trtbench.workflows.request.conduct import Conduct, conduct_from_request
from trtbench.workflows.request.config import Config, load_config, open_store
from trtbench.workflows.request.judging import CheckRequest, EvalRequest
from trtbench.workflows.request.keeping import ImportRequest
from trtbench.workflows.request.measuring import BenchRequest
from trtbench.workflows.request.spec import run_spec
from trtbench.workflows.stored.report import FORMATS, load_runs, write_report
from trtbench.workflows.stored.runs import list_runs
from trtbench.workflows.sweep.journal import SWEEP
from trtbench.workflows.sweep.matrix import matrix_from_file, matrix_from_table
from trtbench.workflows.sweep.plan import plan_sweep
from trtbench.workflows.sweep.result import Results, results_from_sweep
from trtbench.workflows.sweep.run import carry_out, start_sweep

Model = str | Path


def bench(model: Model, *, store: Model | None = None, **asked: Any) -> Run:
    """Measure a model in fresh processes and keep the run.

    ``asked`` are the fields of ``BenchRequest``, the flags of ``trtbench bench``. Durations are
    seconds or text with a unit (``"500ms"``). Raises ``TrtbenchError``; a launch that breaks
    leaves a ``FailedRun`` in the store.

    >>> run = trtbench.bench("model.onnx", batch=8, launches=5)
    >>> run.times.host                  # seconds, one row per iteration
    >>> print(run)
    """
    opened, config = _open(store)
    request = BenchRequest(model=model, store=store, **asked)
    spec = run_spec(request, config)
    conduct = conduct_from_request(request, config, runtime=spec.runtime)
    return run_bench(spec, store=opened, conduct=conduct)


def compare(
    baseline: Model, *candidates: Model, store: Model | None = None, **asked: Any
) -> Comparison:
    """Compare two models, engines or stored runs; files are measured in turn with each other."""
    opened, config = _open(store)
    request = CompareRequest(baseline=baseline, candidates=candidates, store=store, **asked)
    return compare_sides(request, store=opened, config=config)[0].comparison


def gate(candidate: Model, *, store: Model | None = None, **asked: Any) -> Gate:
    """Hold a candidate to rules such as ``p99<5ms``; ``.open`` tells whether all are met."""
    opened, config = _open(store)
    request = GateRequest(candidate=candidate, store=store, **asked)
    return hold_to_rules(request, store=opened, config=config)


def check(
    reference: Model, *candidates: Model, store: Model | None = None, **asked: Any
) -> Checked:
    """Run every side on the same inputs and compare each candidate with the reference.

    Inputs are random, rows of a file, or ``images`` with the preprocessing of a task and its
    ``settings``.

    >>> checked = trtbench.check("model.onnx", "model.int8.onnx", random=500)
    >>> checked.candidates[0].checks[0].sqnr_db
    """
    opened, config = _open(store)
    request = CheckRequest(reference=reference, candidates=candidates, store=store, **asked)
    checked = run_check(request, store=opened, config=config)
    write_check(checked, Path(request.output))
    join_checks(checked, opened)
    return checked


def evaluate(*models: Model, store: Model | None = None, **asked: Any) -> Evaluation:
    """Evaluate models on data with known answers; runs of the same bytes carry the scores.

    ``settings`` are the flags of the task, with underscores: ``{"gt": "truth", "align": "none"}``.

    >>> found = trtbench.evaluate("model.onnx", task="classification", data="val", batch=8)
    >>> found.models[0].score("top1").value
    """
    opened, config = _open(store)
    request = EvalRequest(models=models, store=store, **asked)
    found = run_evaluation(request, store=opened, config=config)
    found = join(found, opened, runs=request.join)
    write_evaluation(found, Path(request.output))
    return found


def sweep(
    matrix: Model | Mapping[str, Any], *, output: Model, store: Model | None = None
) -> Results:
    """Measure every case of a matrix, a file or a mapping of the same keys; goes on where it ended.

    >>> trtbench.sweep({"models": ["model.onnx"], "batch": [1, 8]}, output="sweep").rows
    """
    opened, config = _open(store)
    folder = Path(output)
    if not (folder / SWEEP).is_file():
        given = (
            matrix_from_table(matrix, where="the matrix")
            if isinstance(matrix, Mapping)
            else matrix_from_file(Path(matrix))
        )
        plan_sweep(given, config=config)  # what has no meaning leaves no folder
        start_sweep(given, folder, store=opened)
    done = carry_out(folder, store=opened, config=config, conduct=Conduct())
    return results_from_sweep(done, store=opened)


def load(name: Model, *, store: Model | None = None) -> Run | FailedRun:
    """Read a stored run by id, the beginning of it, ``last``, ``tag:NAME`` or folder."""
    return _open(store)[0].load(str(name))


def runs(*, store: Model | None = None, **filters: Any) -> list[Entry]:
    """List stored runs, newest first: by model, runtime, tag, since, until, failed, limit."""
    return list_runs(_open(store)[0], **filters)


def summary(run: Run) -> Summary:
    """Compute every statistic of a run."""
    return summary_from_run(run)


def report(
    *names: Model,
    output: Model,
    formats: Sequence[str] = FORMATS,
    title: str | None = None,
    store: Model | None = None,
) -> list[Path]:
    """Write one document about any number of stored runs."""
    found, failed = load_runs([str(name) for name in names], store=_open(store)[0])
    return write_report(found, Path(output), failed=failed, title=title, formats=formats)


def layers(
    *source: Model,
    by: str | None = None,
    pattern: str | None = None,
    onnx: Model | None = None,
    gpu: str | None = None,
    store: Model | None = None,
) -> Any:
    """Give the layers of a run or of trtexec's files, or groups of them, as a pandas DataFrame."""
    engine = engine_from_words(
        [str(word) for word in source],
        store=_open(store)[0],
        onnx=Path(onnx) if onnx is not None else None,
        gpu=gpu,
    )
    return frame_of(layer_rows(engine, by=by, pattern=pattern))


def diff(a: Model, b: Model, *, store: Model | None = None, **given: Any) -> Any:
    """Align the layers of two engines and give what differs as a pandas DataFrame."""
    engines = two_engines(str(a), str(b), store=_open(store)[0], **given)
    return frame_of(rows_from_diff(diff_of(*engines)))


def why(baseline: Model, candidate: Model, *, store: Model | None = None, **given: Any) -> Why:
    """Find why a candidate is not faster: causes by what they explain."""
    return why_of(*two_engines(str(baseline), str(candidate), store=_open(store)[0], **given))


def explain(
    run: Model, *, against: Model, measure: bool = False, store: Model | None = None
) -> Explanation:
    """Make a ladder of two numbers that differ: from what both runs state, or measured."""
    place, config = _open(store)
    a, b = (named_run(str(name), place) for name in (run, against))
    if not measure:
        return explain_stated(a, b)
    conduct = Conduct(python=config.python_for(a.record.spec.runtime))
    return explain_measured(a, b, store=place, conduct=conduct)


def import_artefacts(*paths: Model, store: Model | None = None, **wishes: Any) -> ImportResult:
    """Make ordinary runs of what trtexec or the toolkits around it have left behind."""
    return import_files(ImportRequest(paths=paths, **wishes), store=_open(store)[0])


def doctor() -> Diagnosis:
    """Look at what works here, and what to type to get the rest."""
    return diagnose()


def _open(store: Model | None) -> tuple[Store, Config]:
    config = load_config(store=str(store) if store is not None else None)
    return open_store(config), config
