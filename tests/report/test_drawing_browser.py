"""A drawing of a thousand layers in a real browser: search, rows, zoom and colours."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from real_parts import find_browser

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "analysis"))

from layer_sets import conv, table

from trtbench.report.engine_svg import svg_from_engine

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

LAYERS = 1000


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Open the drawing on its own, as a file."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium here (apt-get install chromium)")
    layers = [
        conv(f"/block{n // 10}/conv{n}", (f"t{n}", "fp16"), (f"t{n + 1}", "fp16"))
        for n in range(LAYERS)
    ]
    engine = table(layers, [1.0 + n % 7 for n in range(LAYERS)])
    path = tmp_path_factory.mktemp("drawing") / "engine.svg"
    path.write_text(svg_from_engine(engine, title="engine"), encoding="utf-8")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, headless=True, args=["--no-sandbox", "--disable-gpu"]
        )
        opened = browser.new_page(viewport={"width": 1280, "height": 900})
        opened.set_default_timeout(0)  # what never comes ends with the time of the test
        said: list[str] = []
        opened.on("console", lambda message: said.append(message.text))
        opened.on("pageerror", lambda problem: said.append(str(problem)))
        opened.goto(path.as_uri())
        opened.wait_for_selector("svg[data-seen]", state="attached")
        opened.said = said
        yield opened
        browser.close()


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
