from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from made_runs import NASTY, full_runs, made_failure, made_profile, made_run

from trtbench.report.compose import document_from_runs
from trtbench.report.document import Heading, table_from_rows
from trtbench.report.renderers import tex


def test_what_latex_would_obey_is_escaped() -> None:
    assert tex.escape(r"\input{x}") == r"\textbackslash{}input\{x\}"
    assert tex.escape("50 % & a_b #1 $x$ ~^") == (
        r"50 \% \& a\_b \#1 \$x\$ \textasciitilde{}\textasciicircum{}"
    )
    assert tex.escape("1.5 µs – ± 2\n3") == r"1.5 \ensuremath{\mu}s -- \ensuremath{\pm} 2 3"


def test_rows_have_as_many_cells_as_the_head() -> None:
    headings = (Heading(key="a", title="A&B"), Heading(key="b", title="%", align="right"))
    table = table_from_rows("t_1", headings=headings, rows=[("x & y", 1.0), (NASTY, None)])
    text = tex.tex_table(table)
    assert r"\begin{tabular}{lr}" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 3
    assert all(len(re.findall(r"(?<!\\)&", row)) == 1 for row in rows)


def test_long_tables_may_break_across_pages_and_say_what_is_left_out(tmp_path: Path) -> None:
    document = document_from_runs([made_run(layers=made_profile(600))])
    paths = tex.render(document, tmp_path)
    text = (tmp_path / "tables" / "layers.tex").read_text("utf-8")
    assert r"\begin{longtable}" in text
    assert "100 more rows" in text
    whole = (tmp_path / "report.tex").read_text("utf-8")
    assert r"\input{tables/layers.tex}" in whole
    assert len(paths) == 1 + len(document.tables())


def test_every_input_file_is_written_and_braces_match(tmp_path: Path) -> None:
    document = document_from_runs(full_runs(tmp_path), failed=[made_failure(model=NASTY)])
    for path in tex.render(document, tmp_path):
        text = path.read_text("utf-8")
        bare = re.sub(r"\\[{}]", "", text)
        assert bare.count("{") == bare.count("}"), path
        for name in re.findall(r"\\input\{([^}]*)\}", text):
            assert (tmp_path / name).is_file()


@pytest.mark.slow
@pytest.mark.real("LaTeX")
def test_latex_takes_it(tmp_path: Path) -> None:
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("no pdflatex here")
    tex.render(document_from_runs(full_runs(tmp_path)), tmp_path)
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
