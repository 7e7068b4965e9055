"""The Python API: the command line's verbs as functions, same specs, same workflows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trtbench.analysis.gate import rule_from_text, slowdown_rule
from trtbench.analysis.summary import Summary, summary_from_run
from trtbench.domain.result import Comparison, FailedRun, Run
from trtbench.store.index import Entry
from trtbench.store.store import Store
from trtbench.units import fraction_from_text
from trtbench.workflows.bench import Conduct, run_bench
from trtbench.workflows.compare import Asked
from trtbench.workflows.compare import compare as compare_sides
from trtbench.workflows.config import Config, load_config, open_store
from trtbench.workflows.doctor import Diagnosis, diagnose
from trtbench.workflows.gate import Gate
from trtbench.workflows.gate import gate as hold_to_rules
from trtbench.workflows.import_ import ImportResult
from trtbench.workflows.import_ import import_artefacts as import_files
from trtbench.workflows.report import FORMATS, load_runs, write_report
from trtbench.workflows.runs import list_runs
from trtbench.workflows.spec import Duration, run_spec, seconds

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
    launches: int = 10,
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
        most_launches=max(launches, 40),
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
