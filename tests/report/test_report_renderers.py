"""Documents as text, Markdown, HTML, LaTeX, CSV, JSON and PNG, as the command writes them."""

import base64
import csv
import gzip
import json
import re
import shutil
from html.parser import HTMLParser
from io import BytesIO, StringIO
from operator import itemgetter
from pathlib import Path

import msgspec
import numpy as np
import pytest
from made_runs import (
    NASTY,
    WARNING,
    full_runs,
    made_failure,
    made_profile,
    made_run,
    made_score,
    made_times,
    phased_times,
)
from PIL import Image

from trtbench.analysis.findings.evidence import spaced
from trtbench.core import units
from trtbench.core.run import Interval, Run
from trtbench.core.samples import IterationTimes
from trtbench.report import charts
from trtbench.report.compose import document_from_runs
from trtbench.report.document import Block, Cell, Document, Heading, Picture, Section, Table, Text
from trtbench.report.document import table as made_table
from trtbench.report.renderers import csv as csv_renderer
from trtbench.report.renderers import html, md, png, tex
from trtbench.report.renderers import json as json_renderer
from trtbench.report.renderers.csv import NUL_REPLACEMENT
from trtbench.report.renderers.terminal import text
from trtbench.store.directory import write_record, write_samples
from trtbench.store.store import Store
from trtbench.trtexec.exports import profile_json
from trtbench.workflows.report import load_runs, with_known_files, write_report
from waiting import printed


def document(*blocks: Block, title: str = "") -> Document:
    section = Section(id="only", title="", blocks=blocks)
    return Document(title=title, created="", sections=(section,))


def table_of(headings: tuple[Heading, ...], rows: list[tuple[object, ...]]) -> Table:
    return made_table("t", rows, [(each, itemgetter(k)) for k, each in enumerate(headings)])


def table(*names: str, numbers: int = 4) -> Table:
    headings = (
        Heading(key="name", title="Model", fit="shorten"),
        *(Heading(key=f"n{k}", title=f"number {k}", align="right", rank=k) for k in range(numbers)),
    )
    rows = [(name, *(Cell(value=1.0, text="1 234.5 ms") for _ in range(numbers))) for name in names]
    return table_of(headings, rows)


def test_rows_become_blocks_where_even_what_must_stay_does_not_fit() -> None:
    headings = tuple(Heading(key=f"k{n}", title=f"title {n}") for n in range(4))
    rows = [tuple(Cell(text=f"{n} 234.56 items/s") for n in range(4))]
    out = text(document(table_of(headings, rows)), width=30)
    lines = out.splitlines()
    assert lines[0] == "0 234.56 items/s"
    assert lines[1].split("  ")[-1] == "1 234.56 items/s"
    assert max(map(len, lines)) <= 30
    assert "too narrow" not in out


def test_a_long_table_stays_one_though_its_names_differ_only_in_the_middle() -> None:
    names = [
        f"If_0_then_branch__{n:02}__Inline_0__/decoder/rnn/Conv (FusedConv)" for n in range(12)
    ]
    out = text(document(table(*names)), width=60)
    assert len(out.splitlines()) <= len(names) + 3


def test_what_would_steer_a_terminal_is_made_visible() -> None:
    bad = "evil\x1b[2Jname\rx"
    out = text(document(table(bad), Text(text=bad), title=bad), width=80)
    assert "\x1b" not in out
    assert "\r" not in out
    assert out.count("\\x1b[2Jname") == 3


def test_what_latex_would_obey_is_escaped() -> None:
    assert tex.escape(r"\input{x}") == r"\textbackslash{}input\{x\}"
    assert tex.escape("[9cm]*") == "{[}9cm]{*}"  # arguments of the end of the row above
    escaped = r"50 \% \& a\_b \#1 \$x\$ \textasciitilde{}\textasciicircum{}"
    assert tex.escape("50 % & a_b #1 $x$ ~^") == escaped
    assert tex.escape("1.5 µs – ± 2\n3") == r"1.5 \ensuremath{\mu}s -- \ensuremath{\pm} 2 3"


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
    printed(command, cwd=tmp_path)


def nasty_document() -> Document:
    layers = made_profile(20, name=NASTY)
    run = made_run(phased_times(), model=NASTY, findings=(WARNING,), layers=layers)
    run.extra["scores"] = made_score(NASTY, 0.5)
    return document_from_runs([run, made_run()], failed=[made_failure(model=NASTY, reason=NASTY)])


def test_names_are_shown_and_not_obeyed() -> None:
    text = md.markdown(nasty_document())
    outside = re.sub(r"(`{3,})\w+\n.*?\n\1", "", text, flags=re.DOTALL)
    assert "<script" not in outside
    assert "&lt;script&gt;" in outside
    assert "模型" in outside
    assert "\x00" not in outside
    tags = {"details", "/details", "summary", "/summary", "br"}
    assert set(re.findall(r"<(/?\w+)", outside)) <= tags
    assert outside.count("<details>") == outside.count("</details>")
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
        ("/close", r"\/close"),  # GitLab carries out such a line
        ("1. item", r"1\. item"),
        ("1.5 ms", "1.5 ms"),
        ("back\\slash|", "back\\\\slash\\|"),
    ],
)
def test_escaping(text: str, escaped: str) -> None:
    assert md.escape(text) == escaped


def test_ten_thousand_layers_are_folded_and_cut_and_do_not_swell_the_page() -> None:
    large = document_from_runs([made_run(layers=made_profile(10_000))])
    text, page = md.markdown(large), html.page(large)
    assert len(text) < 500_000
    assert "9 800 more rows" in text
    assert "<details><summary>All 10 000 layers</summary>\n\n|" in text
    assert len(page) < 3_500_000
    assert page.count("<tr>") < 600
    (letters,) = re.findall(r'id="rows">([^<]*)<', page)
    rows = json.loads(gzip.decompress(base64.b64decode(letters)))["layers"]
    assert len(rows) == 10_000 - html.OPEN_ROWS
    assert rows[0][1][6][1] > rows[-1][1][6][1]


def check_picture(data: bytes) -> np.ndarray:
    """Check that a picture is a PNG of sensible size with something drawn on it."""
    image = Image.open(BytesIO(data))
    assert image.format == "PNG"
    assert image.width == charts.WIDTH_IN * charts.DPI
    assert 250 <= image.height <= 4000
    pixels = np.asarray(image.convert("RGB"))
    drawn = (pixels < 200).any(axis=2)
    assert 0.005 < drawn.mean() < 0.6
    # Nothing is cut off: the outermost pixels are paper.
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    assert (border > 250).all()
    return pixels


@pytest.mark.filterwarnings("error")
def test_every_figure_is_a_real_picture_and_no_name_breaks_it() -> None:
    runs = [
        made_run(phased_times(), model=NASTY, layers=made_profile(60, name=NASTY), batch=1),
        made_run(phased_times(seed=1), model=NASTY, batch=2),
        made_run(made_times(), model="long_" * 40 + ".onnx"),
    ]
    figures = document_from_runs(runs).figures()
    assert {figure.id for figure in figures} == {
        "latency_hist", "speed_benchmark", "latency_series", "percentiles",
        "phases", "per_layer_time_1", "inference_time_bar_all",
        "inference_throughput_vs_batch_size_script_alert_1_b_a_b_x_y_z",
    }  # fmt: skip
    for figure in figures:
        check_picture(png.png_bytes(figure))
    assert "/" not in png.file_name(Picture(id="../../etc/x", title="t", path="x.png"))


def test_csv_gives_back_the_values_of_a_table(tmp_path: Path) -> None:
    headings = (Heading(key="name", title="Name"), Heading(key="x_s", title="x"))
    rows = [(NASTY, Cell(value=0.1 + 0.2, text="0.3 s")), ('a,"b"', None), ("c", 1e-9)]
    table = table_of(headings, rows)
    [path] = csv_renderer.render(document(table), tmp_path)
    read = list(csv.DictReader(StringIO(path.read_bytes().decode(), newline="")))
    assert [row["name"] for row in read] == [NASTY.replace("\0", NUL_REPLACEMENT), 'a,"b"', "c"]
    assert [row["x_s"] for row in read] == [repr(0.1 + 0.2), "", "1e-09"]


def test_json_gives_back_the_document(tmp_path: Path) -> None:
    document = document_from_runs([made_run(model=NASTY)], failed=[made_failure()])
    (path,) = json_renderer.render(document, tmp_path)
    raw = json.loads(path.read_text("utf-8"))
    assert msgspec.convert(raw.pop("document"), Document).having(data=raw) == document
    assert raw["runs"] == ["run-1"]
    assert raw["failed"] == ["run-bad"]


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (1.23456, 1.2, 1.27, "1.23"),  # ± 0.035: the second place is in doubt
        (1.23456, 1.2334, 1.2358, "1.2346"),  # ± 0.0012 begins with a small one: a place more
        (1.23456, 1.2315, 1.2375, "1.235"),
        (1234.56, 1100, 1400, "1 235"),
        (6.7, 5.0, 12.0, "6.7"),  # two digits are shown however wide the interval is
        (0.97123, 0.958, 0.981, "0.971"),
        (5.0, 5.0, 5.0, "5.000"),
    ],
)
def test_digits_follow_the_interval(value: float, low: float, high: float, shown: str) -> None:
    bounds = Interval(low=low, high=high, level=0.95, meaning="")
    assert units.text_from_number(value, bounds=bounds) == shown


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_what_is_unknown_is_a_dash_and_no_number(missing: float | None) -> None:
    assert units.text_from_duration(missing) == units.text_from_number(missing) == "–"
    assert units.text_from_share(missing) == "–"


def test_whatever_is_below_zero_has_a_minus_and_no_hyphen() -> None:
    assert units.text_from_change(-0.0405) == "−4.05 %"
    assert units.text_from_seconds(-0.0015).startswith("−1.5")
    assert units.text_from_number(-12.3) == "−12.3"
    assert units.text_from_duration(-0.0012) == "−1.20 ms"
    assert units.text_from_difference(-0.0012) == "−1.20 ms"
    assert units.text_from_difference(0.0012) == "+1.20 ms"
    assert units.text_from_difference(None) == "–"
    assert units.text_from_difference(1.6e-19) == "0 ms"
    assert Cell(value=-0.25).shown == "−0.25"
    assert Cell(value="a-1").shown == "a-1"
    assert spaced("by -4% and +2.5%") == "by −4 % and +2.5 %"
    assert spaced("top1>=baseline-0.5%") == "top1>=baseline-0.5 %", "this is a difference"


class Outline(HTMLParser):
    """Collects what a page is made of."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_points_at_nothing_outside(tmp_path: Path) -> None:
    full_page = html.page(document_from_runs(full_runs(tmp_path), failed=[made_failure()]))
    outline = Outline(full_page)
    for tag, attrs in outline.tags:
        for name in ("src", "href", "srcset", "action", "poster", "data"):
            value = attrs.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, value)
    policy = next(a["content"] for t, a in outline.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy
    styles = re.findall(r"<style>(.*?)</style>", full_page, flags=re.DOTALL)
    assert not re.search(r"url\(|@import", "".join(styles))


@pytest.mark.parametrize(
    "column", [[1e-3], [0.0] * 20, [2e-3] * 20, [1e-3, np.nan, 2e-3, np.inf], [1e-9, 10.0] * 20]
)
def test_odd_columns_make_a_page(column: list[float]) -> None:
    runs = [made_run(IterationTimes(host=np.array(column))), made_run(id="b")]
    assert "</html>" in html.page(document_from_runs(runs))


def stored(folder: Path, run: Run) -> Path:
    """Write a run directory as the store keeps it."""
    target = folder / run.id
    target.mkdir(parents=True)
    write_record(target, run.record)
    write_samples(target, run.times)
    return target


def test_what_lies_beside_a_run_is_taken_in_or_named_if_damaged(tmp_path: Path) -> None:
    run = made_run(id="a")
    folder = stored(tmp_path / "runs", run)
    (folder / "output_diff.json").write_text('{"max_abs": 0.5}')
    (folder / "checks.json").write_text('[{"output": "y", "cosine": 0.99}]')
    (folder / "profile.json").write_bytes(profile_json(made_profile()))
    (folder / "pictures").mkdir()
    (folder / "pictures" / "worst.png").write_bytes(b"")
    (loaded,), _ = load_runs([str(folder)], store=Store(tmp_path / "store"))
    assert loaded.extra["output_comparison"] == {"max_abs": 0.5}
    assert loaded.extra["checks"] == [{"output": "y", "cosine": 0.99}]
    assert loaded.extra["pictures"] == [str(Path("pictures") / "worst.png")]
    assert loaded.layers is not None
    (folder / "pictures" / "worst.png").write_bytes(b"no picture")  # does not stop the page
    paths = write_report([loaded], tmp_path / "out", formats=["html"])
    assert "worst" in paths[0].read_text("utf-8")
    (folder / "output_diff.json").write_text("{")
    (loaded,), _ = load_runs([str(folder)], store=Store(tmp_path / "store"))
    assert "output_comparison" not in loaded.extra
    [page, *_] = write_report([loaded], tmp_path / "out", formats=["md"])
    assert "left out, as they are damaged: output\\_diff.json of a" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("told", "taken"), [('{"sha256": "abc", "build_s": 3}', True), ('{"sha256": "x"}', False),
                        ('{"build_s": 3}', False), ("{", False), ("[]", False)],
)  # fmt: skip
def test_a_build_record_is_believed_if_it_speaks_of_the_same_bytes(
    tmp_path: Path, told: str, taken: bool
) -> None:
    engine = tmp_path / "net.engine"
    Path(f"{engine}.json").write_text(told)
    run = made_run()
    model = run.record.spec.model.having(path=str(engine), format="engine", sha256="abc")
    record = run.record.having(spec=run.record.spec.having(model=model))
    assert ("build" in with_known_files(Run(record=record, times=run.times)).extra) is taken
