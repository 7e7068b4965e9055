import base64
import gzip
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from made_runs import (
    full_runs,
    made_failure,
    made_profile,
    made_run,
)

from trtbench.core.samples import IterationTimes
from trtbench.report.compose import document_from_runs
from trtbench.report.document import Document
from trtbench.report.renderers import html


class Outline(HTMLParser):
    """Collects what a page is made of."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def ids(self) -> list[str]:
        return [str(attrs["id"]) for _, attrs in self.tags if "id" in attrs]


def page_of(document: Document) -> str:
    return html.page(document)


def blob(page: str, id: str) -> bytes:
    letters = re.search(rf'id="{id}">([^<]*)<', page)
    assert letters
    return gzip.decompress(base64.b64decode(letters[1]))


@pytest.fixture(scope="module")
def full_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    runs = full_runs(tmp_path_factory.mktemp("full"))
    document = document_from_runs(runs, failed=[made_failure()])
    return page_of(document)


def test_the_page_points_at_nothing_outside(full_page: str) -> None:
    outline = Outline(full_page)
    for tag, attrs in outline.tags:
        for name in ("src", "href", "srcset", "action", "poster", "data"):
            value = attrs.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, value)
    policy = next(a["content"] for t, a in outline.tags if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy
    styles = re.findall(r"<style>(.*?)</style>", full_page, flags=re.DOTALL)
    assert not re.search(r"url\(|@import", "".join(styles))


def test_ten_thousand_layers_do_not_swell_the_page() -> None:
    page = page_of(document_from_runs([made_run(layers=made_profile(10_000))]))
    assert len(page) < 3_500_000
    assert page.count("<tr>") < 600
    rows = json.loads(blob(page, "rows"))["layers"]
    assert len(rows) == 10_000 - html.OPEN_ROWS
    assert rows[0][1][6][1] > rows[-1][1][6][1]


@pytest.mark.parametrize(
    "column",
    [
        np.array([1e-3]),
        np.zeros(20),
        np.full(20, 2e-3),
        np.array([1e-3, np.nan, 2e-3, np.inf]),
        np.array([1e-9, 10.0] * 20),
    ],
)
def test_odd_columns_make_a_page(column: np.ndarray) -> None:
    page = page_of(document_from_runs([made_run(IterationTimes(host=column)), made_run(id="b")]))
    assert "</html>" in page
