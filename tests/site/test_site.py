"""The site: pages that are new are written, and used in Chromium from the disk."""

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from many_runs import START, add, add_series, failed, fill_store, record
from trtbench.core.errors import StoreError, UsageError
from trtbench.host.files import write_output
from trtbench.store.store import Store
from trtbench.workflows.report import write_site

COUNT = 240


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site")
    store = fill_store(root / "store", count=COUNT)
    made = write_site(store, root / "out", title="Lab & Co")
    assert (made.runs, made.written, made.problems) == (COUNT, COUNT, ())
    return root / "out"


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that must not raise, complain, or ask for anything but files."""
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(0)  # what never comes ends with the time of the test
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda told: problems.append(told.text) if told.type == "error" else None)
    opened.on(
        "request",
        lambda asked: (
            problems.append(asked.url) if not asked.url.startswith(("file:", "data:")) else None
        ),
    )
    yield opened
    context.close()
    assert not problems


# Written.


def test_only_what_is_new_is_written_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with pytest.raises(UsageError, match="no runs"):
        write_site(store, tmp_path / "out")
    ids = add_series(store, [1e-3] * 3, [record(k) for k in range(3)])
    assert write_site(store, tmp_path / "out").written == 3
    assert write_site(store, tmp_path / "out").written == 0
    time.sleep(0.02)
    store.tag(ids[0], add=("release",))
    store.remove(ids[1])
    (store.runs / ids[2] / "samples.npz").write_bytes(b"damaged")
    add_series(store, [1e-3], [record(9)])
    made = write_site(store, tmp_path / "out")
    assert (made.runs, made.written) == (3, 2)
    left = {path.stem for path in (tmp_path / "out/runs").glob("*.html")}
    assert ids[1] not in left
    index = (tmp_path / "out/index.html").read_text()
    assert f'<a href="runs/{ids[0]}.html">{ids[0]}</a>' in index
    assert ">release</td>" in index


def test_a_page_that_could_not_be_written_is_not_half_there_for_good(tmp_path: Path) -> None:
    """Killed or out of space in the middle of a file: the next site must not take it for whole."""
    store = Store(tmp_path / "store")
    add_series(store, [1e-3], [record(0)])
    write_site(store, tmp_path / "out")
    (new,) = add_series(store, [1e-3], [record(9)])
    target = tmp_path / "out" / "runs" / f"{new}.html"
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        try:
            write_site(store, tmp_path / "out")
        except StoreError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert not target.exists()
    assert write_site(store, tmp_path / "out").written == 1
    assert new in target.read_text()


def test_pages_of_somebody_else_are_not_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    add_series(store, [1e-3], [record(0)])
    (tmp_path / "home" / "runs").mkdir(parents=True)
    own = tmp_path / "home" / "runs" / "own.html"
    own.write_text("mine")
    with pytest.raises(UsageError, match="not a trtbench site"):
        write_site(store, tmp_path / "home")
    assert own.read_text() == "mine"


def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe, link, real = (tmp_path / name for name in ("pipe", "link", "real"))
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, "text", named=True)
    assert os.read(reading, 10) == b"text"
    os.close(reading)
    assert pipe.is_fifo()
    link.symlink_to(real)
    real.touch()
    write_output(link, "text", named=True)
    assert link.is_symlink()
    assert real.read_text() == "text"


# In the browser.


@pytest.mark.browser
def test_many_runs_can_be_searched_sorted_and_opened(folder: Path, page: Any) -> None:
    page.goto((folder / "index.html").as_uri())
    assert page.title() == "Lab & Co"
    assert page.locator("tbody tr").count() == 200
    page.get_by_role("searchbox").fill("resnet18 int8")
    page.wait_for_function("document.querySelector('.shown').textContent")
    count, total = page.locator(".shown").inner_text().split(" of ")
    assert 0 < int(count) < int(total) == COUNT
    page.locator("th[data-key=median_s] button").click()
    page.wait_for_selector("th[aria-sort=descending]")
    values = page.locator("tbody tr:visible td[data-v]").evaluate_all(
        "cells => cells.filter(c => c.cellIndex === 6).map(c => +c.dataset.v)"
    )
    assert values == sorted(values, reverse=True)
    page.get_by_role("searchbox").fill("")
    page.wait_for_function(f"document.querySelectorAll('tbody a').length === {COUNT}")
    page.locator("tbody a").last.click()
    page.wait_for_selector("#summary")


@pytest.mark.browser
def test_failed_runs_and_odd_names_do_no_harm(tmp_path: Path, page: Any) -> None:
    store = Store(tmp_path / "store")
    nasty = '<img src=x onerror="document.title=1">.onnx'
    add_series(store, [1e-3, 2e-3], [record(1, model=nasty), record(2, model="größe 模型.onnx")])
    lost = failed(3, model="big.onnx", created=START)
    add(store, [(lost, None)])
    write_site(store, tmp_path / "out", title='"><script>alert(1)</script>')
    page.goto((tmp_path / "out/index.html").as_uri())
    assert nasty in page.locator("tbody").inner_text()
    assert page.locator("tbody img").count() == 0
    page.get_by_role("link", name=lost.id).click()
    page.wait_for_selector("#failures")
    assert "ended by SIGKILL" in page.locator("main").inner_text()
