import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from made_runs import full_runs, made_failure, made_profile, made_run

from trtbench.core.samples import IterationTimes
from trtbench.report.compose import document_from_runs
from trtbench.report.renderers import html


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


def test_ten_thousand_layers_do_not_swell_the_page() -> None:
    page = html.page(document_from_runs([made_run(layers=made_profile(10_000))]))
    assert len(page) < 3_500_000
    assert page.count("<tr>") < 600
    (letters,) = re.findall(r'id="rows">([^<]*)<', page)
    rows = json.loads(gzip.decompress(base64.b64decode(letters)))["layers"]
    assert len(rows) == 10_000 - html.OPEN_ROWS
    assert rows[0][1][6][1] > rows[-1][1][6][1]


@pytest.mark.parametrize(
    "column", [[1e-3], [0.0] * 20, [2e-3] * 20, [1e-3, np.nan, 2e-3, np.inf], [1e-9, 10.0] * 20]
)
def test_odd_columns_make_a_page(column: list[float]) -> None:
    runs = [made_run(IterationTimes(host=np.array(column))), made_run(id="b")]
    assert "</html>" in html.page(document_from_runs(runs))
