"""A drawing of a thousand layers in a real browser: search, rows, zoom and colours."""

from typing import Any

import pytest
from layer_sets import conv, table

from trtbench.report.engine_svg import svg_from_engine

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

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
