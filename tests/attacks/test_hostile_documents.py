"""A record whose every text is hostile, through every verb and every kind of document."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from commands import typed
from made_runs import full_runs

from trtbench.core.codec import json_from_value, record_from_json
from trtbench.core.errors import InputError
from trtbench.store.directory import write_samples, write_telemetry
from trtbench.store.store import Store

EVIL = (
    "<img src=x onerror=alert(1)></script><script>alert(2)</script>\x1b[31m\u202e\r\n"
    "=cmd|' /C calc'!A0 \\input{/etc/passwd}$\\write18{id}$ [a](javascript:alert(3)) [red]x[/] `"
)
STEERING = ("\x1b", "\u202e", "\r")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, str):
        yield path


def poisoned(record: Any) -> bytes:
    """Put the attack in front of every text that may be any text."""
    raw = json.loads(json_from_value(record))
    for *way, last in leaves(raw):
        holder = raw
        for key in way:
            holder = holder[key]
        before, holder[last] = holder[last], EVIL + holder[last]
        try:
            record_from_json(json.dumps(raw), where="run.json")
        except InputError:
            holder[last] = before
    return json.dumps(raw).encode()


@pytest.fixture
def store(world: Path) -> Store:
    (world / "made").mkdir()
    made = Store(world / "store")
    for run in full_runs(world / "made"):
        folder = made.runs / run.record.id
        folder.mkdir()
        write_samples(folder, run.times)
        write_telemetry(folder, run.telemetry)
        (folder / "run.json").write_bytes(poisoned(run.record))
    shutil.rmtree(world / "made")
    return Store(world / "store")


class Page(HTMLParser):
    """Collects what a browser would carry out."""

    def __init__(self) -> None:
        super().__init__()
        self.carried_out: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        for name, value in attrs:
            if name.startswith("on") or (value or "").lower().startswith("javascript:"):
                self.carried_out.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        if self.inside == "script" and data.strip().startswith("alert("):
            self.carried_out.append(data)


def test_documents_show_hostile_texts_and_obey_none(store: Store) -> None:
    ids = sorted(each.name for each in store.runs.iterdir() if not each.name.startswith("."))
    verbs = (
        ("runs",),
        ("runs", "show", ids[0]),
        ("runs", "--json"),
        ("runs", "fsck"),
        ("history",),
        ("compare", *ids[:2]),
        ("report", *ids, "-o", "report", "--format", "html,md,json,csv,tex"),
        ("report", ids[0], "--brief", "-o", "brief"),
        ("site", "-o", "site", "--title", "<img src=x onerror=alert(1)>"),
    )
    for words in verbs:
        done = typed(*words, "--store", store.root)
        said = done.stdout + done.stderr
        assert done.returncode == 0, (words, said)
        assert not [each for each in STEERING if each in said], words
    seen = set()
    for path in Path.cwd().glob("[brs]*/**/*"):
        if {"assets", "store"} & set(path.parts) or path.suffix in ("", ".png"):
            continue
        text = path.read_bytes().decode()
        seen.add(path.suffix)
        assert not [each for each in STEERING[:2] if each in text], path
        if path.suffix == ".html":
            page = Page()
            page.feed(text)
            assert page.carried_out == [], path
        elif path.suffix == ".js":
            assert "</script" not in text, path
        elif path.suffix == ".tex":
            assert "\\input{/etc" not in text, path
            assert "\\write18" not in text, path
        elif path.suffix == ".csv":
            cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
            assert not [cell for cell in cells if cell.startswith(("=", "@"))], path
        elif path.suffix == ".md":
            prose = "".join(text.split("```")[::2])
            assert "<img" not in prose, path
            assert "<script" not in prose, path
            assert "\n[a](javascript" not in prose.replace("\\[", ""), path
    assert seen >= {".html", ".md", ".json", ".js", ".tex", ".csv"}


def test_a_run_shows_hostile_texts_in_python_and_notebooks(store: Store) -> None:
    shown = []
    for folder in (each for each in store.runs.iterdir() if (each / "run.json").is_file()):
        run: Any = store.load(folder.name)
        shown += [repr(run), str(run), run._repr_html_()]
        page = Page()
        page.feed(run._repr_html_())
        assert page.carried_out == []
    assert any("alert(1)" in each for each in shown)
    assert not [text for text in shown for each in STEERING if each in text]
