"""Writes and reads the files of the trtexec evaluation toolkit; each file is one value."""

import csv
import io
import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeVar, get_args, get_origin

import msgspec
import numpy as np

from trtbench.analysis import summary as summaries
from trtbench.analysis.stored_comparison import COMPARISON_COLUMNS
from trtbench.core.codec import json_from_value
from trtbench.core.properties import model_name
from trtbench.core.run import UNDATED, Run, Scalar
from trtbench.core.samples import Column, LayerProfile, LayerTime
from trtbench.core.spec import Value
from trtbench.host.files import write_output
from trtbench.report.compose import document_from_runs
from trtbench.report.renderers.csv import csv_from_lines
from trtbench.report.run_facts import summary_of

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
BLOCKS = {"enqueue": "enqueue", "compute": "gpu", "end_to_end": "end_to_end"}


class EngineMetadata(Value, frozen=True, kw_only=True):
    """``engine_metadata.json``: the model file that was run."""

    path: str | None = None
    filename: str | None = None
    size_bytes: int | None = None
    size_megabytes: float | None = None
    modified_iso: str | None = None
    sha256: str | None = None
    built_from: str | None = None  # the model, if only the name of its engine is known


class RunConfig(Value, frozen=True, kw_only=True):
    """``run_config.json``: the requested settings, and the command."""

    timestamp_iso: str | None = None
    batch: int | None = None
    iterations: int | None = None
    warmup: float | None = None
    """Milliseconds, as in trtexec, although the toolkit calls it iterations."""
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
    too_few_samples: tuple[str, ...] = ()  # percentiles that reports leave out


class ToolkitSummary(Value, frozen=True, kw_only=True):
    """``summary.json``, and ``summary.csv`` as one row with dotted names."""

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
    """Whether another tool printed these numbers, so that there are no samples."""
    definitions: dict[str, str] = {}


class TorchBenchmark(Value, frozen=True, kw_only=True):
    """``bench_pt_result.json``; ``bench_pt_result.csv`` has only its metrics."""

    model_path: str | None = None
    device: str | None = None
    batch: int | None = None
    shape: tuple[int | str | None, ...] | None = None
    dtype: str | None = None
    tf32: bool | None = None
    iters: int | None = None
    warmup: int | None = None
    throughput_qps: float | None = None  # batches, not items
    total_host_walltime_s: float | None = None
    metrics: dict[str, dict[str, float]] = {}


LAYER_COLUMNS = (
    "name", "avg_time_ms", "min_time_ms", "max_time_ms", "calls", "percent_of_total",
)  # fmt: skip


def value_from_document(kind: type[V], document: object) -> V:
    """Return a value from decoded JSON; missing and invalid fields stay unknown."""
    values = document if isinstance(document, Mapping) else {}
    found = {}
    for field in msgspec.structs.fields(kind):
        for name in (field.name, *ALIASES.get(field.name, ())):
            value = _converted(values.get(name), field.type)
            if value is not None:
                found[field.name] = value
                break
    return kind(**found)


def _converted(value: object, kind: object) -> object:
    """Return a value, or numeric text, as the given type; ``None`` if it does not fit."""
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


def _dotted(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            listed = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
            yield f"{prefix}{key}", None if isinstance(value, dict) else listed


def csv_from_series(column_s: Column, *, name: str) -> str:
    """Return a ``*_series.csv``: one column in milliseconds, one row per sample."""
    values = column_s * 1e3
    if not np.isfinite(values).all():
        return "\n".join([f"{name}_ms", *map(repr, values.tolist()), ""])
    # Encoding a JSON list gives the same numbers thirty times as fast.
    listed = msgspec.json.encode(values.tolist()).decode()
    return "\n".join([f"{name}_ms", listed[1:-1].replace(",", "\n"), ""])


def series_from_csv(text: str) -> tuple[str, Column]:
    """Return the name of a series and its seconds; invalid numbers raise ``ValueError``."""
    name, *lines = text.split() or [""]
    return name.strip('"').lower().removesuffix("_ms"), np.array(lines, np.float64) / 1e3


def layer_rows(profile: LayerProfile) -> list[dict[str, Scalar]]:
    """Return one row per layer, the slowest first."""
    total = math.fsum(layer.average_s for layer in profile.layers)
    return [
        {
            "name": layer.name,
            "avg_time_ms": layer.average_s * 1e3,
            "min_time_ms": None if layer.min_s is None else layer.min_s * 1e3,
            "max_time_ms": None if layer.max_s is None else layer.max_s * 1e3,
            "calls": profile.count,
            "percent_of_total": layer.average_s / total * 100 if total else None,
        }
        for layer in sorted(profile.layers, key=lambda layer: -layer.average_s)
    ]


def layers_from_csv(text: str) -> LayerProfile | None:
    """Return the layers in ``per_layer_times.csv`` that have an average; ``None`` without any."""
    known: list[tuple[str, dict[str, float]]] = []
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    except csv.Error:
        rows = []
    for row in rows:
        found = {name: _converted(row.get(name) or None, float) for name in LAYER_COLUMNS[1:]}
        numbers = {k: v for k, v in found.items() if isinstance(v, float) and np.isfinite(v)}
        if "avg_time_ms" in numbers:
            known.append((str(row.get("name")), numbers))
    counts = {int(row["calls"]) for _, row in known if row.get("calls")}
    count = counts.pop() if len(counts) == 1 else None
    fields = {"min_s": ("min_time_ms", 1e3), "max_s": ("max_time_ms", 1e3)}
    fields |= {"share": ("percent_of_total", 100.0), "average_s": ("avg_time_ms", 1e3)}
    layers = []
    for name, ms in known:
        own = {field: ms[key] / scale for field, (key, scale) in fields.items() if key in ms}
        layers.append(LayerTime(name=name, total_s=own["average_s"] * (count or 1), **own))
    return LayerProfile(count=count, layers=tuple(layers)) if layers else None


TOP_LAYERS = 10

DEFINITIONS = {
    "percentiles_ms": "linear interpolation between samples, as numpy.percentile",
    "too_few_samples": "percentiles with too few effective samples; reports leave them out",
    "std_ms": "of the population (n), as numpy.std",
    "throughput_qps": "batch * 1000 / latency.mean_ms",
    "queries_per_s": "queries divided by the wall time of the measurement where it is known",
    "items_per_s": "queries_per_s * batch",
    "size_megabytes": "bytes / 1024^2",
    "warmup": "milliseconds at least, before anything is counted",
}
REPORTED_DEFINITIONS = {
    "reported": "numbers as another tool printed them; there are no samples",
    "percentiles_ms": "as printed, by the rule of the tool that measured",
    "throughput_qps": "items per second, as printed",
    "queries_per_s": "as printed",
}
LATENCY_DEFINITIONS = {
    "latency": "h2d + gpu + d2h, spans on the device",
    "host": "from before the call to after its completion, by the host's clock",
}

SERIES_ROWS = 100_000
"""Limit for series files: text takes ten times the space of the stored samples."""


def data_files(run: Run, *, series: bool | None = None) -> dict[str, bytes]:
    """Return the data files by name; series are for short runs only, unless requested."""
    if series is None:
        series = len(run.times) <= SERIES_ROWS
    times, content = run.times, summary(run)
    flat = dict(_dotted(msgspec.to_builtins(content)))
    files = {
        "summary.json": json_from_value(content),
        "summary.csv": csv_from_lines(list(flat), [list(flat.values())]).encode(),
        "engine_metadata.json": json_from_value(content.engine),
        "run_config.json": json_from_value(content.run_config),
    }
    name, latency = _latency(run)
    if name is not None:
        if series:
            files["latency_series.csv"] = csv_from_series(latency, name="latency").encode()
        tails = content.latency.percentiles_ms if content.latency is not None else {}
        rows = ([name[1:].replace("_", "."), value] for name, value in tails.items())
        listed = csv_from_lines(["percentile", "latency_ms"], rows)
        files["latency_percentiles.csv"] = listed.encode()
    for block, column_name in BLOCKS.items():
        column = getattr(times, column_name)
        if column_name == "enqueue" and _enqueue_step_s(run) is not None:
            continue  # too coarse: a table would look exact
        if series and column is not None and len(column):
            files[f"{block}_series.csv"] = csv_from_series(column, name=block).encode()
    if torch := torch_benchmark(run):
        files["bench_pt_result.json"] = json_from_value(torch)
        names = summaries.COMPARED_STATISTICS
        lines = ([name, *(f"{row[x]:.6f}" for x in names)] for name, row in torch.metrics.items())
        files["bench_pt_result.csv"] = csv_from_lines(("metric", *names), lines).encode()
    if run.layers and run.layers.layers:
        averages = [list(row.values()) for row in layer_rows(run.layers)]
        files["per_layer_times.csv"] = csv_from_lines(LAYER_COLUMNS, averages).encode()
    return files


def write_toolkit_files(run: Run, folder: Path, *, leave: Collection[Path] = ()) -> list[Path]:
    """Write all files for a run, with report and plots, except the paths in ``leave``."""
    from trtbench.report.renderers import md, png  # slow imports, only for plots

    document = document_from_runs([run], title=f"Benchmark of {model_name(run.record)}")
    document = document.with_figures(("latency_hist", "percentiles", "per_layer_time"))
    document = png.drawable(document)
    files = data_files(run) | {"report.json": json_from_value(report(run))}
    if "output_comparison" in run.extra:
        files["output_diff.json"] = json_from_value(run.extra["output_comparison"])
    files["report.md"] = md.markdown(document).encode()
    files |= {png.file_name(figure): png.png_bytes(figure) for figure in document.figures()}
    return [
        write_output(folder / name, content)
        for name, content in files.items()
        if (folder / name).resolve() not in leave
    ]


def summary(run: Run) -> ToolkitSummary:
    """Return the content of ``summary.json``, from samples or from printed numbers."""
    ours, (name, latency) = summary_of(run), _latency(run)
    batch, times = run.record.known_items, run.times
    common = ToolkitSummary(
        batch=batch,
        queries_per_s=ours.queries_per_s,
        items_per_s=ours.items_per_s,
        engine=engine_metadata(run),
        run_config=run_config(run),
    )
    if ours.reported:
        known = {column.column: _printed_block(run, column.column) for column in ours.columns}
        return common.having(
            samples=0,
            reported=True,
            throughput_qps=ours.items_per_s,
            latency=known.get("latency", known.get("host")),
            host=known.get("host"),
            definitions={**DEFINITIONS, **REPORTED_DEFINITIONS},
            **{block: known.get(column) for block, column in BLOCKS.items()},
        )
    definitions = DEFINITIONS | ({"latency": LATENCY_DEFINITIONS[name]} if name else {})
    blocks = {block: _block(run, column) for block, column in BLOCKS.items()}
    if (step := _enqueue_step_s(run)) is not None:
        steps = f"its samples come in steps of {step * 1e6:g} µs, left out"
        definitions["enqueue"] = f"as printed; {steps}"
        printed = _printed_block(run, "enqueue")
        blocks["enqueue"] = printed if printed.median_ms is not None else None
    return common.having(
        samples=len(times),
        throughput_qps=batch / float(np.mean(latency)) if batch and np.any(latency) else None,
        latency=None if name is None else _block(run, name),
        host=_block(run, "host"),
        definitions=definitions,
        **blocks,
    )


def _enqueue_step_s(run: Run) -> float | None:
    """Return the resolution of enqueue times from rounded stamps; ``None`` if it is fine."""
    column = run.times.enqueue
    if column is None or not len(column):
        return None
    return summaries.coarse_step_s(run.record, float(np.median(column)))


def _block(run: Run, name: str) -> StatisticsBlock | None:
    column: Column | None = getattr(run.times, name)
    if column is None:
        return None
    finite = _finite(column)
    if not len(finite):
        return StatisticsBlock(count=0)
    return StatisticsBlock(**summaries.summary_block(summary_of(run).column(name), finite))


def _printed_block(run: Run, column: str) -> StatisticsBlock:
    printed = summaries.reported_statistics(run.record, column)
    values = {name: value * 1e3 for name, value in printed.items()}
    tails = {f"p{name[1:].replace('.', '_')}": v for name, v in values.items() if name[0] == "p"}
    named = {f"{k}_ms": values.get(k) for k in ("min", "max", "mean", "median", "std")}
    count = run.record.reported.get("queries")
    known = int(count) if isinstance(count, (int, float)) else None
    return StatisticsBlock(count=known, percentiles_ms=tails).having(**named)


def engine_metadata(run: Run) -> EngineMetadata:
    """Return the content of ``engine_metadata.json``; without an engine, for the model."""
    model = run.record.spec.model
    named = run.record.facts.get("engine_path")
    if isinstance(named, str) and named != model.path and model.format != "engine":
        name = named.replace("\\", "/").rsplit("/", 1)[-1]  # only its name is known
        return EngineMetadata(path=named, filename=name, built_from=model.path)
    size = model.size_bytes
    return EngineMetadata(
        path=model.path,
        filename=model.name,
        size_bytes=size,
        size_megabytes=None if size is None else size / 2**20,
        modified_iso=model.modified,
        sha256=model.sha256,
    )


def run_config(run: Run) -> RunConfig:
    """Return the content of ``run_config.json``: the settings, and the command."""
    record, spec = run.record, run.record.spec
    warmup, averages = spec.warmup.floor.seconds, spec.options.get("avg_runs", "")
    graph = record.conditions.get("cuda_graph")
    return RunConfig(
        timestamp_iso=_text(record.facts.get("measured_at"))
        or (None if record.facts.get("created_from") in UNDATED else record.created),
        batch=record.known_items,
        iterations=spec.stop.iterations,
        warmup=None if warmup is None else warmup * 1e3,
        avg_runs=int(averages) if averages.isdecimal() else None,
        use_cuda_graph=_flag(graph.value) if graph else spec.cuda_graph == "on",
        profile_enabled=spec.profile or run.layers is not None,
        separate_profile_run=spec.separate_profile_run,
        trtexec_binary=_text(record.reported.get("binary")) or spec.options.get("binary"),
        command=_text(record.reported.get("command")) or record.environment.command,
        outdir=None if run.path is None else str(run.path),
        duration_s=spec.stop.seconds,
        runtime=spec.runtime,
        protocol=spec.protocol,
        launches=spec.launches,
        precision=spec.precision,
    )


def torch_benchmark(run: Run) -> TorchBenchmark | None:
    """Return the content of ``bench_pt_result.json``; ``None`` if the model is not PyTorch."""
    record, host = run.record, run.times.host
    if record.spec.model.format != "torch" or host is None or not len(host):
        return None
    total_s = float(host.sum())
    condition = {name: fact.value for name, fact in record.conditions.items()}
    on_gpu = "device" in condition or run.times.gpu is not None
    return TorchBenchmark(
        model_path=record.spec.model.path,
        device=record.spec.device or ("cuda:0" if on_gpu else "cpu"),
        batch=record.known_items,
        shape=record.inputs[0].shape if record.inputs else None,
        dtype=_text(condition.get("precision")),
        tf32=_flag(condition.get("tf32")),
        iters=len(run.times),
        warmup=sum(launch.warmup_iterations or 0 for launch in record.launches) or None,
        throughput_qps=len(run.times) / total_s,
        total_host_walltime_s=total_s,
        metrics={
            name: summaries.torch_benchmark_metrics(column)
            for name in COMPARISON_COLUMNS
            if (column := getattr(run.times, name)) is not None
        },
    )


def report(run: Run) -> dict[str, object]:
    """Return the content of ``report.json``: summary, slowest layers, output comparison."""
    top = layer_rows(run.layers)[:TOP_LAYERS] if run.layers else []
    compared = {k: each for k, each in run.extra.items() if k == "output_comparison"}
    return {"summary": summary(run), "top_layers": top, **compared}


def _latency(run: Run) -> tuple[str | None, Column]:
    """Return the column used as latency: device times, or host times if there are none."""
    for name in ("latency", "host"):
        column = getattr(run.times, name)
        if column is not None and np.isfinite(column).any():
            return name, _finite(column)
    return None, np.empty(0)


def _finite(column: Column) -> Column:
    return np.asarray(column[np.isfinite(column)])


def _text(value: Scalar) -> str | None:
    return value if isinstance(value, str) and value else None


def _flag(value: Scalar) -> bool | None:
    return value if isinstance(value, bool) else None
