"""Pages and drawings in a real browser: Chromium, driven by Playwright."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from layer_sets import conv, table
from made_runs import NASTY, full_runs, made_failure, made_profile, made_run

from trtbench.report.compose import document_from_runs
from trtbench.report.engine_svg import svg_from_engine
from trtbench.report.renderers import html
from waiting import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page that has every kind of block."""
    folder = tmp_path_factory.mktemp("page")
    runs = full_runs(folder)
    runs.append(made_run(model=NASTY, id="nasty", layers=made_profile(500, name=NASTY)))
    runs.append(made_run(model="=cmd|' calc'!A0;\t=1\n@x", id="formula"))
    document = document_from_runs(runs, failed=[made_failure(model=NASTY)])
    return html.render(document, folder)[0]


class Opened:
    """A page with what it said and asked for while it was open."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        settings = {"viewport": {"width": 1280, "height": 900}, "accept_downloads": True}
        self.context = browser.new_context(**{**settings, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(0)  # what never comes ends with the time of the test
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda problem: self.said.append(str(problem)))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready=yes]")

    def column(self, table: str, key: str) -> list[str]:
        script = """([table, key]) => {
          const figure = document.querySelector(`figure[data-table="${table}"]`);
          const place = [...figure.querySelectorAll("th")].findIndex((h) => h.dataset.key === key);
          return [...figure.querySelectorAll("tbody tr")].filter((r) => !r.hidden)
            .map((row) => row.cells[place].dataset.v ?? row.cells[place].textContent);
        }"""
        found: list[str] = self.page.evaluate(script, [table, key])
        return found


@pytest.fixture(scope="module")
def opened(browser: Any, report: Path) -> Iterator[Opened]:
    made = Opened(browser, report)
    yield made
    made.context.close()


def test_it_loads_without_a_word_or_a_network_and_names_run_no_script(opened: Opened, report: Path):
    assert opened.said == []
    assert opened.asked == [report.as_uri()]
    text = opened.page.inner_text("body")
    assert "<script>alert(1)<b>" in text
    assert "模型" in text


def test_every_chart_is_drawn(opened: Opened) -> None:
    script = """() => [...document.querySelectorAll("svg.plot")].map((place) => [
      place.getAttribute("aria-label"), place.querySelectorAll("path").length])"""
    drawn = opened.page.evaluate(script)
    assert len(drawn) >= 12
    assert [figure for figure, marks in drawn if marks <= 3] == []


def test_a_click_sorts_and_a_second_one_turns_round(opened: Opened) -> None:
    head = opened.page.locator('figure[data-table="percentiles"] th[data-key="p50_s"] button')
    head.click()
    values = [float(value) for value in opened.column("percentiles", "p50_s")]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) > 3
    head.click()
    opened.page.wait_for_selector('th[data-key="p50_s"][aria-sort="ascending"]')
    values = [float(value) for value in opened.column("percentiles", "p50_s")]
    assert values == sorted(values)


def test_a_long_table_is_completed_when_it_is_wanted(opened: Opened) -> None:
    figure = opened.page.locator("figure[data-more]")
    id = figure.get_attribute("data-table")
    opened.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
    assert len(opened.column(id, "name")) == html.OPEN_ROWS
    figures = opened.page.locator(f'figure[data-table="{id}"]')
    figure.locator(".more").click()
    wait_for(lambda: figures.locator("tbody tr").count() == 500)
    assert opened.said == []


def test_data_are_saved_from_inside_the_page(opened: Opened, tmp_path: Path) -> None:
    def saved(selector: str) -> str:
        with opened.page.expect_download() as waiting:
            opened.page.locator(selector).click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        return path.read_text("utf-8")

    document = json.loads(saved('.save[data-name="report.json"]'))
    assert document["document"]["sections"]
    table = list(csv.DictReader(io.StringIO(saved('figure[data-table="summary"] .save-table'))))
    assert {row["id"] for row in table} >= {"engine-1", "torch-1"}
    assert float(table[0]["median_s"]) < 1
    opened.page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; }")
    opened.page.locator('figure[data-table="summary"] .copy-table').click()
    pasted = csv.reader(io.StringIO(opened.page.evaluate("window.copied")), delimiter="\t")
    cells = [cell for row in (*map(dict.values, table), *pasted) for cell in row]
    assert any("calc" in cell for cell in cells)
    assert not [cell for cell in cells if re.search(r"(^|[;\t\n])\s*[=@]", cell)]


def test_it_fits_a_phone(browser: Any, report: Path) -> None:
    opened = Opened(
        browser, report, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    script = """() => [...document.querySelectorAll("h2, main p, .card, .finding, .scroll-chart")]
      .filter((e) => e.getClientRects().length && !e.closest(".scroll"))
      .filter((e) => e.getBoundingClientRect().right > 391 || e.getBoundingClientRect().left < -1)
      .map((e) => e.tagName + e.className)"""
    assert opened.page.evaluate(script) == []
    assert opened.said == []
    opened.context.close()


def test_without_scripts_the_numbers_are_still_there(browser: Any, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator('figure[data-table="summary"] tbody tr').count() >= 6
    assert page.locator("#figure-latency_hist svg text").count() > 3
    context.close()


LAYERS = 1000


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Open the drawing on its own, as a file."""
    layers = [
        conv(f"/block{n // 10}/conv{n}", (f"t{n}", "fp16"), (f"t{n + 1}", "fp16"))
        for n in range(LAYERS)
    ]
    engine = table(layers, [1.0 + n % 7 for n in range(LAYERS)])
    path = tmp_path_factory.mktemp("drawing") / "engine.svg"
    path.write_text(svg_from_engine(engine, title="engine"), encoding="utf-8")
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(0)  # what never comes ends with the time of the test
    opened.said = []
    opened.on("console", lambda message: opened.said.append(message.text))
    opened.on("pageerror", lambda problem: opened.said.append(str(problem)))
    opened.goto(path.as_uri())
    opened.wait_for_selector("svg[data-seen]", state="attached")
    return opened


def scale(page: Any) -> float:
    words = page.get_attribute("g.world", "transform")
    return float(words.split("scale(")[1].rstrip(")"))


def test_all_layers_are_in_view_and_nothing_is_said(page: Any) -> None:
    assert page.said == []
    assert page.locator("g.layer").count() == LAYERS
    script = """() => [...document.querySelectorAll("g.layer rect")]
      .map((each) => each.getBoundingClientRect())
      .every((r) => r.left >= 0 && r.right <= 1280 && r.top >= 0 && r.bottom <= 900)"""
    assert page.evaluate(script)


def test_a_search_goes_to_the_layer_and_shows_its_row(page: Any) -> None:
    before = scale(page)
    page.fill("input", "conv777")
    page.press("input", "Enter")
    assert "/block77/conv777" in page.inner_text(".panel")
    assert "kind: Convolution" in page.inner_text(".panel")
    assert scale(page) > before
    assert page.locator("g.layer.faint").count() == LAYERS - 1
    page.press("input", "Escape")
    assert page.locator("g.layer.faint").count() == 0
