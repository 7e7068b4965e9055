from __future__ import annotations

import csv
import json
import subprocess
import sys
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pytest
from made_runs import NASTY, made_failure, made_profile, made_run, made_times, phased_times
from PIL import Image

from trtbench.domain.samples import times_from_columns
from trtbench.report import style
from trtbench.report.charts import Axis, Line, Lines, Panel
from trtbench.report.compose import RENDERERS, document_from_runs, write_document
from trtbench.report.csv_lines import NOTHING
from trtbench.report.document import Cell, Figure, Heading, table_from_rows
from trtbench.report.renderers import csv as csv_renderer
from trtbench.report.renderers import json as json_renderer
from trtbench.report.renderers import png


def check_picture(data: bytes) -> np.ndarray:
    """Check that a picture is a PNG of sensible size with something drawn on it."""
    image = Image.open(BytesIO(data))
    assert image.format == "PNG"
    assert image.width == style.WIDTH_IN * style.DPI
    assert 300 <= image.height <= 4000
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
        "latency_hist", "latency_ecdf", "speed_benchmark", "latency_series", "percentiles",
        "phases", "per_layer_time_1", "throughput_vs_latency", "inference_time_bar_all",
        "inference_throughput_vs_batch_size_script_alert_1_b_a_b_x_y_z",
    }  # fmt: skip
    for figure in figures:
        check_picture(png.png_bytes(figure))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "column", [np.array([1e-3]), np.zeros(20), np.full(20, 2e-3), np.array([1e-9, 10.0] * 20)]
)
def test_odd_columns_are_drawn(column: np.ndarray) -> None:
    document = document_from_runs([made_run(times_from_columns({"host": column}))])
    for figure in document.figures():
        Image.open(BytesIO(png.png_bytes(figure))).verify()


def test_a_run_keeps_its_colour_in_every_picture() -> None:
    document = document_from_runs([made_run(id="a"), made_run(id="b", precision="int8")])
    second = tuple(int(style.colour("run:1")[at : at + 2], 16) for at in (1, 3, 5))
    for figure in document.figures():
        pixels = np.asarray(Image.open(BytesIO(png.png_bytes(figure))).convert("RGB")).astype(int)
        assert (np.abs(pixels - second).sum(axis=2) < 60).any(), figure.id


def test_pictures_leave_the_settings_of_matplotlib_alone() -> None:
    import matplotlib as mpl

    before = mpl.rcParams.copy()
    png.png_bytes(document_from_runs([made_run()]).figures()[0])
    assert mpl.rcParams.copy() == before


def test_only_pictures_import_matplotlib_and_none_imports_pyplot() -> None:
    code = """if True:
        import sys
        from made_runs import made_run
        from trtbench.report.compose import document_from_runs
        from trtbench.report.renderers import csv, json, md, png
        document = document_from_runs([made_run()])
        md.markdown(document), json.json_bytes(document)
        heavy = {"matplotlib", "scipy.stats", "pandas", "sqlite3", "onnx", "torch"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
        png.png_bytes(document.figures()[0])
        assert "matplotlib.pyplot" not in sys.modules
    """
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_figure_id_cannot_leave_the_folder() -> None:
    chart = Lines(x=Axis(title="x"), y=Axis(title="y"), panels=(Panel(lines=(
        Line(name="a", role="run:0", x=(0.0, 1.0), y=(1.0, None)),)),))  # fmt: skip
    assert "/" not in png.file_name(Figure(id="../../etc/x", title="t", chart=chart))


def test_csv_gives_back_the_values_of_a_table() -> None:
    headings = (Heading(key="name", title="Name"), Heading(key="x_s", title="x"))
    rows = [(NASTY, Cell(value=0.1 + 0.2, text="0.3 s")), ('a,"b"', None), ("c", 1e-9)]
    table = table_from_rows("t", headings=headings, rows=rows)
    read = list(csv.DictReader(StringIO(csv_renderer.csv_text(table), newline="")))
    assert [row["name"] for row in read] == [NASTY.replace("\0", NOTHING), 'a,"b"', "c"]
    assert [row["x_s"] for row in read] == [repr(0.1 + 0.2), "", "1e-09"]


def test_csv_medians_are_those_of_the_samples(tmp_path: Path) -> None:
    run = made_run()
    paths = csv_renderer.render(document_from_runs([run]), tmp_path)
    summary = next(path for path in paths if path.name == "summary.csv")
    row = next(csv.DictReader(StringIO(summary.read_text("utf-8"))))
    assert float(row["median_s"]) == np.median(run.times.host)
    assert float(row["p99_s"]) == np.sort(run.times.host)[int(0.99 * 2000) - 1]


def test_json_gives_back_the_document(tmp_path: Path) -> None:
    document = document_from_runs([made_run(model=NASTY)], failed=[made_failure()])
    (path,) = json_renderer.render(document, tmp_path)
    assert json_renderer.document_from_json(path.read_bytes()) == document
    raw = json.loads(path.read_text("utf-8"))
    assert raw["runs"] == ["run-1"]
    assert raw["failed"] == ["run-bad"]


def test_all_formats_together_write_each_file_once(tmp_path: Path) -> None:
    assert {"csv", "json", "md", "png"} <= set(RENDERERS.names())
    paths = write_document(
        document_from_runs([made_run()]), tmp_path / "new", formats=["png", "md", "json", "csv"]
    )
    assert len(paths) == len(set(paths))
    assert sorted(paths) == sorted(p for p in (tmp_path / "new").rglob("*") if p.is_file())


def test_a_hundred_runs_fit_one_description() -> None:
    runs = [made_run(made_times(10_000, seed=seed), id=f"run-{seed}") for seed in range(100)]
    document = document_from_runs(runs)
    summary = document.tables()[0]
    assert len(summary.rows) == 100
    assert len([figure for figure in document.figures() if "speed" in figure.id]) == 1
    assert len(json_renderer.json_bytes(document)) < 5_000_000
