"""Records whose every text is hostile, and runs of a store that others write to."""

import contextlib
import csv
import gzip
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import records
from commands import typed
from made_runs import full_runs

import models
from trtbench.cli import show_error
from trtbench.core.codec import json_from_value, record_from_json
from trtbench.core.errors import InputError, JobError
from trtbench.core.run import Run
from trtbench.formats.toolkit import layers_from_csv
from trtbench.host import telemetry
from trtbench.report.document import Picture
from trtbench.report.renderers.html import data_url
from trtbench.requests.execution import Event
from trtbench.store.directory import TELEMETRY, write_json, write_samples
from trtbench.store.store import Store, results_folders, stored_scores
from trtbench.trtexec import log
from trtbench.trtexec.log import read_log
from trtbench.verbs._screen import ProgressDisplay
from trtbench.workflows.report import with_known_files

EVIL = (
    "<img src=x onerror=alert(1)></script><script>alert(2)</script>\x1b[31m\u202e\r\n"
    "=cmd|' /C calc'!A0 \\input{/etc/passwd}$\\write18{id}$ [a](javascript:alert(3)) [red]x[/] `"
    '(@octocat, o/r#12 GH-3 <!-- a;=1;"=2; =3\t=4\r=5'
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


def made_store(world: Path, encode: Callable[[Any], bytes], *, most: int | None = None) -> Store:
    (world / "made").mkdir()
    made = Store(world / "store")
    for run in full_runs(world / "made")[:most]:
        folder = made.runs / run.record.id
        folder.mkdir()
        write_samples(folder, run.times)
        write_json(folder / TELEMETRY, run.telemetry)
        (folder / "run.json").write_bytes(encode(run.record))
    shutil.rmtree(world / "made")
    return Store(world / "store")


@pytest.fixture
def poisoned_store(world: Path) -> Store:
    return made_store(world, poisoned)


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


def test_documents_show_hostile_texts_and_obey_none(poisoned_store: Store) -> None:
    ids = sorted(each.name for each in poisoned_store.runs.glob("[!.]*"))
    verbs = (
        ("runs",),
        ("runs", "show", ids[0]),
        ("runs", "--json"),
        ("runs", "reindex"),
        ("history",),
        ("compare", *ids[:2]),
        ("report", *ids, "-o", "report", "--format", "html,md,json,csv,tex"),
        ("site", "-o", "site", "--title", "<img src=x onerror=alert(1)>"),
    )
    for words in verbs:
        done = typed(*words, "--store", poisoned_store.root)
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
        elif path.suffix == ".tex":
            assert "\\input{/etc" not in text, path
            assert "\\write18" not in text, path
        elif path.suffix == ".csv":
            for mark in ",;\t":  # wherever a spreadsheet splits; a return ends a line for many
                rows = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
                found = [cell for row in rows for cell in row if re.match(r"[\s\"]*[=@]", cell)]
                assert not found, (path, mark)
            assert "\r" not in text, path
        elif path.suffix == ".md":
            prose = "".join(text.split("```")[::2])
            assert "<img" not in prose, path
            assert not re.search(r"@\w|#\d|\bGH-\d|<!--", prose), path
            assert "<script" not in prose, path
            assert "\n[a](javascript" not in prose.replace("\\[", ""), path
    assert seen >= {".html", ".md", ".json", ".tex", ".csv"}


@pytest.mark.parametrize("text", ["a\0b", "x" * 20_000, "/\0", "y/" * 10_000])
def test_nul_and_endless_texts_in_a_record_or_an_entry_hide_no_run(world: Path, text: str) -> None:
    """Each text of a record, then each column of the index, is one that no file can have."""
    folder = records.add(Store(world / "store"), records.record("r1"))
    records.add(Store(world / "store"), records.record("r2"))
    good, index = (folder / "run.json").read_text(), world / "store" / "index.sqlite"
    for *way, last in leaves(json.loads(good)):
        holder = raw = json.loads(good)
        for key in way:
            holder = holder[key]
        holder[last] = text
        (folder / "run.json").write_text(json.dumps(raw))
        index.unlink(missing_ok=True)
        check_that_others_are_read((*way, last))
    (folder / "run.json").write_text(good)
    kept = index.read_bytes()
    for name in ("model", "host", "path", "tag", "created", "sha256", "id"):
        index.write_bytes(kept)
        with sqlite3.connect(index) as database:
            table, key = ("tags", "run") if name == "tag" else ("runs", "id")
            database.execute(f"UPDATE {table} SET {name} = ? WHERE {key} = 'r1'", (text,))
        check_that_others_are_read(name)


def check_that_others_are_read(where: object) -> None:
    for words in ("", "show r1", "show r2"):
        done = typed("runs", *words.split())
        assert "Traceback" not in done.stderr, where
        assert done.returncode in ((0, 1, 2) if words == "show r1" else (0,)), (where, done.stderr)
        assert words or "r2" in done.stdout, where
        assert len(done.stdout + done.stderr) < 200_000
        assert "\0" not in done.stdout + done.stderr


def test_a_run_shows_hostile_texts_in_python_and_notebooks(poisoned_store: Store) -> None:
    shown = []
    for folder in (each for each in poisoned_store.runs.iterdir() if (each / "run.json").is_file()):
        run: Any = poisoned_store.load(folder.name)
        shown += [repr(run), str(run), run._repr_html_()]
        page = Page()
        page.feed(shown[-1])
        assert page.carried_out == []
    assert any("alert(1)" in each for each in shown)
    assert not [text for text in shown for each in STEERING if each in text]


SECRET = "hunter2-of-whoever-makes-the-report"


@pytest.fixture
def store(world: Path) -> Store:
    return made_store(world, json_from_value, most=1)


def run_of(store: Store) -> Path:
    return next(each for each in store.runs.iterdir() if (each / "run.json").is_file())


@pytest.mark.parametrize("how", ["file", "folder", "pipe"])
def test_pictures_beside_a_run_bring_in_nothing_else(store, tmp_path, how):
    mine, pictures = tmp_path / "mine", run_of(store) / "pictures"
    mine.mkdir()
    (mine / "worst.png").write_text(SECRET)
    if how == "folder":
        pictures.symlink_to(mine)
    else:
        pictures.mkdir()
    if how == "file":
        (pictures / "worst.png").symlink_to(mine / "worst.png")
    elif how == "pipe":
        os.mkfifo(pictures / "worst.png")
    run = store.load(run_of(store).name)
    assert isinstance(run, Run)
    assert "pictures" not in with_known_files(run, store=store).extra
    (pictures / "own.png").write_bytes(b"")
    shown = with_known_files(run, store=store).extra.get("pictures")
    assert shown == (None if how == "folder" else ["pictures/own.png"])


def test_a_picture_in_disguise_starts_no_program_and_fills_no_memory(tmp_path, monkeypatch):
    from PIL import Image

    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    box = "%%BoundingBox: 0 0 9000 9000\n%%EndComments\n"
    disguised, bomb = tmp_path / "a.png", tmp_path / "b.png"
    disguised.write_text(f"%!PS-Adobe-3.0 EPSF-3.0\n{box}showpage\n%%EOF\n")
    Image.new("1", (15_000, 15_000)).save(bomb, compress_level=1)
    for path in (disguised, bomb):
        assert data_url(Picture(id="x", title="x", path=str(path))) is None
    assert not (tmp_path / "ran").exists()


def test_a_hash_in_a_record_leads_nowhere(store: Store, tmp_path: Path) -> None:
    name = run_of(store).name
    path = store.runs / name / "run.json"
    told = json.loads(path.read_bytes())
    told["spec"]["model"]["sha256"] = "../../mine"
    path.write_text(json.dumps(told))
    (tmp_path / "mine").mkdir()
    run = Store(store.root).load(name)
    assert run.record.spec.model.sha256 == "../../mine"
    assert results_folders(run, store) == [run.path]
    assert stored_scores(run, store) is None


def test_what_a_killed_writer_left_in_a_run_is_removed_with_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    folder = records.add(store, records.record("r1"))
    for name in (".run.json.0a1b2c", ".scores.json.ffffff", ".checks.json.012345"):
        (folder / name).write_text("{")
    assert store.remove("r1")[1] == ()
    assert not folder.exists()


def test_the_end_of_a_log_shows_no_secret_and_steers_nothing(capsys):
    error = JobError("it broke")
    error.log_tail = (f"login --password {SECRET}", "\x1b[31mred")
    show_error(error)
    for kind in ("note", "stage"):
        ProgressDisplay("sweep")(Event(kind=kind, text=f"failed: a: \x1b[2J token={SECRET}"))
    said = capsys.readouterr().err
    assert SECRET not in said
    assert "\x1b" not in said


def test_tables_of_toolkits_that_are_a_trap_tell_nothing() -> None:
    wide = "metric,min\nhost," + "1" * (csv.field_size_limit() + 1) + "\n"
    assert layers_from_csv(wide) is None


def test_a_small_file_that_unpacks_to_lists_of_nothing_ends() -> None:
    heading = "=== Performance summary ==="
    lists = f'["{heading}",' + "[]," * log.MOST_BRACKETS + "1]"
    forward = heading + "\x1b[9999C" * 200_000
    for text in (lists, forward):
        packed = gzip.compress(text.encode(), 1)
        found = read_log(io.BytesIO(packed), where="x.gz")  # the square would take hours
        assert not [run for run in found.runs if run.summary]
    assert log._text_in_json(lists) is None


@pytest.mark.parametrize(
    ("runtime", "options"),
    [("trtexec", {"binary": "{evil}"}), ("torch", {"trust": "on", "factory": "evil:make"})],
)
def test_a_baseline_brings_no_program(world: Path, runtime: str, options: dict[str, str]) -> None:
    """A gate measures the baseline of a shared store as whoever runs the gate."""
    evil = world / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {world}/owned\n")
    evil.chmod(0o755)
    (world / "evil.py").write_text(f"open({str(world / 'owned')!r}, 'w')\n")
    model = str(models.tiny_model(world / "m.onnx", batch=1))
    quick = ("--duration", "10ms", "--warmup", "1ms", "--no-until-steady")
    assert typed("bench", model, *quick, "--keep-model", "--tag", "release").returncode == 0
    file = next((world / "store" / "runs").glob("*/run.json"))
    raw = json.loads(file.read_text())
    raw["spec"]["runtime"] = runtime
    raw["spec"]["options"] = {key: text.format(evil=evil) for key, text in options.items()}
    raw["spec"]["extra_args"] = [f"--plugins={evil}"]
    file.write_text(json.dumps(raw))
    found = typed("gate", model, "--against", "tag:release", "--max-slowdown", "900%")
    assert found.returncode != 0
    assert not (world / "owned").exists()
    said = " ".join((found.stdout + found.stderr).split())
    for name in (*(f"option {key}" for key in options), "extra args"):
        assert name in said


def test_helpers_import_nothing_from_the_working_folder(world, monkeypatch):
    begun: list[list[str]] = []
    monkeypatch.setattr(telemetry.nvml, "opened", lambda index: contextlib.nullcontext(object()))
    monkeypatch.setattr(telemetry, "run_on_death", begun.append)
    with pytest.raises((AttributeError, TypeError)), telemetry.locked_clocks(10**6, "base"):
        pass  # there is no GPU; how its clock would be freed is known by then
    for name in ("numpy", "importlib", "msgspec", "runpy", "json", "trtbench"):
        (world / f"{name}.py").write_text(f"open('owned-{name}', 'w')\n")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    assert subprocess.run(begun[0], check=False).returncode == 0
    assert not list(world.glob("owned*"))
