"""Documents on terminals of any width: what is shortened, broken, left out, and never touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtbench.report.document import (
    Block,
    Cell,
    Code,
    Document,
    Heading,
    KeyValues,
    Section,
    Table,
    Text,
    document_from_blocks,
    table_from_rows,
)
from trtbench.report.renderers.terminal import render, text

NAMES = (
    "resnet18_with_a_very_long_name_and_batch_normalisation_folded.int8.onnx",
    "resnet18_with_a_very_long_name_and_batch_normalisation_folded.fp16.onnx",
)


def document(*blocks: Block, title: str = "") -> Document:
    section = Section(id="only", title="", blocks=blocks)
    return Document(title=title, created="", sections=(section,))


def table(*names: str, numbers: int = 4) -> Table:
    headings = (
        Heading(key="name", title="Model", fit="shorten"),
        *(Heading(key=f"n{k}", title=f"number {k}", align="right", rank=k) for k in range(numbers)),
    )
    rows = [(name, *(Cell(value=1.0, text="1 234.5 ms") for _ in range(numbers))) for name in names]
    return table_from_rows("t", headings=headings, rows=rows)


def test_without_a_width_nothing_is_touched() -> None:
    lines = text(document(table(*NAMES)), width=None).splitlines()
    assert len(lines) == 3
    assert all(name in "\n".join(lines) for name in NAMES)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_names_lose_their_middle_and_stay_different_while_numbers_stay(width: int) -> None:
    lines = text(document(table(*NAMES)), width=width).splitlines()
    assert max(map(len, lines)) <= width
    first, second = lines[1].split()[0], lines[2].split()[0]
    assert first != second
    assert first.endswith("int8.onnx")
    assert ("…" in first) == (width < 120)
    assert lines[1].count("1 234.5 ms") == lines[2].count("1 234.5 ms") >= 1


def test_words_of_titles_are_stacked_before_columns_are_left_out() -> None:
    titles = ("rank", "TRT fp32 score", "TRT fp32 label", "TRT int8 score")
    headings = [Heading(key=t, title=t, rank=n, stack=True) for n, t in enumerate(titles)]
    table = table_from_rows("top", headings=tuple(headings), rows=[(1, 4.5, "cat", 4.25)])
    document = document_from_blocks("top", [table])
    assert text(document, width=60).splitlines()[0].split("  ") == list(titles)
    narrow = [line.split() for line in text(document, width=30).splitlines()]
    assert narrow == [
        ["rank", "TRT", "TRT", "TRT"], ["fp32", "fp32", "int8"], ["score", "label", "score"],
        ["1", "4.5", "cat", "4.25"],
    ]  # fmt: skip
    assert "too narrow for: TRT\nint8 score" in text(document, width=20)


def test_columns_are_left_out_by_rank_and_named() -> None:
    out = text(document(table("net.onnx")), width=40)
    assert "number 0" in out.splitlines()[0]
    assert "too narrow for: number 2, number 3" in out
    assert out.count("1 234.5 ms") == 2


def test_rows_become_blocks_where_even_what_must_stay_does_not_fit() -> None:
    headings = tuple(Heading(key=f"k{n}", title=f"title {n}") for n in range(4))
    rows = [tuple(Cell(text=f"{n} 234.56 items/s") for n in range(4))]
    out = text(document(table_from_rows("t", headings=headings, rows=rows)), width=30)
    lines = out.splitlines()
    assert lines[0] == "0 234.56 items/s"
    assert lines[1].split("  ")[-1] == "1 234.56 items/s"
    assert max(map(len, lines)) <= 30
    assert "too narrow" not in out


def test_a_number_is_not_parted_from_its_unit_at_the_end_of_a_line() -> None:
    for width in range(20, 60):
        words = "the median was 1 204.5 ms over 12 launches and 33.1 % of 5.2 GiB were in use"
        lines = text(document(Text(text=words)), width=width).splitlines()
        assert " ".join(lines) == words
        for part in ("1 204.5 ms", "33.1 %", "5.2 GiB"):
            assert any(part in line for line in lines), (width, part)


def test_facts_hang_under_their_value_and_commands_are_left_whole() -> None:
    facts = KeyValues(id="f", pairs=(("throughput", Cell(text="word " * 20)),))
    command = "trtbench bench " + "x" * 100
    lines = text(document(facts, Code(text=command)), width=40).splitlines()
    assert all(line.startswith(" " * 12) for line in lines[1:-1])
    assert lines[-1] == f"  {command}"


def test_what_would_steer_a_terminal_is_made_visible() -> None:
    bad = "evil\x1b[2Jname\rx"
    out = text(document(table(bad), Text(text=bad), title=bad), width=80)
    assert "\x1b" not in out
    assert "\r" not in out
    assert out.count("\\x1b[2Jname") == 3


def test_wide_letters_count_twice() -> None:
    out = text(document(table("模型" * 30)), width=50)
    assert "…" in out
    assert all(sum(2 if ord(c) > 0x2E80 else 1 for c in line) <= 50 for line in out.splitlines())


def test_the_text_format_writes_a_file(tmp_path: Path) -> None:
    (path,) = render(document(table(*NAMES), title="Title"), tmp_path)
    assert path.name == "report.txt"
    assert path.read_text(encoding="utf-8").startswith("Title\nModel")
