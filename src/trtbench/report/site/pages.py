"""The pages of the site: one for all runs, one for each network, one for a run, one for two."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources

from trtbench.boundary import clean_text
from trtbench.domain.spec import Value
from trtbench.report import style
from trtbench.report.labels import file_stem
from trtbench.report.renderers.html import asset, plotly_script

ASSETS = ("site.css", "core.js", "table.js", "pages.js")
SCRIPTS = ("core.js", "tables.js", "table.js", "plotly.min.js", "charts.js", "pages.js")
"""In the order in which they are loaded; the first takes the data in, the last begins."""
SHARED = ("tables.js", "charts.js")
"""Scripts of the report that the site uses, too."""
DRAWING = ("plotly.min.js", "charts.js")
"""Only pages with pictures load these."""
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
<script type="application/json" id="palette">{palette}</script>
{scripts}
</body>
</html>
"""


class SiteFacts(Value, frozen=True, kw_only=True):
    """What every page says of the whole."""

    title: str
    created: str
    runs: int
    version: str


def pages_from_networks(networks: Mapping[str, str], facts: SiteFacts) -> dict[str, str]:
    """Write every page, by its file name; ``networks`` maps file names to names."""
    pages = {
        "index.html": _page("runs", "All runs", facts),
        "models.html": _page("models", "Models", facts),
        "run.html": _page("run", "Run", facts),
        "compare.html": _page("compare", "Two runs", facts),
    }
    for file, name in networks.items():
        pages[file] = _page("model", name, facts, network=name)
    return pages


def assets() -> dict[str, bytes]:
    """Collect the style and the scripts by the names pages know them by."""
    folder = resources.files(__name__.rpartition(".")[0]) / "assets"
    files = {f"assets/{name}": (folder / name).read_bytes() for name in ASSETS}
    shared = {f"assets/{name}": asset(name).encode() for name in SHARED}
    return files | shared | {"assets/plotly.min.js": plotly_script()}


def script_from_data(name: str, data: object) -> bytes:
    """Wrap data as a script: pages opened from a disk may load scripts and nothing else."""
    return f"{name}({_json(data)});\n".encode()


def _page(page: str, heading: str, facts: SiteFacts, *, network: str = "") -> str:
    here = ' aria-current="page"'
    drawn = page in ("model", "run", "compare")
    first, *rest = (f"assets/{name}" for name in SCRIPTS if drawn or name not in DRAWING)
    scripts = [first, DATA, *rest]
    return PAGE.format(
        title=html.escape(f"{heading} · {facts.title}"),
        site=html.escape(facts.title),
        heading=html.escape(heading),
        page=page,
        network=html.escape(network),
        here_runs=here if page == "runs" else "",
        here_models=here if page == "models" else "",
        here_compare=here if page == "compare" else "",
        body='<div id="view"><p class="dim">Loading…</p></div>',
        footer=html.escape(
            f"{facts.runs} runs · made {facts.created[:16].replace('T', ' ')} "
            f"by trtbench {facts.version}"
        ),
        palette=_json(style.TOKENS),
        scripts="\n".join(f'<script src="{name}"></script>' for name in scripts),
    )


def _json(data: object) -> str:
    """Write JSON that can stand in a script; a closing tag or a line separator would end it."""
    text = json.dumps(_plain(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for bad, good in (("</", "<\\/"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")):
        text = text.replace(bad, good)
    return text


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
    found: dict[str, str] = {}
    for name in sorted(networks):
        stem = file_stem(name.lower(), taken=taken)
        found[f"model-{stem}.html"] = name
    return found
