from __future__ import annotations

import re
from pathlib import Path

import pytest
from made_runs import NASTY, WARNING, made_failure, made_profile, made_run, made_times, phased_times

from trtbench.report.compose import document_from_runs
from trtbench.report.document import Document
from trtbench.report.renderers import md

CELL_BORDER = re.compile(r"(?<!\\)\|")


def check_tables(text: str) -> int:
    """Check that every row of every table has as many cells as its head, and count the tables."""
    tables = 0
    for block in text.split("\n\n"):
        lines = block.split("\n")
        if not lines[0].startswith("|"):
            continue
        counts = {len(CELL_BORDER.findall(line)) for line in lines}
        assert len(counts) == 1, block
        assert re.fullmatch(r"\|( ---:? \|)+", lines[1]), lines[1]
        tables += 1
    return tables


def nasty_document() -> Document:
    run = made_run(
        phased_times(),
        model=NASTY,
        findings=(WARNING,),
        layers=made_profile(20, name=NASTY),
    )
    run.extra["scores"] = {NASTY: 0.5}
    return document_from_runs([run, made_run()], failed=[made_failure(model=NASTY, reason=NASTY)])


def test_tables_are_well_formed_whatever_names_hold() -> None:
    text = md.markdown(nasty_document())
    assert check_tables(text) == 10


def test_names_are_shown_and_not_obeyed() -> None:
    text = md.markdown(nasty_document())
    outside = re.sub(r"(`{3,})\w+\n.*?\n\1", "", text, flags=re.DOTALL)
    assert "<script" not in outside
    assert "&lt;script&gt;" in outside
    assert "模型" in outside
    assert "\x00" not in outside
    assert set(re.findall(r"<(/?\w+)", outside)) <= {
        "details",
        "/details",
        "summary",
        "/summary",
        "br",
    }
    assert outside.count("<details>") == outside.count("</details>")


def test_a_log_cannot_close_its_fence() -> None:
    text = md.markdown(document_from_runs([], failed=[made_failure()]))
    assert "````text\none ``` two\n</details>\n````" in text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("a\nb", "a b"),
        ("*x*_y_", r"\*x\*\_y\_"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("1.5 ms", "1.5 ms"),
        ("back\\slash|", "back\\\\slash\\|"),
    ],
)
def test_escaping(text: str, escaped: str) -> None:
    assert md.escape(text) == escaped


def test_pictures_lie_where_the_text_points(tmp_path: Path) -> None:
    paths = md.render(document_from_runs([made_run()]), tmp_path)
    pointed = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (tmp_path / "report.md").read_text("utf-8"))
    assert len(pointed) == 5
    assert all((tmp_path / name).is_file() for name in pointed)
    assert {path.name for path in paths} == {"report.md", *pointed}


def test_a_brief_report_fits_a_comment_and_has_no_pictures(tmp_path: Path) -> None:
    runs = [
        made_run(made_times(200, seed=seed), id=f"run-{seed}", findings=(WARNING,))
        for seed in range(100)
    ]
    document = document_from_runs(runs).having(brief=True)
    paths = md.render(document, tmp_path)
    text = paths[0].read_text("utf-8")
    assert [path.name for path in paths] == ["report.md"]
    assert len(text) < 65_536
    assert "![" not in text
    assert "more rows are left out" in text
    check_tables(text)


def test_a_brief_report_fits_on_one_screen() -> None:
    many = tuple(WARNING.having(code=f"H{n:02}", message=f"finding {n}") for n in range(40))
    runs = [made_run(made_times(200, seed=n), id=f"run-{n}", findings=many) for n in range(50)]
    for run in runs:
        run.extra["scores"] = {"top1": 0.9, "top5": 0.99}
    text = md.markdown(document_from_runs(runs).having(brief=True))
    shown = [line for line in text.splitlines() if line.strip()]
    assert len(shown) <= 50
    assert "35 more are in the whole report" in text
    assert WARNING.remedy is not None
    assert md.escape(WARNING.remedy) in text
    assert "Evidence" not in text


def test_ten_thousand_layers_are_folded_and_cut(tmp_path: Path) -> None:
    text = md.markdown(document_from_runs([made_run(layers=made_profile(10_000))]))
    assert len(text) < 500_000
    assert "9 800 more rows" in text
    assert "<details><summary>All 10 000 layers</summary>\n\n|" in text


def test_markdown_of_missing_things_says_so() -> None:
    text = md.markdown(document_from_runs([made_run(made_times(30), precision=None, batch=None)]))
    row = next(line for line in text.splitlines() if line.startswith("| net.onnx"))
    assert "| – |" in row
    assert "(needs" in row
