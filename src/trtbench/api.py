"""The Python API: the command line's verbs as functions, same specs, same workflows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trtbench.analysis.check import ATOL, RTOL
from trtbench.analysis.gate import rule_from_text, slowdown_rule
from trtbench.analysis.summary import Summary, summary_from_run
from trtbench.domain.result import Comparison, FailedRun, Run
from trtbench.store.index import Entry
from trtbench.store.store import Store
from trtbench.units import fraction_from_text
from trtbench.workflows.check.check import run_check
from trtbench.workflows.check.check_files import join_checks, write_check
from trtbench.workflows.check.evaluate import Asked as ToEvaluate
from trtbench.workflows.check.evaluate import Evaluation, run_evaluation
from trtbench.workflows.check.evaluate_files import join, write_evaluation
from trtbench.workflows.check.values import Asked as ToCheck
from trtbench.workflows.check.values import Checked, Inputs
from trtbench.workflows.compare.compare import compare as compare_sides
from trtbench.workflows.compare.gate import Gate
from trtbench.workflows.compare.gate import gate as hold_to_rules
from trtbench.workflows.compare.sides import Asked
from trtbench.workflows.importing.run import ImportResult
from trtbench.workflows.importing.run import import_artefacts as import_files
from trtbench.workflows.look.doctor import Diagnosis, diagnose
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config, load_config, open_store
from trtbench.workflows.request.spec import Duration, run_spec, seconds
from trtbench.workflows.stored.report import FORMATS, load_runs, write_report
from trtbench.workflows.stored.runs import list_runs
from trtbench.workflows.sweep.journal import SWEEP
from trtbench.workflows.sweep.matrix import matrix_from_file, matrix_from_table
from trtbench.workflows.sweep.plan import plan_sweep
from trtbench.workflows.sweep.result import Results, results_from_sweep
from trtbench.workflows.sweep.run import carry_out, start_sweep

Model = str | Path


def bench(
    model: Model,
    *,
    runtime: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch: int | None = None,
    warmup: Duration | None = None,
    duration: Duration | None = None,
    iterations: int | None = None,
    launches: int | None = None,
    inputs: Model | None = None,
    seed: int = 0,
    threads: int | None = None,
    options: Mapping[str, str] | None = None,
    python: Model | None = None,
    output: Model | None = None,
    tags: Iterable[str] = (),
    timeout: Duration | None = None,
    store: Model | None = None,
    **rest: Any,
) -> Run:
    """Measure a model in fresh processes and keep the run.

    Durations are seconds or text with a unit (``"500ms"``). ``rest`` takes the further fields of
    ``RunSpec``. Raises ``TrtbenchError``; a launch that breaks leaves a ``FailedRun`` in the store.

    >>> run = trtbench.bench("model.onnx", batch=8, launches=5)
    >>> run.times.host                  # seconds, one row per iteration
    >>> print(run)
    """
    opened, config = _open(store)
    spec = run_spec(
        model,
        config=config,
        runtime=runtime,
        shapes=shapes,
        batch=batch,
        warmup=warmup,
        duration=duration,
        iterations=iterations,
        launches=launches,
        inputs=inputs,
        seed=seed,
        threads=threads,
        options=options,
        **rest,
    )
    conduct = Conduct(
        python=str(python) if python else config.python_for(spec.runtime),
        timeout_s=seconds(timeout) if timeout is not None else None,
        tags=tuple(tags),
        output=Path(output) if output else None,
    )
    return run_bench(spec, store=opened, conduct=conduct)


def compare(
    baseline: Model,
    candidate: Model,
    *,
    launches: int | None = None,
    margin: float = 0.02,
    runtimes: Sequence[str | None] = (None,),
    pythons: Sequence[str | None] = (None,),
    accept: Iterable[str] = (),
    store: Model | None = None,
    **flags: Any,
) -> Comparison:
    """Compare two models, engines or stored runs; files are measured in turn with each other."""
    opened, config = _open(store)
    asked = Asked(
        launches=launches,
        most_launches=max(launches or 0, 40),
        margin=margin,
        accept=tuple(accept),
        flags=flags,
        runtimes=runtimes,
        pythons=pythons,
    )
    found = compare_sides(str(baseline), [str(candidate)], store=opened, config=config, asked=asked)
    return found[0].comparison


def gate(
    candidate: Model,
    *,
    against: Model | None = None,
    max_slowdown: float | str | None = None,
    metrics: Iterable[str] = (),
    store: Model | None = None,
    **flags: Any,
) -> Gate:
    """Hold a candidate to rules such as ``p99<5ms``; ``.open`` tells whether all are met."""
    opened, config = _open(store)
    rules = [rule_from_text(text) for text in metrics]
    if max_slowdown is not None:
        limit = fraction_from_text(max_slowdown) if isinstance(max_slowdown, str) else max_slowdown
        rules.append(slowdown_rule(limit))
    return hold_to_rules(
        str(candidate),
        rules,
        store=opened,
        config=config,
        against=str(against) if against is not None else None,
        asked=Asked(flags=flags),
    )


def check(
    reference: Model,
    *candidates: Model,
    random: int = 1000,
    seed: int = 0,
    inputs: Model | None = None,
    images: Model | None = None,
    task: str = "classification",
    settings: Mapping[str, Any] | None = None,
    limit: int | None = None,
    rtol: float = RTOL,
    atol: float = ATOL,
    classes: bool | None = None,
    runtimes: Sequence[str | None] = (None,),
    pythons: Sequence[str | None] = (None,),
    output: Model = "artifacts/check",
    store: Model | None = None,
    **flags: Any,
) -> Checked:
    """Run every side on the same inputs and compare each candidate with the reference.

    Inputs are random, rows of a file, or ``images`` with the preprocessing of a task and its
    ``settings``. ``flags`` are those of ``RunSpec``, such as ``batch``.

    >>> checked = trtbench.check("model.onnx", "model.int8.onnx", random=500)
    >>> checked.candidates[0].checks[0].sqnr_db
    """
    opened, config = _open(store)
    prepared = {**(settings or {}), "data": str(images), "unlabelled": True} if images else {}
    asked = ToCheck(
        inputs=Inputs(
            random=random,
            seed=seed,
            source=str(inputs) if inputs else None,
            task=task if images else None,
            settings=prepared,
            limit=limit,
        ),
        rtol=rtol,
        atol=atol,
        classes=classes,
        flags=flags,
        runtimes=runtimes,
        pythons=pythons,
    )
    names = [str(candidate) for candidate in candidates]
    checked = run_check(
        str(reference), names, store=opened, config=config, output=Path(output), asked=asked
    )
    write_check(checked, Path(output))
    join_checks(checked, opened)
    return checked


def evaluate(
    *models: Model,
    task: str,
    data: Model,
    settings: Mapping[str, Any] | None = None,
    limit: int | None = None,
    runtimes: Sequence[str | None] = (None,),
    pythons: Sequence[str | None] = (None,),
    output: Model = "artifacts/eval",
    store: Model | None = None,
    **flags: Any,
) -> Evaluation:
    """Evaluate models on data with known answers; runs of the same bytes carry the scores.

    ``settings`` are the flags of the task, with underscores: ``{"gt": "truth", "align": "none"}``.

    >>> found = trtbench.evaluate("model.onnx", task="classification", data="val", batch=8)
    >>> found.models[0].score("top1").value
    """
    opened, config = _open(store)
    asked = ToEvaluate(
        task=task,
        settings={**(settings or {}), "data": str(data)},
        limit=limit,
        flags=flags,
        runtimes=runtimes,
        pythons=pythons,
    )
    names = [str(model) for model in models]
    found = run_evaluation(names, store=opened, config=config, asked=asked, output=Path(output))
    found = join(found, opened)
    write_evaluation(found, Path(output))
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


def import_artefacts(*paths: Model, store: Model | None = None, **wishes: Any) -> ImportResult:
    """Make ordinary runs of what trtexec or the toolkits around it have left behind."""
    return import_files([str(path) for path in paths], store=_open(store)[0], **wishes)


def doctor() -> Diagnosis:
    """Look at what works here, and what to type to get the rest."""
    return diagnose()


def _open(store: Model | None) -> tuple[Store, Config]:
    config = load_config(store=str(store) if store is not None else None)
    return open_store(config), config
