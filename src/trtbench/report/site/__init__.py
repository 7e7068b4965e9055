"""The pages of the site: one for all runs, one for each network, one for a run, one for two.

What the pages are given: a row for every run, series with their changes, and single runs.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources

import numpy as np

from trtbench.analysis.history import Series
from trtbench.analysis.summary import ColumnSummary
from trtbench.core.properties import PROPERTIES, model_name, network_name, protocol_of
from trtbench.core.run import (
    AnyRecord,
    FailedRun,
    Run,
    RunRecord,
    Scalar,
    gpu_of,
    known_value,
    precision_of,
)
from trtbench.core.safety import clean_text
from trtbench.core.units import unit_for_seconds
from trtbench.report import charts
from trtbench.report.charts import Axis, Line, Lines, LineStyle, curves, line
from trtbench.report.document import Figure
from trtbench.report.renderers.html import asset
from trtbench.report.run_facts import (
    PHASES,
    facts_from_environment,
    file_stem,
    headline_column,
    length_in_words,
    scores_of,
    summary_of,
)
from trtbench.report.sections.history import figure_from_series
from trtbench.report.sections.latency import thinned
from trtbench.version import __version__

ASSETS = ("site.css", "core.js", "table.js", "charts.js", "pages.js")
SCRIPTS = ("core.js", "tables.js", "table.js", "charts.js", "pages.js")
"""In the order in which they are loaded; the first takes the data in, the last begins."""
SHARED = ("tables.js",)
"""Scripts of the report that the site uses, too."""
DATA = "data/site.js"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="assets/site.css">
</head>
<body data-page="{page}" data-network="{network}">
<a class="skip" href="#main">Skip to content</a>
<header class="top">
<a class="home" href="index.html">{site}</a>
<nav aria-label="Pages"><a href="index.html"{here_runs}>Runs</a>
<a href="models.html"{here_models}>Models</a>
<a href="compare.html"{here_compare}>Compare</a></nav>
<button type="button" id="copy-link" class="quiet">Copy link</button>
</header>
<main id="main" tabindex="-1"><h1>{heading}</h1>{body}
<noscript><p>The site needs JavaScript; the runs are in <a href="data/runs.json">runs.json</a>.</p>
</noscript></main>
<footer>{footer}</footer>
<div class="toast" role="status" aria-live="polite"></div>
{scripts}
</body>
</html>
"""


def pages_from_networks(
    networks: Mapping[str, str], *, site: str, created: str, runs: int
) -> dict[str, str]:
    """Write every page, by its file name; ``networks`` maps file names to names."""
    pages = {
        "index.html": ("runs", "All runs", ""),
        "models.html": ("models", "Models", ""),
        "run.html": ("run", "Run", ""),
        "compare.html": ("compare", "Two runs", ""),
        **{file: ("model", name, name) for file, name in networks.items()},
    }
    scripts = "\n".join(
        f'<script src="{name}"></script>'
        for name in (f"assets/{SCRIPTS[0]}", DATA, *(f"assets/{name}" for name in SCRIPTS[1:]))
    )
    made = f"made {created[:16].replace('T', ' ')} by trtbench {__version__}"
    return {
        file: PAGE.format(
            title=html.escape(f"{heading} · {site}"),
            site=html.escape(site),
            heading=html.escape(heading),
            page=page,
            network=html.escape(network),
            **{
                f"here_{name}": ' aria-current="page"' if page == name else ""
                for name in ("runs", "models", "compare")
            },
            body='<div id="view"><p class="dim">Loading…</p></div>',
            footer=html.escape(f"{runs} runs · {made}"),
            scripts=scripts,
        )
        for file, (page, heading, network) in pages.items()
    }


def assets() -> dict[str, bytes]:
    """Collect the style and the scripts by the names pages know them by."""
    folder = resources.files(__name__) / "assets"
    files = {f"assets/{name}": (folder / name).read_bytes() for name in ASSETS}
    shared = {f"assets/{name}": asset(name).encode() for name in SHARED}
    return files | shared


def script_from_data(name: str, data: object) -> bytes:
    """Wrap data as a script: pages opened from a disk may load scripts and nothing else."""
    text = json.dumps(_plain(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # A closing tag or a line separator would end the script.
    for bad, good in (("</", "<\\/"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")):
        text = text.replace(bad, good)
    return f"{name}({text});\n".encode()


def _plain(data: object) -> object:
    """Leave out what no JSON holds: numbers that are none, and names that are not UTF-8."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, str):
        return clean_text(data)
    if isinstance(data, dict):
        return {name: _plain(value) for name, value in data.items()}
    return [_plain(value) for value in data] if isinstance(data, (list, tuple)) else data


def file_names(networks: Sequence[str]) -> dict[str, str]:
    """Name a file for every network; they may differ in case or signs only."""
    taken: set[str] = set()
    return {f"model-{file_stem(each.lower(), taken=taken)}.html": each for each in sorted(networks)}


MOST_POINTS = 400
"""Of a series of samples: as many as a screen has room for."""
RANKS = tuple(k / 100 for k in range(101))
BLOCKING = tuple(each.words for each in PROPERTIES if each.compare == "block")
"""Differences that make a ratio meaningless."""


def shared_figures() -> dict[str, dict[str, object]]:
    """Describe the charts of runs that meet only in a browser, which fills in their numbers.

    ``{unit}`` stands for a unit that suits the numbers.
    """

    def empty(role: str, style: LineStyle) -> Line:
        return line(None, role, (), (), style)

    time, share = Axis("Time", "{unit}"), Axis("Samples", "%")
    median, ratio = Axis("Median", "{unit}"), Axis("B over A", "%")
    lines, rings = ([empty(f"run:{k}", style) for k in (0, 1)] for style in ("line", "ring"))
    zero = line(None, "mark", (1, 99), (0, 0), "dotted")
    charts = {
        "ranks": ("Share of samples at or below", time, share, lines),
        "shift": (
            "B over A, percentile by percentile", Axis("Percentile"), ratio, [lines[1], zero]
        ),
        "launches": ("Median of every launch", Axis("Launch"), median, rings),
    }  # fmt: skip
    return {
        id: chart_data(Figure(id, title, curves(x, y, drawn)))
        for id, (title, x, y, drawn) in charts.items()
    }


def chart_data(figure: Figure) -> dict[str, object]:
    """Describe a chart of one panel for the script of the pages, which draws it."""
    chart = figure.chart
    assert isinstance(chart, Lines)

    def rounded(value: float | None) -> float | None:
        """Keep the digits that a screen can show, and of seconds since 1970 the seconds."""
        return None if value is None or not math.isfinite(value) else float(f"{value:.10g}")

    return {
        "title": figure.title,
        "x": {"label": chart.x.label, "time": chart.x.scale == "time"},
        "y": {"label": chart.y.label},
        "lines": [
            {
                "name": line.name,
                "colour": charts.token(line.role),
                "style": line.style,
                "x": list(map(rounded, line.x)),
                "y": list(map(rounded, line.y)),
                "texts": list(line.texts),
            }
            for line in chart.panels[0].lines
        ],
    }


def row_from_record(
    record: AnyRecord, *, median_s: float | None, items_per_s: float | None, reported: bool = False
) -> dict[str, object]:
    """Describe a run in a line of the list; short names, because there are thousands."""
    findings = record.findings if isinstance(record, RunRecord) else ()
    gpu = gpu_of(record)
    return {
        "id": record.id,
        "at": record.created,
        "network": network_name(record),
        "model": model_name(record),
        "runtime": record.spec.runtime,
        "precision": precision_of(record),
        "batch": record.known_items if isinstance(record, RunRecord) else record.spec.batch,
        "protocol": protocol_of(record),
        "machine": record.environment.host,
        "device": gpu.name if gpu else record.environment.cpu,
        "median": median_s,
        "reported": reported,
        "items": items_per_s,
        "tags": list(record.tags),
        "warnings": sum(each.severity != "note" for each in findings),
        "failed": record.reason if isinstance(record, FailedRun) else None,
    }


def series_data(series: Series, *, network: str) -> dict[str, object]:
    """Describe a series by the ids of its runs, its levels and its changes."""
    return {
        "network": network,
        "name": series.key.name,
        "runs": [point.run for point in series.points],
        "figure": chart_data(figure_from_series(series, "series")),
        "changes": [
            {
                "index": change.at.index,
                "run": change.run,
                "at": change.created,
                "before": change.at.before,
                "after": change.at.after,
                "change": change.at.change,
                "confirmed": change.at.confirmed,
                "causes": [[cause.name, cause.before, cause.after] for cause in change.causes],
            }
            for change in series.changes
        ],
    }


def run_data(run: Run) -> dict[str, object]:
    """Describe one run for its own page and for comparisons."""
    record, summary, headline = run.record, summary_of(run), run.times.headline
    samples = headline_column(run)
    parts = run.times.by_launch(headline) if headline in run.times.durations() else ()
    return {
        **_common(record),
        "headline": PHASES.get(summary.headline, summary.headline),
        "reported": summary.reported,
        "columns": [_column(each) for each in summary.columns],
        "items": summary.items_per_s,
        "queries": summary.queries_per_s,
        "interval": [summary.interval.low, summary.interval.high] if summary.interval else None,
        "ranks": np.quantile(samples, RANKS).tolist() if len(samples) else [],
        "samples": chart_data(_samples(run)) if len(samples) else None,
        "count": len(samples),
        "launches": [float(np.median(part)) for part in parts if len(part)],
        "scores": {
            name: [score.value, *(getattr(score.interval, end, None) for end in ("low", "high"))]
            for name, score in scores_of(run).items()
        },
        "findings": [
            [each.severity, each.code, each.message, each.remedy] for each in record.findings
        ],
        "notes": list(record.notes),
        "basis": basis(record),
    }


def failed_data(record: FailedRun) -> dict[str, object]:
    """Describe a run that did not finish."""
    log = list(record.log_tail)
    return {**_common(record), "failed": record.reason, "stage": record.stage, "log": log}


def basis(record: RunRecord) -> dict[str, object]:
    """Collect what two runs must share for a ratio to mean something, by its name in words."""
    shapes = ", ".join(f"{'x'.join(map(str, each.shape))} {each.dtype}" for each in record.inputs)
    own = {
        "inputs": shapes or None,
        "batch": record.known_items,
        "host": record.environment.kind,  # host names of runners change
    }
    declared = {
        each.words: own.get(each.name, value)
        for each in PROPERTIES
        if each.compare and (isinstance(value := each.read(record), Scalar) or each.name in own)
    }
    named = {each.name for each in PROPERTIES}
    others = {n: known_value(f) for n, f in record.conditions.items() if n not in named}
    return {**declared, **others}


def _common(record: AnyRecord) -> dict[str, object]:
    model, spec = record.spec.model, record.spec
    own: dict[str, Scalar] = {
        "warm-up": length_in_words(spec.warmup.floor),
        "length": length_in_words(spec.stop),
        "launches": spec.launches,
        "inputs": spec.inputs.source or f"random, seed {spec.inputs.seed}",
    }
    # Properties of the register that are set on the command line, as they ran.
    set_by_flags = {
        each.words: each.text(record)
        for each in PROPERTIES
        if each.asked and isinstance(record, RunRecord)
    }
    return {
        "id": record.id,
        "path": model.path,
        "sha256": model.sha256,
        "size": model.size_bytes,
        "tags": list(record.tags),
        "command": record.environment.command,
        "environment": facts_from_environment(record.environment),
        "options": own
        | {words: text for words, text in set_by_flags.items() if text}
        | {f"option {key}": value for key, value in spec.options.items()},
    }


def _column(column: ColumnSummary) -> dict[str, object]:
    names = ("median", "mean", "std", "min", "max")
    values: dict[str, float | None] = {name: getattr(column, name) for name in names}
    values |= {each.name: each.value for each in column.quantiles if each.q >= 0.9}
    shown = {k: v if v is not None and math.isfinite(v) else None for k, v in values.items()}
    return {"name": PHASES.get(column.column, column.column), "n": column.count, **shown}


def _samples(run: Run) -> Figure:
    """Draw samples; of every stretch the least and the largest, so that what stands out is kept."""
    samples = headline_column(run)
    kept = thinned(samples, MOST_POINTS)
    unit, scale = unit_for_seconds(float(np.median(samples)))
    points = line(None, "run:0", kept.astype(float), samples[kept], "points", scale=scale)
    title = f"{PHASES.get(run.times.headline, run.times.headline)} time"
    chart = curves(Axis("Sample"), Axis(title, unit), [points])
    return Figure("samples", f"{title}, sample by sample", chart)
