"""Exports stored runs to Parquet files."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtbench.analysis.summary import summary_from_run
from trtbench.core.errors import InputError, StoreError, writing
from trtbench.core.plugins import optional_library
from trtbench.core.properties import setting_of
from trtbench.core.results import ShortView
from trtbench.core.run import FailedRun, Run, gpu_of
from trtbench.core.safety import clean_line, mask
from trtbench.core.samples import DURATIONS
from trtbench.core.units import instant_from_text
from trtbench.host.files import scratch_directory
from trtbench.requests.execution import Event, Listener, silent
from trtbench.store.directory import Entry
from trtbench.store.store import Store

RUNS, SAMPLES = "runs.parquet", "samples.parquet"
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, repr=False)
class Exported(ShortView):
    runs: int
    problems: tuple[str, ...] = ()
    where: str = ""


def row_from_run(entry: Entry, run: Run | FailedRun) -> Row:
    """Return a run as flat fields, with units in their names."""
    record = run.record if isinstance(run, Run) else run
    spec, environment = record.spec, record.environment
    gpu, graph = gpu_of(record), setting_of(record, "cuda_graph")
    findings = run.findings if isinstance(run, Run) else ()
    grave = [each.code for each in findings if each.severity != "note"]
    row = {
        "id": record.id,
        "kind": entry.kind,
        "created": record.created,
        "instant_s": instant_from_text(record.created),
        "model": spec.model.name,
        "model_sha256": spec.model.sha256,
        "model_bytes": spec.model.size_bytes,
        **{name: getattr(entry, name) for name in ("precision", "batch", "protocol", "provenance")},
        **{name: getattr(spec, name) for name in ("runtime", "launches", "device")},
        **{name: setting_of(record, name) for name in ("streams", "transfers", "threads")},
        "cuda_graph": "on" if graph is True else "off" if graph is False else "auto",
        **{name: getattr(environment, name) for name in ("host", "os", "cpu", "python")},
        "git_commit": environment.git_commit,
        "gpu": gpu.name if gpu else None,
        "gpu_uuid": gpu.uuid if gpu else None,
        "driver": gpu.driver if gpu else None,
        "tags": ",".join(record.tags),
        "versions": ",".join(f"{k}={v}" for k, v in sorted(environment.versions.items())),
        "findings": ",".join(grave),
        "reason": record.reason if isinstance(record, FailedRun) else None,
    }
    texts = {name: clean_line(mask(each)) for name, each in row.items() if isinstance(each, str)}
    return {**row, **texts, **(metrics_from_run(run) if isinstance(run, Run) else {})}


def metrics_from_run(run: Run) -> dict[str, float]:
    """Return the numeric results of a run by name, such as ``host_median_s``."""
    found: dict[str, float | None] = {}
    summary = summary_from_run(run)
    if summary.columns:
        found |= {"items_per_s": summary.items_per_s, "queries_per_s": summary.queries_per_s}
        for column in summary.columns:
            name = column.column
            for statistic in ("median", "mean", "std", "min", "max"):
                found[f"{name}_{statistic}_s"] = getattr(column, statistic)
            found[f"{name}_count"] = None if column.reported else float(column.count)
            for each in column.quantiles:
                if each.q in (0.9, 0.95, 0.99):
                    found[f"{name}_p{each.q * 100:g}_s"] = each.value
    launches = run.record.launches
    for field in ("load_s", "first_s", "energy_j", "peak_memory_bytes"):
        values = [getattr(each, field) for each in launches]
        known = [float(value) for value in values if value is not None]
        found[field] = sum(known) / len(known) if known else None
    for key in ("energy_per_query_j", "energy_above_idle_j", "idle_power_w"):
        joules = run.record.facts.get(key)
        found[key] = joules if isinstance(joules, (int, float)) else None
    scores = run.extra.get("scores")
    if isinstance(scores, dict):
        found |= {f"score_{metric}": float(score.value) for metric, score in scores.items()}
    return {k: float(v) for k, v in found.items() if v is not None and math.isfinite(v)}


def export_runs(
    entries: Iterable[Entry], *, store: Store, folder: Path, listen: Listener = silent
) -> Exported:
    """Write a table of runs and a table of samples with a row group for each run."""
    chosen = sorted(entries, key=lambda entry: (entry.created, entry.id))
    arrow, parquet = (optional_library("pyarrow"), optional_library("pyarrow.parquet"))
    problems: list[str] = []
    rows: list[Row] = []
    columns = [(name, arrow.float64()) for name in ("start", *DURATIONS)]
    schema = arrow.schema([("run", arrow.string()), ("launch", arrow.int32()), *columns])
    with writing(folder), scratch_directory(folder) as work:
        with parquet.ParquetWriter(work / SAMPLES, schema, compression="zstd") as writer:
            for number, entry in enumerate(chosen):
                listen(Event(kind="stage", text=entry.id, done=number / len(chosen)))
                try:
                    run = store.load(entry.id)
                except (InputError, StoreError) as problem:
                    problems.append(f"{entry.id}: {problem.message}")
                    continue
                rows.append(row_from_run(entry, run))
                if not isinstance(run, Run) or not len(run.times):
                    continue
                count, found = len(run.times), dict(run.times.columns())
                unknown = {"run": [run.id] * count, "launch": [0] * count}
                data = {
                    name: arrow.array(found.get(name, unknown.get(name, [None] * count)), kind)
                    for name, kind in zip(schema.names, schema.types, strict=True)
                }
                writer.write_table(arrow.table(data, schema=schema))
        # Every run has all fields; missing values are null.
        names = dict.fromkeys(name for row in rows for name in row)
        whole = {name: arrow.array([row.get(name) for row in rows]) for name in names}
        parquet.write_table(arrow.table(whole), work / RUNS, compression="zstd")
        for name in (RUNS, SAMPLES):
            (work / name).replace(folder / name)
    return Exported(runs=len(rows), problems=tuple(problems), where=str(folder))
