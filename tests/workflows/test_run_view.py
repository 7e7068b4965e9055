"""A run in Python: its repr, its page in a notebook, its frame and its picture."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import trtbench
from analysis_values import run, spec
from models import tiny_model
from trtbench.core.results import Comparison, Verdict
from trtbench.core.run import Finding, Interval
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import ModelRef
from trtbench.store.directory import Entry
from trtbench.workflows.runs import Entries


def test_a_notebook_gets_a_table_a_picture_and_no_markup_and_a_frame_every_iteration() -> None:
    host = np.random.default_rng(0).gamma(20, 1e-5, 200)
    finding = Finding(code="H09", severity="warning", message="the <CPU> was contended")
    times = IterationTimes(host=host, start=np.cumsum(host), launch=np.repeat([0, 1], 100))
    asked = spec(model=ModelRef(path="/models/<script>.onnx", format="onnx"))
    made = run(times, id="run-1", spec=asked, findings=(finding,) * 3)
    page = made._repr_html_()
    root = ElementTree.fromstring(f"<div>{page}</div>")
    assert root.find(".//table") is not None
    assert "<svg" in page
    assert root.find(".//script") is None
    assert "the &lt;CPU&gt; was contended" in page
    frame = made.to_pandas()
    assert list(frame.columns) == ["host_s", "start_s", "launch"]
    np.testing.assert_array_equal(frame["host_s"], host)
    assert frame.index.name == "iteration"


def test_the_list_of_runs_fits_on_a_screen_and_becomes_a_frame(tmp_path: Path) -> None:
    store = tmp_path / "store"
    model = tiny_model(tmp_path / "tiny.onnx")
    assert repr(trtbench.runs(store=store)) == "no runs"
    run = trtbench.bench(model, duration=0.05, launches=1, store=store)
    found = trtbench.runs(store=store)
    lines = repr(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert run.id in repr(found)
    assert run.id in found._repr_html_()
    frame = found.to_pandas()
    assert list(frame.index) == [run.id]
    assert frame.loc[run.id, "median_s"] > 0
    many = type(found)([*found] * 100)
    assert len(repr(many).splitlines()) < 30
    assert "and 80 more" in repr(many)


def test_a_comparison_is_a_line_and_a_page() -> None:
    held = Interval(low=0.85, high=0.95, level=0.99, meaning="of the ratio")
    verdict = Verdict(
        metric="host", kind="faster", ratio=0.9, interval=held, reason="<clear>", launches=5
    )
    unknown = Verdict(
        metric="p99", kind="unclear", ratio=None, interval=None, reason="none", launches=5
    )
    finding = Finding(code="H32", severity="warning", message="turns <moved> it")
    more = {"verdicts": (verdict, unknown), "findings": (finding,)}
    compared = Comparison(baseline="run-a", candidate="run-b", design="duet", **more)
    line = repr(compared)
    assert "\n" not in line
    assert len(line) < 160
    assert "host faster −10.00 %" in line
    page = compared._repr_html_()
    ElementTree.fromstring(f"<div>{page}</div>")
    for said in ("−15.00 % to −5.00 %", "turns &lt;moved&gt; it", "run-b against run-a"):
        assert said in page


def test_a_list_of_runs_is_one_page_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """rich shows by itself what it prints where it finds a notebook around it."""
    entry = Entry(
        id="run-1", kind="run", created="2026-11-15T10:00:00+00:00", model="net.onnx",
        runtime="onnxruntime", path="/runs/run-1", samples=9, median_s=2.123e-3,
    )  # fmt: skip
    shown: list[object] = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *each: shown.append(each))
    listed = repr(Entries([entry, entry.having(median_s=7.5e-4), entry.having(samples=0)]))
    assert "net.onnx" in listed
    assert [f"{part} ms" in listed for part in ("2.12", "0.750")] == [True, True]
    assert "2.12 ms*" in listed  # reported by another tool
    assert shown == []
