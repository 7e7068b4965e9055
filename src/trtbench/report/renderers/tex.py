"""Writes the tables of the document for LaTeX: a file for each, and a document with all.

The tables use booktabs; long ones use longtable. Any engine compiles them, but non-Latin names
need XeLaTeX or LuaLaTeX and a suitable font.
"""

import re
from pathlib import Path

from trtbench.core.safety import clean_line
from trtbench.host.files import make_subfolder, write_output
from trtbench.report.document import Document, Table, Text

FILE = "report.tex"
FOLDER = "tables"
MOST_ROWS = 500

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
    "[": "{[}", "*": "{*}",  # after \\, both would be arguments
}  # fmt: skip
_BLOCKS = re.compile("[\u2580-\u259f]+")  # block characters, which LaTeX's fonts lack
_SPECIAL = re.compile("[" + re.escape("".join(ESCAPES)) + "]")


def render(document: Document, folder: Path) -> list[Path]:
    """Write ``tables/<table>.tex`` for each table, and ``report.tex`` that includes them."""
    paths = [
        write_output(make_subfolder(folder / FOLDER) / f"{table.id}.tex", tex_table(table))
        for table in document.tables()
    ]
    return [write_output(folder / FILE, tex_document(document)), *paths]


def escape(text: str) -> str:
    text = _BLOCKS.sub("", clean_line(" ".join(text.split()))).strip()
    return _SPECIAL.sub(lambda found: ESCAPES[found[0]], text)


def tex_table(table: Table) -> str:
    rows = [" & ".join(escape(cell.shown) for cell in row) for row in table.rows[:MOST_ROWS]]
    head = " & ".join(rf"\textbf{{{escape(heading.title)}}}" for heading in table.headings)
    columns = "".join("r" if heading.align == "right" else "l" for heading in table.headings)
    body = "".join(f"{row} \\\\\n" for row in rows)
    top = f"\\toprule\n{head} \\\\\n\\midrule\n"
    if len(rows) > 30:  # tables with more rows can break across pages
        if left := len(table.rows) - len(rows):
            body += f"\\multicolumn{{{len(table.headings)}}}{{l}}{{{left} more rows}} \\\\\n"
        return (
            f"{{\\small\n\\begin{{longtable}}{{{columns}}}\n{top}\\endhead\n{body}"
            "\\bottomrule\n\\end{longtable}}\n"
        )
    inner = f"\\begin{{tabular}}{{{columns}}}\n{top}{body}\\bottomrule\n\\end{{tabular}}"
    if len(table.headings) >= 9:  # tables with this many columns are scaled to the page width
        inner = f"\\resizebox{{\\linewidth}}{{!}}{{%\n{inner}}}"
    caption = ""
    if table.caption:
        label = re.sub(r"[^A-Za-z0-9-]+", "-", table.id)
        caption = f"\\caption{{{escape(table.caption)}}}\n\\label{{tab:{label}}}\n"
    return f"\\begin{{table}}[htbp]\n\\centering\n{caption}{inner}\n\\end{{table}}\n"


def tex_document(document: Document) -> str:
    parts = [
        PREAMBLE,
        f"\\title{{{escape(document.title)}}}",
        f"\\date{{{escape(document.created)}}}",
        r"\begin{document}",
        r"\maketitle",
    ]
    for section in document.sections:
        inside = []
        for block in Document(sections=(section,)).blocks():
            if isinstance(block, Table):
                inside.append(f"\\input{{{FOLDER}/{block.id}.tex}}")
            elif isinstance(block, Text):
                inside.append("\n\n".join(map(escape, block.text.split("\n\n"))) + "\n")
        if inside:
            parts += [f"\\section*{{{escape(section.title)}}}", *inside, r"\clearpage"]
    return "\n".join([*parts, r"\end{document}"]) + "\n"
