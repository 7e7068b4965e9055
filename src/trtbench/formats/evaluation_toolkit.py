"""The files the trtexec evaluation toolkit keeps about a run: its names, its keys, right contents.

Its definitions (interpolated percentiles, throughput from the mean) are kept and named; ours stand
beside them under our own names. A time is what was measured, however short, and a layer's time is
its average per inference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from trtbench.analysis.other_definitions import summary_block, throughput_from_mean
from trtbench.analysis.reported import reported_statistics
from trtbench.domain.codec import json_from_value
from trtbench.domain.result import Run
from trtbench.domain.samples import Column, LayerProfile
from trtbench.report.compose import document_from_runs
from trtbench.report.csv_lines import csv_from_lines
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

BLOCKS = {"enqueue": "enqueue", "compute": "gpu", "end_to_end": "end_to_end"}
"""Its names for columns, and ours."""


SERIES_ROWS = 100_000
"""Beyond so many samples, text with a line for each takes ten times the space of the samples."""


def data_files(run: Run, *, series: bool | None = None) -> dict[str, bytes]:
    """Give every file that holds data, by name; files about what was not measured are left out.

    Series, with a line for every sample, are left out of long runs unless they are asked for.
    """
    if series is None:
        series = len(run.times) <= SERIES_ROWS
    times, content = run.times, summary(run)
    files = {
        "summary.json": json_from_value(content),
        "summary.csv": _summary_csv(content).encode(),
        "engine_metadata.json": json_from_value(engine_metadata(run)),
        "run_config.json": json_from_value(run_config(run)),
    }
    name, latency = _latency(run)
    if name is not None:
        if series:
            files["latency_series.csv"] = series_csv(latency, name="latency_ms").encode()
        files["latency_percentiles.csv"] = _percentiles_csv(content["latency"]).encode()
    for block, column_name in BLOCKS.items():
        column = getattr(times, column_name)
        if series and column is not None and len(column):
            text = series_csv(column, name=f"{block}_ms")
            files[f"{block}_series.csv"] = text.encode()
    if run.layers and run.layers.layers:
        files["per_layer_times.csv"] = per_layer_csv(run.layers).encode()
    return files


def write_toolkit_files(run: Run, folder: Path, *, pictures: bool = True) -> list[Path]:
    """Write all files it lists that this run can fill, the report and pictures too."""
    folder.mkdir(parents=True, exist_ok=True)
    files = data_files(run) | {"report.json": json_from_value(report(run))}
    if pictures:
        files |= _pages(run)
    paths = []
    for name, content in files.items():
        path = folder / name
        path.write_bytes(content)
        paths.append(path)
    return paths


def summary(run: Run) -> dict[str, object]:
    """Make the content of ``summary.json``."""
    ours, (name, latency) = summary_of(run), _latency(run)
    if ours.reported:
        return _printed_summary(run)
    batch = run.record.items_per_query
    blocks = {
        block: None if column is None else summary_block(_finite(column))
        for block, column in ((b, getattr(run.times, c)) for b, c in BLOCKS.items())
    }
    host = run.times.host
    return {
        "batch": batch,
        "samples": len(run.times),
        "throughput_qps": throughput_from_mean(latency, batch=batch),
        "queries_per_s": ours.queries_per_s,
        "items_per_s": ours.items_per_s,
        "latency": None if name is None else summary_block(latency),
        **blocks,
        **({"host": summary_block(_finite(host))} if host is not None else {}),
        "engine": engine_metadata(run),
        "run_config": run_config(run),
        "definitions": DEFINITIONS | ({"latency": LATENCY_DEFINITIONS[name]} if name else {}),
    }


def _printed_summary(run: Run) -> dict[str, object]:
    """Make the same content of numbers another tool printed, under the same names."""
    ours = summary_of(run)
    known = {column.column: _printed_block(run, column.column) for column in ours.columns}
    return {
        "batch": run.record.items_per_query,
        "samples": 0,
        "reported": True,
        "throughput_qps": ours.items_per_s,
        "queries_per_s": ours.queries_per_s,
        "items_per_s": ours.items_per_s,
        "latency": known.get("latency", known.get("host")),
        **{block: known.get(column) for block, column in BLOCKS.items()},
        **({"host": known["host"]} if "host" in known else {}),
        "engine": engine_metadata(run),
        "run_config": run_config(run),
        "definitions": {**DEFINITIONS, **REPORTED_DEFINITIONS},
    }


def _printed_block(run: Run, column: str) -> dict[str, object]:
    values = {name: value * 1e3 for name, value in reported_statistics(run.record, column).items()}
    tails = {f"p{name[1:].replace('.', '_')}": v for name, v in values.items() if name[0] == "p"}
    named = {f"{k}_ms": values.get(k) for k in ("min", "max", "mean", "median", "std")}
    return {"count": run.record.reported.get("queries"), **named, "percentiles_ms": tails}


def summary_csv(run: Run) -> str:
    """Make ``summary.csv``: the summary in one row under dotted names."""
    return _summary_csv(summary(run))


def _summary_csv(content: dict[str, object]) -> str:
    flat = dict(_flattened(content))
    return csv_from_lines(list(flat), [list(flat.values())])


def series_csv(column: Column, *, name: str) -> str:
    """Make a ``*_series.csv``: one column in milliseconds, a row per sample."""
    values = column * 1e3
    if not np.isfinite(values).all():
        return "\n".join([name, *map(repr, values.tolist()), ""])
    # A list in JSON has the same numbers, and is written thirty times as fast; there are millions.
    listed = msgspec.json.encode(values.tolist()).decode()
    return "\n".join([name, listed[1:-1].replace(",", "\n"), ""])


def percentiles_csv(latency: Column) -> str:
    """Make ``latency_percentiles.csv``; percentiles are interpolated as in the summary."""
    return _percentiles_csv(summary_block(latency))


def _percentiles_csv(block: object) -> str:
    percentiles = block.get("percentiles_ms", {}) if isinstance(block, dict) else {}
    rows = ([name[1:].replace("_", "."), value] for name, value in percentiles.items())
    return csv_from_lines(["percentile", "latency_ms"], rows)


def layer_rows(profile: LayerProfile) -> list[dict[str, object]]:
    """List layers from the slowest on; two layers of one name and time are two layers."""
    total = sum(layer.average_s for layer in profile.layers)
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


def per_layer_csv(profile: LayerProfile) -> str:
    """Make ``per_layer_times.csv``: averages per inference."""
    rows = layer_rows(profile)
    return csv_from_lines(list(rows[0]), (list(row.values()) for row in rows))


def engine_metadata(run: Run) -> dict[str, object]:
    """Make the content of ``engine_metadata.json``; without an engine it describes the model."""
    model = run.record.spec.model
    named = run.record.facts.get("engine_path")
    if isinstance(named, str) and named != model.path and model.format != "engine":
        return _named_engine(named, model.path)
    size = model.size_bytes
    return {
        "path": model.path,
        "filename": model.name,
        "size_bytes": size,
        "size_megabytes": None if size is None else size / 2**20,
        "modified_iso": model.modified,
        "sha256": model.sha256,
    }


def _named_engine(path: str, source: str) -> dict[str, object]:
    """Describe an engine that is known by its name alone, and what it was made of."""
    return {
        "path": path,
        "filename": path.replace("\\", "/").rsplit("/", 1)[-1],
        "size_bytes": None,
        "size_megabytes": None,
        "modified_iso": None,
        "sha256": None,
        "built_from": source,
    }


def run_config(run: Run) -> dict[str, object]:
    """Make the content of ``run_config.json``: what was asked for, and the command."""
    record, spec = run.record, run.record.spec
    warmup = spec.warmup.floor.seconds
    graph = record.conditions.get("cuda_graph")
    return {
        "timestamp_iso": record.facts.get("measured_at") or record.created,
        "batch": record.items_per_query,
        "iterations": spec.stop.iterations,
        "warmup": None if warmup is None else warmup * 1e3,
        "avg_runs": _integer(spec.options.get("avg_runs")),
        "use_cuda_graph": graph.value if graph else spec.cuda_graph == "on",
        "profile_enabled": spec.profile or run.layers is not None,
        "separate_profile_run": spec.separate_profile_run,
        "trtexec_binary": record.reported.get("binary") or spec.options.get("binary"),
        "command": record.reported.get("command") or record.environment.command,
        "outdir": None if run.path is None else str(run.path),
        "duration_s": spec.stop.seconds,
        "runtime": spec.runtime,
        "protocol": spec.protocol,
        "launches": spec.launches,
        "precision": spec.precision,
    }


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
    return int(text) if text and text.isdigit() else None


def _flattened(value: object, prefix: str = "") -> Iterable[tuple[str, object]]:
    if not isinstance(value, Mapping):
        yield prefix, value
        return
    for key, each in value.items():
        yield from _flattened(each, f"{prefix}.{key}" if prefix else str(key))
