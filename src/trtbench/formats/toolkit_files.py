"""The trtexec evaluation toolkit's files, each as one value that is written and read here.

Knows their names, keys and the other spellings they go by; neither runs nor where files lie. What a
file does not tell, or tells in a way that cannot be meant, is unknown.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import TypeVar, get_args, get_origin

import msgspec
import numpy as np

from trtbench.domain.result import Scalar
from trtbench.domain.samples import Column, LayerProfile, LayerTime
from trtbench.domain.spec import Value
from trtbench.report.csv_lines import csv_from_lines

V = TypeVar("V", bound=msgspec.Struct)

ALIASES: dict[str, tuple[str, ...]] = {
    "path": ("engine_path",),
    "size_bytes": ("engine_size_bytes",),
    "size_megabytes": ("size_mib",),
    "modified_iso": ("modified",),
    "batch": ("batch_size",),
    "iterations": ("iters",),
    "warmup": ("warmUp",),
    "avg_runs": ("avgRuns",),
    "use_cuda_graph": ("useCudaGraph",),
    "command": ("cmd",),
    "trtexec_binary": ("trtexec",),
    "timestamp_iso": ("timestamp",),
}
"""Other spellings of a key, which its parsers take as well."""
BLOCKS = {"enqueue": "enqueue", "compute": "gpu", "end_to_end": "end_to_end"}
"""Its names for columns, and ours."""


class EngineMetadata(Value, frozen=True, kw_only=True):
    """``engine_metadata.json``: the file that was run."""

    path: str | None = None
    filename: str | None = None
    size_bytes: int | None = None
    size_megabytes: float | None = None
    modified_iso: str | None = None
    sha256: str | None = None
    built_from: str | None = None
    """The model, where of its engine no more than the name is known."""


class RunConfig(Value, frozen=True, kw_only=True):
    """``run_config.json``: what was asked for, and the command."""

    timestamp_iso: str | None = None
    batch: int | None = None
    iterations: int | None = None
    warmup: float | None = None
    """Milliseconds, which is what trtexec takes, although the toolkit calls it iterations."""
    avg_runs: int | None = None
    use_cuda_graph: bool | None = None
    profile_enabled: bool | None = None
    separate_profile_run: bool | None = None
    trtexec_binary: str | None = None
    command: str | None = None
    outdir: str | None = None
    duration_s: float | None = None
    runtime: str | None = None
    protocol: str | None = None
    launches: int | None = None
    precision: str | None = None


class StatisticsBlock(Value, frozen=True, kw_only=True):
    """One column of ``summary.json``."""

    count: int | None = None
    min_ms: float | None = None
    max_ms: float | None = None
    mean_ms: float | None = None
    std_ms: float | None = None
    median_ms: float | None = None
    percentiles_ms: dict[str, float] = {}
    """``p99_5`` and the like."""


class ToolkitSummary(Value, frozen=True, kw_only=True):
    """``summary.json``, and in one row under dotted names ``summary.csv``."""

    batch: int | None = None
    samples: int | None = None
    throughput_qps: float | None = None
    queries_per_s: float | None = None
    items_per_s: float | None = None
    latency: StatisticsBlock | None = None
    enqueue: StatisticsBlock | None = None
    compute: StatisticsBlock | None = None
    end_to_end: StatisticsBlock | None = None
    host: StatisticsBlock | None = None
    engine: EngineMetadata | None = None
    run_config: RunConfig | None = None
    reported: bool = False
    """Another tool printed these numbers; there are no samples."""
    definitions: dict[str, str] = {}


class TorchBenchmark(Value, frozen=True, kw_only=True):
    """``bench_pt_result.json``; ``bench_pt_result.csv`` has its metrics alone."""

    model_path: str | None = None
    device: str | None = None
    batch: int | None = None
    shape: tuple[int | str | None, ...] | None = None
    dtype: str | None = None
    tf32: bool | None = None
    iters: int | None = None
    warmup: int | None = None
    throughput_qps: float | None = None
    """Batches, not items."""
    total_host_walltime_s: float | None = None
    metrics: dict[str, dict[str, float]] = {}
    """``host``, ``h2d``, ``gpu``, ``d2h``: statistics in milliseconds."""


LAYER_COLUMNS = (
    "name", "avg_time_ms", "min_time_ms", "max_time_ms", "calls", "percent_of_total",
)  # fmt: skip


def value_from_document(kind: type[V], document: object) -> V:
    """Read what a decoded file tells of each field; what is missing or odd stays unknown."""
    told = document if isinstance(document, Mapping) else {}
    found = {}
    for field in msgspec.structs.fields(kind):
        for name in (field.name, *ALIASES.get(field.name, ())):
            value = _converted(told.get(name), field.type)
            if value is not None:
                found[field.name] = value
                break
    return kind(**found)


def _converted(value: object, kind: object) -> object:
    """Convert one value, text that holds a number too; ``None`` for what is something else."""
    kinds = get_args(kind) or (kind,)
    struct = next((k for k in kinds if isinstance(k, type) and issubclass(k, msgspec.Struct)), None)
    if struct is not None:
        return value_from_document(struct, value) if isinstance(value, Mapping) else None
    if get_origin(kind) is dict:
        items = value.items() if isinstance(value, Mapping) else ()
        converted = {str(key): _converted(each, kinds[1]) for key, each in items}
        return {key: each for key, each in converted.items() if each is not None}
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, OverflowError):
        return None


def csv_from_summary(summary: ToolkitSummary) -> str:
    """Write the summary in one row under dotted names."""
    flat: dict[str, object] = {}
    _flatten(msgspec.to_builtins(summary), "", flat)
    return csv_from_lines(list(flat), [list(flat.values())])


MOST_PARTS = 8
"""Names within names that a column's may have."""


def _rows(text: str) -> list[dict[str, str]]:
    """Read the rows of a table; one that is none has none."""
    try:
        return list(csv.DictReader(io.StringIO(text, newline="")))
    except csv.Error:
        return []


def summary_from_csv(text: str) -> ToolkitSummary:
    """Read the one row back; a name without a value is unknown."""
    row = next(iter(_rows(text)), {})
    document: dict[str, object] = {}
    for name, value in row.items():
        *path, last = str(name).split(".", MOST_PARTS)
        place = document
        for part in path:
            inner = place.setdefault(part, {})
            place = inner if isinstance(inner, dict) else {}
        if value:
            place[last] = value
    return value_from_document(ToolkitSummary, document)


def _flatten(values: dict[str, object], prefix: str, flat: dict[str, object]) -> None:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            _flatten(value, f"{prefix}{key}.", flat)
        else:
            flat[f"{prefix}{key}"] = None if isinstance(value, dict) else value


def csv_from_series(column_s: Column, *, name: str) -> str:
    """Write a ``*_series.csv``: one column in milliseconds, a row per sample."""
    values = column_s * 1e3
    if not np.isfinite(values).all():
        return "\n".join([f"{name}_ms", *map(repr, values.tolist()), ""])
    # A list in JSON has the same numbers, and is written thirty times as fast; there are millions.
    listed = msgspec.json.encode(values.tolist()).decode()
    return "\n".join([f"{name}_ms", listed[1:-1].replace(",", "\n"), ""])


def series_from_csv(text: str) -> tuple[str, Column]:
    """Read the name of a series and its seconds; what is no number raises ``ValueError``."""
    name, *lines = text.split() or [""]
    return name.strip('"').lower().removesuffix("_ms"), np.array(lines, np.float64) / 1e3


def csv_from_percentiles(block: StatisticsBlock | None) -> str:
    """Write ``latency_percentiles.csv``."""
    known = block.percentiles_ms if block is not None else {}
    rows = ([name[1:].replace("_", "."), value] for name, value in known.items())
    return csv_from_lines(["percentile", "latency_ms"], rows)


def layer_rows(profile: LayerProfile) -> list[dict[str, Scalar]]:
    """List layers from the slowest on; two layers of one name and time are two layers."""
    total = sum(layer.average_s for layer in profile.layers)
    return [
        dict(zip(LAYER_COLUMNS, values, strict=True))
        for layer in sorted(profile.layers, key=lambda layer: -layer.average_s)
        for values in [
            (
                layer.name,
                layer.average_s * 1e3,
                None if layer.min_s is None else layer.min_s * 1e3,
                None if layer.max_s is None else layer.max_s * 1e3,
                profile.count,
                layer.average_s / total * 100 if total else None,
            )
        ]
    ]


def csv_from_layers(profile: LayerProfile) -> str:
    """Write ``per_layer_times.csv``: averages per inference."""
    return csv_from_lines(LAYER_COLUMNS, (list(row.values()) for row in layer_rows(profile)))


def layers_from_csv(text: str) -> LayerProfile | None:
    """Read ``per_layer_times.csv``; rows without an average are none, and so is a file of them."""
    rows = [(str(row.get("name")), _numbers(row)) for row in _rows(text)]
    known = [(name, row) for name, row in rows if "avg_time_ms" in row]
    counts = {int(row["calls"]) for _, row in known if row.get("calls")}
    count = counts.pop() if len(counts) == 1 else None
    layers = tuple(_layer(name, row, count) for name, row in known)
    return LayerProfile(count=count, layers=layers) if layers else None


def _numbers(row: Mapping[str, object]) -> dict[str, float]:
    """Keep what is a number in a row."""
    found = {name: _converted(row.get(name) or None, float) for name in LAYER_COLUMNS[1:]}
    return {k: v for k, v in found.items() if isinstance(v, float) and np.isfinite(v)}


def _layer(name: str, row: Mapping[str, float], count: int | None) -> LayerTime:
    seconds = {key: row[f"{key}_time_ms"] / 1e3 for key in ("avg", "min", "max")
               if f"{key}_time_ms" in row}  # fmt: skip
    share = row.get("percent_of_total")
    return LayerTime(
        name=name,
        total_s=seconds["avg"] * (count or 1),
        average_s=seconds["avg"],
        min_s=seconds.get("min"),
        max_s=seconds.get("max"),
        share=None if share is None else share / 100,
    )


def csv_from_metrics(metrics: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> str:
    """Write ``bench_pt_result.csv``: a row per metric, six decimals of a millisecond."""
    lines = ((metric, *(f"{row[name]:.6f}" for name in names)) for metric, row in metrics.items())
    return csv_from_lines(("metric", *names), lines)


def metrics_from_csv(text: str) -> dict[str, dict[str, float]]:
    """Read ``bench_pt_result.csv``; what is no number raises ``ValueError``."""
    rows = _rows(text)
    if any("metric" not in row or None in row for row in rows):
        raise ValueError("rows of metric, min, max, mean, ...")
    return {
        row["metric"]: {k: float(v) for k, v in row.items() if k != "metric" and v} for row in rows
    }
