"""The tables of the document for LaTeX: each in a file to ``\\input``, and one document of all.

The tables use booktabs; long ones use longtable. Compile with any engine; names beyond Latin
letters need XeLaTeX or LuaLaTeX and a font that has them.
"""

from __future__ import annotations

import re
from pathlib import Path

from trtbench.boundary import clean_line
from trtbench.host.files import write_output
from trtbench.report.document import Document, Section, Table, Text

FILE = "report.tex"
FOLDER = "tables"
LONG_FROM = 30
"""Rows from which a table may break across pages."""
MOST_ROWS = 500
WIDE_FROM = 9
"""Columns from which a table is set in small letters."""

PREAMBLE = r"""\documentclass[a4paper,landscape]{article}
\usepackage{iftex}
\ifPDFTeX\usepackage[utf8]{inputenc}\usepackage[T1]{fontenc}\usepackage{textcomp}\fi
\usepackage[margin=15mm]{geometry}
\usepackage{booktabs,longtable,graphicx}
"""

ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "µ": r"\ensuremath{\mu}", "×": r"\ensuremath{\times}", "±": r"\ensuremath{\pm}",
    "–": "--", "−": r"\ensuremath{-}", "…": r"\ldots{}", "·": r"\textperiodcentered{}",
    "→": r"\ensuremath{\rightarrow}", "°": r"\textdegree{}", "▸": r"\ensuremath{\triangleright}",
}  # fmt: skip
_SPECIAL = re.compile("[" + re.escape("".join(ESCAPES)) + "]")


def render(document: Document, folder: Path) -> list[Path]:
    """Write ``tables/<table>.tex`` for each table and ``report.tex`` that puts them together."""
    paths = [
        write_output(folder / FOLDER / f"{table.id}.tex", tex_table(table))
        for table in document.tables()
    ]
    return [write_output(folder / FILE, tex_document(document)), *paths]


def escape(text: str) -> str:
    """Make text stand for itself in LaTeX."""
    text = clean_line(" ".join(text.split()))
    return _SPECIAL.sub(lambda found: ESCAPES[found[0]], text)


def tex_table(table: Table) -> str:
    """Write one table, ready to be input into any document."""
    rows = [" & ".join(escape(cell.shown) for cell in row) for row in table.rows[:MOST_ROWS]]
    head = " & ".join(rf"\textbf{{{escape(heading.title)}}}" for heading in table.headings)
    columns = "".join("r" if heading.align == "right" else "l" for heading in table.headings)
    if len(rows) > LONG_FROM:
        return _long(table, columns, head, rows)
    body = " \\\\\n".join(rows)
    end = " \\\\\n" if rows else ""
    inner = (
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head} \\\\\n\\midrule\n{body}{end}"
        "\\bottomrule\n\\end{tabular}"
    )
    if len(table.headings) >= WIDE_FROM:
        inner = f"\\resizebox{{\\linewidth}}{{!}}{{%\n{inner}}}"
    return f"\\begin{{table}}[htbp]\n\\centering\n{_caption(table)}{inner}\n\\end{{table}}\n"


def tex_document(document: Document) -> str:
    """Write a document that can be compiled as it is."""
    parts = [
        PREAMBLE,
        f"\\title{{{escape(document.title)}}}",
        f"\\date{{{escape(document.created)}}}",
    ]
    parts += [r"\begin{document}", r"\maketitle"]
    for section in document.sections:
        parts += _section(section)
    parts.append(r"\end{document}")
    return "\n".join(parts) + "\n"


def _section(section: Section) -> list[str]:
    alone = Document(title="", created="", sections=(section,))
    inside = [
        f"\\input{{{FOLDER}/{block.id}.tex}}" if isinstance(block, Table) else _prose(block)
        for block in alone.blocks()
        if isinstance(block, (Table, Text))
    ]
    return [f"\\section*{{{escape(section.title)}}}", *inside, r"\clearpage"] if inside else []


def _prose(text: Text) -> str:
    return "\n\n".join(escape(part) for part in text.text.split("\n\n")) + "\n"


def _long(table: Table, columns: str, head: str, rows: list[str]) -> str:
    left = len(table.rows) - len(rows)
    note = f"\\multicolumn{{{len(table.headings)}}}{{l}}{{{left} more rows}} \\\\\n" if left else ""
    body = " \\\\\n".join(rows)
    return (
        f"{{\\small\n\\begin{{longtable}}{{{columns}}}\n"
        f"\\toprule\n{head} \\\\\n\\midrule\n\\endhead\n{body} \\\\\n{note}"
        "\\bottomrule\n\\end{longtable}}\n"
    )


def _caption(table: Table) -> str:
    label = re.sub(r"[^A-Za-z0-9-]+", "-", table.id)
    words = f"\\caption{{{escape(table.caption)}}}\n" if table.caption else ""
    return f"{words}\\label{{tab:{label}}}\n" if words else ""
