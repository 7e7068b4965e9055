"""The files the trtexec evaluation toolkit keeps about a run: its names, its keys, right contents.

Its definitions (interpolated percentiles, throughput from the mean) are kept and named; ours stand
beside them under our own names. A time is what was measured, however short, and a layer's time is
its average per inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trtbench.analysis.deltas import COMPARISON_COLUMNS
from trtbench.analysis.other_definitions import (
    COMPARED_STATISTICS,
    summary_block,
    throughput_from_mean,
    torch_benchmark_metrics,
)
from trtbench.analysis.reported import reported_statistics
from trtbench.analysis.summary import coarse_step_s
from trtbench.domain.codec import json_from_value
from trtbench.domain.result import Run, Scalar
from trtbench.domain.samples import Column
from trtbench.formats.toolkit_files import (
    BLOCKS,
    EngineMetadata,
    RunConfig,
    StatisticsBlock,
    ToolkitSummary,
    TorchBenchmark,
    csv_from_layers,
    csv_from_metrics,
    csv_from_percentiles,
    csv_from_series,
    csv_from_summary,
    layer_rows,
)
from trtbench.host.files import write_output
from trtbench.report.compose import document_from_runs
from trtbench.report.labels import model_name
from trtbench.report.run_facts import summary_of

TOP_LAYERS = 10

DEFINITIONS = {
    "percentiles_ms": "linear interpolation between samples, as numpy.percentile",
    "std_ms": "of the population (n)",
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
"""Beyond so many samples, text with a line for each takes ten times the space of the samples."""


def data_files(run: Run, *, series: bool | None = None) -> dict[str, bytes]:
    """Write every file that holds data, by name; files about what was not measured are left out.

    Series, with a line for every sample, are left out of long runs unless they are asked for.
    """
    if series is None:
        series = len(run.times) <= SERIES_ROWS
    times, content = run.times, summary(run)
    files = {
        "summary.json": json_from_value(content),
        "summary.csv": csv_from_summary(content).encode(),
        "engine_metadata.json": json_from_value(content.engine),
        "run_config.json": json_from_value(content.run_config),
    }
    name, latency = _latency(run)
    if name is not None:
        if series:
            files["latency_series.csv"] = csv_from_series(latency, name="latency").encode()
        files["latency_percentiles.csv"] = csv_from_percentiles(content.latency).encode()
    for block, column_name in BLOCKS.items():
        column = getattr(times, column_name)
        if column_name == "enqueue" and _enqueue_step_s(run) is not None:
            continue  # steps, not times: a table of them would be read as exact
        if series and column is not None and len(column):
            files[f"{block}_series.csv"] = csv_from_series(column, name=block).encode()
    if torch := torch_benchmark(run):
        files["bench_pt_result.json"] = json_from_value(torch)
        metrics = csv_from_metrics(torch.metrics, COMPARED_STATISTICS)
        files["bench_pt_result.csv"] = metrics.encode()
    if run.layers and run.layers.layers:
        files["per_layer_times.csv"] = csv_from_layers(run.layers).encode()
    return files


def write_toolkit_files(run: Run, folder: Path, *, pictures: bool = True) -> list[Path]:
    """Write all files it lists that this run can fill, the report and pictures too."""
    files = data_files(run) | {"report.json": json_from_value(report(run))}
    if pictures:
        files |= _pages(run)
    return [write_output(folder / name, content) for name, content in files.items()]


def summary(run: Run) -> ToolkitSummary:
    """Make the content of ``summary.json``."""
    ours, (name, latency) = summary_of(run), _latency(run)
    if ours.reported:
        return _printed_summary(run)
    batch, times = run.record.known_items, run.times
    return ToolkitSummary(
        batch=batch,
        samples=len(times),
        throughput_qps=throughput_from_mean(latency, batch=batch) if batch else None,
        queries_per_s=ours.queries_per_s,
        items_per_s=ours.items_per_s,
        latency=None if name is None else _block(latency),
        enqueue=_enqueue_block(run),
        compute=_block(times.gpu),
        end_to_end=_block(times.end_to_end),
        host=_block(times.host),
        engine=engine_metadata(run),
        run_config=run_config(run),
        definitions=DEFINITIONS
        | ({"latency": LATENCY_DEFINITIONS[name]} if name else {})
        | _enqueue_definition(run),
    )


def _enqueue_step_s(run: Run) -> float | None:
    """Tell the steps of enqueue times that were made of rounded stamps."""
    column = run.times.enqueue
    if column is None or not len(column):
        return None
    return coarse_step_s(run.record, float(np.median(column)))


def _enqueue_block(run: Run) -> StatisticsBlock | None:
    """Take enqueue times as trtexec printed them where its file has only steps; else none."""
    if _enqueue_step_s(run) is None:
        return _block(run.times.enqueue)
    printed = _printed_block(run, "enqueue")
    return printed if printed.median_ms is not None else None


def _enqueue_definition(run: Run) -> dict[str, str]:
    step = _enqueue_step_s(run)
    if step is None:
        return {}
    return {"enqueue": f"as printed; its samples come in steps of {step * 1e6:g} µs, left out"}


def _block(column: Column | None) -> StatisticsBlock | None:
    return None if column is None else StatisticsBlock(**summary_block(_finite(column)))


def _printed_summary(run: Run) -> ToolkitSummary:
    """Make the same content of numbers another tool printed, under the same names."""
    ours = summary_of(run)
    known = {column.column: _printed_block(run, column.column) for column in ours.columns}
    return ToolkitSummary(
        batch=run.record.known_items,
        samples=0,
        reported=True,
        throughput_qps=ours.items_per_s,
        queries_per_s=ours.queries_per_s,
        items_per_s=ours.items_per_s,
        latency=known.get("latency", known.get("host")),
        enqueue=known.get("enqueue"),
        compute=known.get("gpu"),
        end_to_end=known.get("end_to_end"),
        host=known.get("host"),
        engine=engine_metadata(run),
        run_config=run_config(run),
        definitions={**DEFINITIONS, **REPORTED_DEFINITIONS},
    )


def _printed_block(run: Run, column: str) -> StatisticsBlock:
    values = {name: value * 1e3 for name, value in reported_statistics(run.record, column).items()}
    tails = {f"p{name[1:].replace('.', '_')}": v for name, v in values.items() if name[0] == "p"}
    named = {f"{k}_ms": values.get(k) for k in ("min", "max", "mean", "median", "std")}
    count = run.record.reported.get("queries")
    known = int(count) if isinstance(count, (int, float)) else None
    return StatisticsBlock(count=known, **named, percentiles_ms=tails)


def engine_metadata(run: Run) -> EngineMetadata:
    """Make the content of ``engine_metadata.json``; without an engine it describes the model."""
    model = run.record.spec.model
    named = run.record.facts.get("engine_path")
    if isinstance(named, str) and named != model.path and model.format != "engine":
        name = named.replace("\\", "/").rsplit("/", 1)[-1]  # it is known by its name alone
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
    """Make the content of ``run_config.json``: what was asked for, and the command."""
    record, spec = run.record, run.record.spec
    warmup = spec.warmup.floor.seconds
    graph = record.conditions.get("cuda_graph")
    return RunConfig(
        timestamp_iso=_text(record.facts.get("measured_at")) or record.created,
        batch=record.known_items,
        iterations=spec.stop.iterations,
        warmup=None if warmup is None else warmup * 1e3,
        avg_runs=_integer(spec.options.get("avg_runs")),
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
    """Make the content of ``bench_pt_result.json``; ``None`` for runs that are not of PyTorch."""
    record, host = run.record, run.times.host
    if record.spec.model.format != "torch" or host is None or not len(host):
        return None
    total_s = float(host.sum())
    condition = {name: fact.value for name, fact in record.conditions.items()}
    return TorchBenchmark(
        model_path=record.spec.model.path,
        device=record.spec.device or "cuda:0",
        batch=record.known_items,
        shape=record.inputs[0].shape if record.inputs else None,
        dtype=_text(condition.get("precision")),
        tf32=_flag(condition.get("tf32")),
        iters=len(run.times),
        warmup=sum(launch.warmup_iterations or 0 for launch in record.launches) or None,
        throughput_qps=len(run.times) / total_s,
        total_host_walltime_s=total_s,
        metrics={
            name: torch_benchmark_metrics(column)
            for name in COMPARISON_COLUMNS
            if (column := getattr(run.times, name)) is not None
        },
    )


def report(run: Run) -> dict[str, object]:
    """Make the content of ``report.json``: summary, slowest layers, comparison of outputs."""
    top = layer_rows(run.layers)[:TOP_LAYERS] if run.layers else []
    content: dict[str, object] = {"summary": summary(run), "top_layers": top}
    if "output_comparison" in run.extra:
        content["output_comparison"] = run.extra["output_comparison"]
    return content


def report_keys(runs: Sequence[Run]) -> dict[str, object]:
    """Write the keys of its report.json for one run; several are a list."""
    if len(runs) == 1:
        return report(runs[0])
    return {"reports": [{"run": run.id, **report(run)} for run in runs]} if runs else {}


def _pages(run: Run) -> dict[str, bytes]:
    """Draw its three pictures, and write a report of one run that shows them and no others."""
    from trtbench.report.renderers import md, png  # they draw, and most of these files are data

    document = document_from_runs([run], title=f"Benchmark of {model_name(run.record)}")
    document = document.with_figures(("latency_hist", "percentiles", "per_layer_time"))
    pages = {png.file_name(figure): png.png_bytes(figure) for figure in document.figures()}
    return {"report.md": md.markdown(document).encode()} | pages


def _latency(run: Run) -> tuple[str | None, Column]:
    """Choose what its files call latency: the device's spans, or host time where there are none."""
    for name in ("latency", "host"):
        column = getattr(run.times, name)
        if column is not None and np.isfinite(column).any():
            return name, _finite(column)
    return None, np.empty(0)


def _finite(column: Column) -> Column:
    return np.asarray(column[np.isfinite(column)])


def _integer(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _text(value: Scalar) -> str | None:
    return value if isinstance(value, str) and value else None


def _flag(value: Scalar) -> bool | None:
    return value if isinstance(value, bool) else None
