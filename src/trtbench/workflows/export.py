"""Exports stored runs to Parquet files or MLflow."""

import importlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

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
from trtbench.store.directory import Entry, own_files
from trtbench.store.store import Store

RUNS, SAMPLES = "runs.parquet", "samples.parquet"
ID_TAG = "trtbench.id"
"""Tag of exported MLflow runs, so that a run is not exported twice."""
MOST_PAGES = 1000  # of 1000 runs each, that an MLflow server lists
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, repr=False)
class Exported(ShortView):
    runs: int
    skipped: int = 0
    problems: tuple[str, ...] = ()
    where: str = ""


def export_runs(
    entries: Iterable[Entry],
    *,
    store: Store,
    to: Literal["parquet", "mlflow"],
    output: str,
    experiment: str = "trtbench",
    listen: Listener = silent,
) -> Exported:
    """Write runs to a folder of Parquet files, or to an MLflow server or folder."""
    chosen = sorted(entries, key=lambda entry: (entry.created, entry.id))
    if to == "parquet":
        return _to_parquet(chosen, store, Path(output), listen)
    return _to_mlflow(chosen, store, output, experiment, listen)


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


def _load_each(
    entries: list[Entry], store: Store, problems: list[str], listen: Listener
) -> Iterator[tuple[Entry, Run | FailedRun]]:
    """Yield the runs one by one; those that cannot be read are added to ``problems``."""
    for number, entry in enumerate(entries):
        listen(Event(kind="stage", text=entry.id, done=number / len(entries)))
        try:
            yield entry, store.load(entry.id)
        except (InputError, StoreError) as problem:
            problems.append(f"{entry.id}: {problem.message}")


def _to_parquet(entries: list[Entry], store: Store, folder: Path, listen: Listener) -> Exported:
    """Write a table of runs and a table of samples with a row group for each run."""
    arrow, parquet = (optional_library("pyarrow"), optional_library("pyarrow.parquet"))
    problems: list[str] = []
    rows: list[Row] = []
    columns = [(name, arrow.float64()) for name in ("start", *DURATIONS)]
    schema = arrow.schema([("run", arrow.string()), ("launch", arrow.int32()), *columns])
    with writing(folder), scratch_directory(folder) as work:
        with parquet.ParquetWriter(work / SAMPLES, schema, compression="zstd") as writer:
            for entry, run in _load_each(entries, store, problems, listen):
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


def _to_mlflow(
    entries: list[Entry], store: Store, uri: str, experiment: str, listen: Listener
) -> Exported:
    """Log runs to an MLflow tracking server or folder, with their files as artefacts."""
    tracking = optional_library("mlflow.tracking")
    entities = importlib.import_module("mlflow.entities")
    refused: type[Exception] = importlib.import_module("mlflow.exceptions").MlflowException
    problems: list[str] = []
    known: set[str] = set()
    count = 0
    try:
        client = tracking.MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(experiment)
        place = found.experiment_id if found else client.create_experiment(experiment)
        token = None
        for _ in range(MOST_PAGES):
            page = client.search_runs([place], max_results=1000, page_token=token)
            known |= {run.data.tags[ID_TAG] for run in page if ID_TAG in run.data.tags}
            token = page.token
            if not token:
                break
        else:
            raise OSError(f"it lists more than {MOST_PAGES} pages of runs")
        new = [entry for entry in entries if entry.id not in known]
        for entry, run in _load_each(new, store, problems, listen):
            row = row_from_run(entry, run)
            metrics = metrics_from_run(run) if isinstance(run, Run) else {}
            instant_ms = int((row["instant_s"] or 0.0) * 1e3)
            parts = (row["model"], row["runtime"], row["precision"], f"batch {row['batch']}")
            title = " ".join(str(part) for part in parts if part)[:250]
            key = client.create_run(place, start_time=instant_ms, run_name=title).info.run_id
            parameters = [
                entities.Param(name, str(value)[:500])
                for name, value in row.items()
                if name not in metrics and value not in (None, "")
            ]
            named = [(_mlflow_name(name), value) for name, value in metrics.items()]
            values = [entities.Metric(name, value, instant_ms, 0) for name, value in named]
            client.log_batch(key, params=parameters, metrics=values)
            folder = run.path if isinstance(run, Run) else None
            for file in own_files(folder) if folder else ():
                below = str(PurePath(file).parent)
                path = str(Path(folder or "", file))
                client.log_artifact(key, path, None if below == "." else below)
            for tag in filter(None, row["tags"].split(",")):
                client.set_tag(key, _mlflow_name(f"tag.{tag}"), "true")
            client.set_tag(key, ID_TAG, entry.id)  # set last, when the run is complete
            status = "FINISHED" if entry.kind == "run" else "FAILED"
            client.set_terminated(key, status=status, end_time=instant_ms)
            count += 1
    except (OSError, refused) as problem:
        facts = {"place": mask(uri), "reason": mask(str(problem))}
        if isinstance(problem, OSError):
            raise StoreError("cannot write to MLflow", facts=facts) from None
        fix = "-o http://HOST:5000, or -o sqlite:///mlflow.db (newer MLflow refuses folders)"
        raise StoreError("MLflow refused a run", facts=facts, fix=fix) from None
    skipped = len(entries) - len(new)
    return Exported(runs=count, skipped=skipped, problems=tuple(problems), where=mask(uri))


def _mlflow_name(name: str) -> str:
    """Return a name with only the characters that MLflow allows, and that is no other path."""
    cleaned = "".join(c if c.isalnum() or c in "_-. /" else "_" for c in name)
    return "/".join(part for part in cleaned.split("/") if part.strip("."))[:250]
