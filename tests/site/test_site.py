"""The site: written quickly, used in Chromium from the disk with a thousand runs."""

from __future__ import annotations

import json
import os
import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from many_runs import START, add, add_series, failed, fill_store, record
from trtbench.core.errors import StoreError, UsageError
from trtbench.host.files import write_output
from trtbench.report.site import file_names, script_from_data
from trtbench.store.store import Store
from trtbench.workflows.report import write_site

COUNT = 1000


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


def drawn(page: Any) -> int:
    """Count the pictures, once all of them are there."""
    page.wait_for_selector("svg.plot")
    return int(page.locator("svg.plot").count())


def shown(page: Any) -> str:
    return str(page.locator("#shown").inner_text())


# Written.


def test_names_of_files_are_unique_and_data_cannot_leave_its_script() -> None:
    names = file_names(["Net", "net", "a/b", "a b", "../x", "n" * 250, "n" * 251])
    assert len(names) == 7
    assert max(map(len, names)) < 200
    assert all(re.fullmatch(r"model-[\w.-]+\.html", name) for name in names)
    script = script_from_data("f", {"x": "</script><b>\u2028"}).decode()
    assert "</" not in script
    assert "\u2028" not in script
    assert json.loads(script[2:-3]) == {"x": "</script><b>\\u2028"}, "made visible"


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
    left = {path.stem for path in (tmp_path / "out/data/runs").glob("*.js")}
    assert ids[1] not in left
    rows = json.loads((tmp_path / "out/data/runs.json").read_text())
    assert next(row for row in rows if row["id"] == ids[0])["tags"] == ["release"]


def test_a_page_that_could_not_be_written_is_not_half_there_for_good(tmp_path: Path) -> None:
    """Killed or out of space in the middle of a file: the next site must not take it for whole."""
    store = Store(tmp_path / "store")
    add_series(store, [1e-3], [record(0)])
    write_site(store, tmp_path / "out")
    (new,) = add_series(store, [1e-3], [record(9)])
    target = tmp_path / "out" / "data" / "runs" / f"{new}.js"
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
    assert json.loads(target.read_bytes()[len("trtbenchRun(") : -3])["id"] == new


def test_pages_of_somebody_else_are_not_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    add_series(store, [1e-3], [record(0)])
    (tmp_path / "home" / "data" / "runs").mkdir(parents=True)
    own = [tmp_path / "home" / name for name in ("data/runs/own.js", "model-own.html")]
    for path in own:
        path.write_text("mine")
    with pytest.raises(UsageError, match="no site of trtbench"):
        write_site(store, tmp_path / "home")
    assert [path.read_text() for path in own] == ["mine", "mine"]


def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe, link, real = (tmp_path / name for name in ("pipe", "link", "real"))
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, "text")
    assert os.read(reading, 10) == b"text"
    os.close(reading)
    assert pipe.is_fifo()
    link.symlink_to(real)
    real.touch()
    write_output(link, "text")
    assert link.is_symlink()
    assert real.read_text() == "text"


# In the browser.


@pytest.mark.browser
def test_a_thousand_runs_can_be_searched_filtered_and_sorted(folder: Path, page: Any) -> None:
    page.goto(f"{(folder / 'index.html').as_uri()}")
    page.wait_for_selector("tbody tr")
    assert page.title() == "All runs · Lab & Co"
    assert shown(page) == f"{COUNT} runs"
    assert page.locator("tbody tr").count() == 100
    page.get_by_role("searchbox").fill("resnet18 int8 batch 8")
    count = int(shown(page).split()[0])
    assert 0 < count < 60
    assert page.locator("tbody tr").count() == count
    page.get_by_role("searchbox").fill("")
    page.locator("[data-filter=runtime]").select_option("tensorrt")
    page.locator("[data-filter=batch]").select_option("8")
    page.locator("[data-filter=tag]").select_option("release")
    assert shown(page) == f"8 of {COUNT} runs"
    page.locator("th[data-key=median] button").click()
    texts = page.locator("tbody tr td:nth-child(7)").all_inner_texts()
    seconds = [_seconds(text) for text in texts]
    assert seconds == sorted(seconds)
    address = page.url
    page.goto("about:blank")
    page.goto(address)  # a link that was sent shows the same
    page.wait_for_selector("tbody tr")
    assert shown(page) == f"8 of {COUNT} runs"
    assert page.locator("[data-filter=runtime]").input_value() == "tensorrt"
    assert page.locator("tbody tr td:nth-child(7)").all_inner_texts() == texts
    page.get_by_role("button", name="Reset").click()
    assert shown(page) == f"{COUNT} runs"
    page.get_by_role("button", name=re.compile("Show more")).click()
    assert page.locator("tbody tr").count() == 600


def _seconds(text: str) -> float:
    number, unit = text.replace("\u2009", "").split()
    return float(number) * {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}[unit]


@pytest.mark.browser
def test_two_runs_are_picked_and_compared(folder: Path, page: Any) -> None:
    page.goto(f"{(folder / 'index.html').as_uri()}#q=resnet18.fp16+batch+1&sort=at")
    boxes = page.locator("tbody input[type=checkbox]")
    boxes.first.check()
    assert "Pick one more" in page.locator(".tray").inner_text()
    boxes.nth(30).check()
    page.locator("#compare").click()
    page.wait_for_selector("[data-ratio=median]")
    ratio = page.locator("[data-ratio=median] .big").inner_text()
    assert 8 < float(ratio.removeprefix("+").removesuffix(" %")) < 16  # slower by 12 % since May
    table = page.locator("#differences").inner_text()
    assert "10.9.0" in table
    assert "10.13.2" in table
    assert drawn(page) == 3
    page.locator("#swap").click()
    page.wait_for_function(
        "old => document.querySelector('[data-ratio=median] .big').textContent !== old", arg=ratio
    )
    assert page.locator("[data-ratio=median] .big").inner_text().startswith("−")


@pytest.mark.browser
def test_what_cannot_be_compared_gets_no_ratio(folder: Path, page: Any) -> None:
    rows = json.loads((folder / "data/runs.json").read_text())
    one = next(r for r in rows if r["batch"] == 1 and r["runtime"] == "onnxruntime")
    other = next(r for r in rows if r["batch"] == 8 and r["runtime"] == "tensorrt")
    page.goto(f"{(folder / 'compare.html').as_uri()}#a={one['id']}&b={other['id']}")
    page.wait_for_selector("#refusal")
    told = page.locator("#refusal").inner_text()
    assert "batch: 1 against 8" in told
    assert "the machine: Xeon, 8 cores against NVIDIA RTX A4000" in told
    assert page.locator("[data-ratio]").count() == 0
    page.locator("#pick-b").fill(f"{one['network']} onnxruntime batch 1 ")
    page.locator("#list-b button").nth(3).click()
    page.wait_for_selector("[data-ratio=median]")


@pytest.mark.browser
def test_failed_runs_odd_names_and_missing_runs_do_no_harm(tmp_path: Path, page: Any) -> None:
    store = Store(tmp_path / "store")
    nasty = '<img src=x onerror="document.title=1">.onnx'
    add_series(store, [1e-3, 2e-3], [record(1, model=nasty), record(2, model="größe 模型.onnx")])
    lost = failed(3, model="big.onnx", created=START)
    add(store, [(lost, None)])
    write_site(store, tmp_path / "out", title='"><script>alert(1)</script>')
    page.goto((tmp_path / "out/index.html").as_uri())
    page.wait_for_selector("tbody tr")
    assert nasty in page.locator("tbody").inner_text()
    assert page.locator("tbody img").count() == 0
    page.get_by_role("searchbox").fill("模型")
    assert page.locator("tbody tr").count() == 1
    page.goto(f"{(tmp_path / 'out/run.html').as_uri()}#id={lost.id}")
    page.wait_for_selector("dl.facts")
    assert "ended by SIGKILL" in page.locator("#view").inner_text()
    page.goto(f"{(tmp_path / 'out/run.html').as_uri()}#id=nothing")
    page.reload()
    page.wait_for_selector("#view .bad")
    assert "no run nothing" in page.locator("#view").inner_text()
