"""Writes the document as GitHub Markdown, with pictures as separate files.

All text is escaped, so that a layer called ``<script>`` or ``a|b`` is shown literally.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from trtbench.core.safety import clean_line, clean_text
from trtbench.core.units import text_from_count, text_from_number
from trtbench.host.files import write_output
from trtbench.report import document as doc
from trtbench.report.renderers import png

FILE = "report.md"
INCLUDES = ("png",)  # formats whose files it also writes, because it links to them

MOST_ROWS = 200  # GitHub refuses to render files above half a megabyte
OPEN_FINDINGS = 12  # findings shown; the others are collapsed
MOST_RUNS_NAMED = 8  # runs named per finding

ICONS = {"error": "❌", "warning": "⚠️", "note": "ℹ️"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~$!])")
_REFERENCE = re.compile(r"((?<!\w)@(?=\w)|#(?=\d)|\bGH-(?=\d))", re.IGNORECASE)
"""How forges mention people and issues, also after a backslash: only a character between helps."""


def render(document: doc.Document, folder: Path) -> list[Path]:
    """Write ``report.md`` and its pictures."""
    document = png.drawable(document)
    return [write_output(folder / FILE, markdown(document)), *png.render(document, folder)]


def markdown(document: doc.Document, *, level: int = 1) -> str:
    """Return the document as Markdown; ``level`` is the heading level of the title."""
    parts = [f"{'#' * level} {escape(document.title)}"] if document.title else []
    if document.created:
        parts.append(f"Created {escape(document.created)} by trtbench.")
    for section in document.sections:
        if section.title:
            parts.append(f"{'#' * (level + 1)} {escape(section.title)}")
        for block in section.blocks:
            parts += _block(block)
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Escape text for one line of Markdown or a table cell."""
    text = _SPECIAL.sub(r"\\\1", _html(text))
    # Escape what would start a list, a numbered list, a horizontal rule or a command of GitLab.
    return re.sub(r"^(?:(\d*)(?=[-+=.)](?:\s|$))|(?=/))", r"\1\\", text)


def _html(text: str) -> str:
    text = clean_line(" ".join(text.split()))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _REFERENCE.sub(r"\1&ZeroWidthSpace;", text)


def _block(block: doc.Block, *, folded: bool = False) -> Iterable[str]:
    if isinstance(block, doc.Text):
        yield from (escape(part) for part in block.text.split("\n\n"))
    elif isinstance(block, doc.Table):
        yield from _table(block, fold=not folded)
    elif isinstance(block, (doc.Figure, doc.Picture)):
        yield f"![{escape(block.title)}]({png.file_name(block)})"
        if block.caption:
            yield f"*{escape(block.caption)}*"
    elif isinstance(block, doc.FindingList):
        lines = [_finding(each) for each in block.items]
        yield "\n".join(lines[:OPEN_FINDINGS])
        if more := lines[OPEN_FINDINGS:]:
            yield from _folded(f"{text_from_count(len(more))} more findings", ["\n".join(more)])
    elif isinstance(block, doc.Code):
        longest = max((len(run) for run in re.findall(r"`+", block.text)), default=0)
        fence = "`" * max(3, longest + 1)
        yield f"{fence}{block.language}\n{clean_text(block.text.rstrip())}\n{fence}"
    elif isinstance(block, doc.KeyValues):
        pairs = [(escape(name), escape(cell.shown)) for name, cell in block.pairs]
        yield "\n".join(map(_line, [("Fact", "Value"), ("---", "---"), *pairs]))
    else:
        inner = [part for each in block.blocks for part in _block(each, folded=True)]
        yield from _folded(block.summary, inner)


def _table(table: doc.Table, *, fold: bool) -> list[str]:
    lines = [
        _line(escape(heading.title) for heading in table.headings),
        _line("---:" if heading.align == "right" else "---" for heading in table.headings),
        *(_line(escape(cell.shown) for cell in row) for row in table.rows[:MOST_ROWS]),
    ]
    parts = ["\n".join(lines)]
    if len(table.rows) > MOST_ROWS:
        left = text_from_count(len(table.rows) - MOST_ROWS)
        parts.append(f"*{left} more rows are not shown; the csv and json formats contain them.*")
    if table.caption:
        parts.append(f"*{escape(table.caption)}*")
    folded = fold and len(table.rows) > 15
    return _folded(f"{text_from_count(len(table.rows))} rows", parts) if folded else parts


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _folded(summary: str, parts: list[str]) -> list[str]:
    # Markdown inside the element needs an empty line before it.
    return [f"<details><summary>{_html(summary)}</summary>", *parts, "</details>"]


def _finding(item: doc.FindingGroup) -> str:
    finding = item.finding
    more = [f"{run}: {words}" for run, words in item.cases[:MOST_RUNS_NAMED]]
    if finding.evidence and not more:
        pairs = (
            f"{name} = {text_from_number(value) if isinstance(value, float) else value}"
            for name, value in finding.evidence.items()
        )
        more.append(f"Evidence: {', '.join(pairs)}")
    if finding.remedy:
        more.append(f"Remedy: {finding.remedy}")
    if item.runs and (len(item.cases) > MOST_RUNS_NAMED or not item.cases):
        left = len(item.runs) - MOST_RUNS_NAMED
        some = f" and {left} more" if left > 0 else ""
        more.append(f"Runs: {', '.join(item.runs[:MOST_RUNS_NAMED])}{some}")
    words = escape(item.title or finding.message)
    first = f"- {ICONS[finding.severity]} **{words}** ({escape(finding.code)})"
    return "\n".join([first, *(f"  <br>{escape(each)}" for each in more)])
