"""The document as GitHub Markdown, with its pictures beside it.

Text from outside is escaped: a layer called ``<script>`` or ``a|b`` is shown, not obeyed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from trtbench.boundary import clean_line, clean_text
from trtbench.host.files import write_output
from trtbench.report.document import (
    Block,
    Cards,
    Code,
    Details,
    Document,
    Drawing,
    Figure,
    FindingList,
    FindingOf,
    KeyValues,
    Picture,
    Section,
    Table,
    Text,
)
from trtbench.report.finding_list import short_title
from trtbench.report.numbers import text_from_count, text_from_number
from trtbench.report.renderers import png

FILE = "report.md"
INCLUDES = ("png",)
"""Formats whose files this one writes too, because it points at them."""

FOLDED_FROM = 15
"""Longer tables are folded away."""
MOST_ROWS = 200
"""GitHub refuses to render files above half a megabyte."""
OPEN_FINDINGS = 12
"""More findings than this are folded away."""
CASES = 4
"""Messages shown of a finding that says something else about each run."""
NAMED = 8
"""Runs named of those that have a finding."""
BRIEF = ("verdicts", "summary", "findings", "failures", "accuracy")
BRIEF_ROWS = 10
"""A brief report fits on one screen."""
BRIEF_FINDINGS = 5

ICONS = {"error": "❌", "warning": "⚠️", "note": "ℹ️"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~$!])")


def render(document: Document, folder: Path) -> list[Path]:
    """Write ``report.md`` and the pictures it shows; a brief one has none."""
    document = document if png.can_draw() else document.with_figures(())
    path = write_output(folder / FILE, markdown(document))
    return [path, *([] if document.brief else png.render(document, folder))]


def markdown(document: Document, *, level: int = 1) -> str:
    """Write the document as Markdown; a brief one keeps what fits a pull request comment.

    The level is that of the title, for texts that become part of others.
    """
    rows = BRIEF_ROWS if document.brief else MOST_ROWS
    document = document.with_figures(()) if document.brief else document
    sections = [each for each in document.sections if not document.brief or each.id in BRIEF]
    parts = [f"{'#' * level} {escape(document.title)}"] if document.title else []
    if document.created and not document.brief:
        parts.append(f"Created {escape(document.created)} by trtbench.")
    for section in sections:
        shown = _first_blocks(section) if document.brief else section
        parts += _section(shown, rows=rows, level=level + 1)
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Make text stand for itself on one line of Markdown, inside a table too."""
    text = _SPECIAL.sub(r"\\\1", _html(text))
    # A line that begins like a list, a number of one, or a rule would become one.
    return re.sub(r"^(\d*)([-+=.)])(?=\s|$)", r"\1\\\2", text)


def _first_blocks(section: Section) -> Section:
    """Keep of a section what comes up to its first numbers, and of findings a line each."""
    kept: list[Block] = []
    for block in section.blocks:
        if isinstance(block, FindingList):
            kept += _short_findings(block)
        elif isinstance(block, Table):
            kept.append(block.having(caption=None))
        else:
            kept.append(block)
        if isinstance(block, (Table, Cards)):
            break
    return section.having(blocks=tuple(kept))


def _short_findings(block: FindingList) -> list[Block]:
    grave = [each for each in block.items if each.finding.severity != "note"]
    short = [
        each.having(
            finding=each.finding.having(evidence={}), title=short_title(each), runs=(), cases=()
        )
        for each in grave[:BRIEF_FINDINGS]
    ]
    left = len(block.items) - len(short)
    said = f"{text_from_count(left)} more {'are' if left > 1 else 'is'} in the whole report."
    lines: list[Block] = [FindingList(items=tuple(short))] if short else []
    return [*lines, *([Text(text=said)] if left else [])]


def _section(section: Section, *, rows: int, level: int) -> Iterable[str]:
    if section.title:
        yield f"{'#' * level} {escape(section.title)}"
    for block in section.blocks:
        yield from _block(block, rows=rows)


def _block(block: Block, *, rows: int, folded: bool = False) -> Iterable[str]:
    if isinstance(block, Text):
        yield from (escape(part) for part in block.text.split("\n\n"))
    elif isinstance(block, Table):
        yield from _table(block, rows=rows, fold=not folded)
    elif isinstance(block, Figure):
        yield f"![{escape(block.title)}]({png.file_name(block)})"
        if block.caption:
            yield f"*{escape(block.caption)}*"
    elif isinstance(block, FindingList):
        yield from _findings(block)
    elif isinstance(block, Cards):
        yield _cards(block)
    elif isinstance(block, Picture):
        yield f"![{escape(block.title)}]({png.picture_name(block)})"
        if block.caption:
            yield f"*{escape(block.caption)}*"
    elif isinstance(block, Drawing):
        yield f"[{escape(block.title)}]({png.drawing_name(block)})"
    elif isinstance(block, Code):
        yield _fenced(block)
    elif isinstance(block, KeyValues):
        yield _facts(block)
    else:
        yield from _details(block, rows=rows)


def _table(table: Table, *, rows: int, fold: bool) -> Iterable[str]:
    lines = [
        _line(escape(heading.title) for heading in table.headings),
        _line("---:" if heading.align == "right" else "---" for heading in table.headings),
        *(_line(escape(cell.shown) for cell in row) for row in table.rows[:rows]),
    ]
    parts = ["\n".join(lines)]
    if len(table.rows) > rows:
        left = text_from_count(len(table.rows) - rows)
        parts.append(f"*{left} more rows are left out here; the csv and json formats have them.*")
    if table.caption:
        parts.append(f"*{escape(table.caption)}*")
    if fold and len(table.rows) > FOLDED_FROM:
        parts = _folded(f"{text_from_count(len(table.rows))} rows", parts)
    return parts


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _details(details: Details, *, rows: int) -> list[str]:
    inner = [part for block in details.blocks for part in _block(block, rows=rows, folded=True)]
    return _folded(details.summary, inner)


def _folded(summary: str, parts: list[str]) -> list[str]:
    # Markdown inside the element is only read as such after an empty line.
    return [f"<details><summary>{_html(summary)}</summary>", *parts, "</details>"]


def _html(text: str) -> str:
    text = clean_line(" ".join(text.split()))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _findings(block: FindingList) -> list[str]:
    lines = [_finding(each) for each in block.items]
    parts = ["\n".join(lines[:OPEN_FINDINGS])]
    if more := lines[OPEN_FINDINGS:]:
        parts += _folded(f"{text_from_count(len(more))} more findings", ["\n".join(more)])
    return parts


def _finding(item: FindingOf) -> str:
    finding = item.finding
    words = escape(item.title or finding.message)
    lines = [f"- {ICONS[finding.severity]} **{words}** ({escape(finding.code)})"]
    cases = [f"{escape(run)}: {escape(words)}" for run, words in item.cases[:CASES]]
    lines += [f"  <br>{case}" for case in cases]
    if finding.evidence and not cases:
        pairs = (f"{name} = {_number(value)}" for name, value in finding.evidence.items())
        lines.append(f"  <br>Evidence: {escape(', '.join(pairs))}")
    if finding.remedy:
        lines.append(f"  <br>Remedy: {escape(finding.remedy)}")
    if item.runs and (len(item.cases) != len(cases) or not cases):
        lines.append(f"  <br>{escape(_who(item.runs))}")
    return "\n".join(lines)


def _who(runs: tuple[str, ...]) -> str:
    shown = ", ".join(runs[:NAMED])
    more = f" and {len(runs) - NAMED} more" if len(runs) > NAMED else ""
    return f"{'Runs' if len(runs) > 1 else 'Run'}: {shown}{more}"


def _number(value: object) -> str:
    return text_from_number(value) if isinstance(value, float) else str(value)


def _cards(cards: Cards) -> str:
    lines = []
    for card in cards.items:
        detail = f" ({escape(card.detail)})" if card.detail else ""
        lines.append(f"- {escape(card.title)}: **{escape(card.value)}**{detail}")
    return "\n".join(lines)


def _fenced(code: Code) -> str:
    longest = max((len(run) for run in re.findall(r"`+", code.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{code.language}\n{clean_text(code.text.rstrip())}\n{fence}"


def _facts(facts: KeyValues) -> str:
    rows = [_line((escape(name), escape(cell.shown))) for name, cell in facts.pairs]
    return "\n".join([_line(("Fact", "Value")), _line(("---", "---")), *rows])
