"""The folder of a sweep as somebody else left it: no path, no bomb, no second process."""

import errno
import fcntl
import json
from pathlib import Path
from unittest.mock import Mock

import pytest
import records

from trtbench.convert.steps import RESULT_FILE, Cache, Step, StepResult
from trtbench.core.codec import record_from_json
from trtbench.core.errors import InputError, TrtbenchError, UnavailableError, UsageError
from trtbench.core.safety import check_tag
from trtbench.host import files as unfinished
from trtbench.models.identity import sha256_of
from trtbench.requests.stored import ReportRequest
from trtbench.store.store import Store
from trtbench.sweep import records as sweep_records
from trtbench.sweep.matrix import matrix_from_table
from trtbench.verbs.site import SiteRequest

BIDI, ESCAPE = "abc\u202etxt.exe", "\x1b[2Jgone"


@pytest.mark.parametrize("run", ["../../precious", "/tmp", "..", "\x1b[2J", "a/b"])
def test_a_journal_that_names_a_path_for_a_run_is_measured_again(tmp_path: Path, run: str) -> None:
    line = {"what": "done", "case": "k", "round": 0, "at": "2026-01-01"}
    lines = [json.dumps({**line, "run": each}) + "\n" for each in (run, "r1")]
    (tmp_path / sweep_records.JOURNAL).write_text("".join(lines))
    journal = sweep_records.Journal(tmp_path)
    assert [each.run for each in journal.lines] == ["r1"]
    assert len(journal.notes) == 1
    assert "\x1b" not in journal.notes[0]


@pytest.mark.parametrize("name", ["../../secret.onnx", "{outside}", "link.onnx"])
def test_what_a_step_made_is_in_its_folder(tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret.onnx"
    secret.write_bytes(b"not of this store")
    store = Store(tmp_path / "store")
    step = Step(key="k" * 64, kind="build", title="t", source="s", network="n")
    folder = Cache(store).folder(step)
    folder.mkdir(parents=True)
    (folder / "link.onnx").symlink_to(secret)
    made = StepResult(
        kind="build", key=step.key, network="n", title="t", created="", seconds=1.0,
        file=name.format(outside=secret), sha256=sha256_of(secret),
    )  # fmt: skip
    Cache(store).keep(step, made)
    assert (folder / RESULT_FILE).is_file()
    assert Cache(store).find(step) is None


def test_a_small_file_does_not_make_a_trillion_cases() -> None:
    hundred = [*range(1, 101)]
    options = {f"opt.k{n}": hundred for n in range(5)}
    table = {"models": ["m.onnx"], "batch": hundred, "options": options}
    with pytest.raises(UsageError, match="too many combinations"):
        matrix_from_table(table, where="s.toml")


@pytest.mark.parametrize("title", [BIDI, ESCAPE, "two\nlines", "", " ", "x" * 201])
def test_a_title_that_steers_something_is_refused(title: str) -> None:
    with pytest.raises(TrtbenchError, match="title"):
        ReportRequest(names=("last",), title=title)
    with pytest.raises(TrtbenchError, match="title"):
        SiteRequest(title=title)
    with pytest.raises(TrtbenchError, match="title"):
        matrix_from_table({"models": ["m.onnx"], "title": title}, where="s.toml")


@pytest.mark.parametrize("tag", [BIDI, ESCAPE, "../up", "=cmd()", "<script>", "\u2066", ""])
def test_a_tag_in_a_record_is_made_one(tmp_path: Path, tag: str) -> None:
    store = Store(tmp_path / "store")
    folder = records.add(store, records.record("r1", tags=("fine",)))
    raw = json.loads((folder / "run.json").read_bytes())
    raw["tags"] = [tag, "release/1.0", "größe: 3"]
    (folder / "run.json").write_text(json.dumps(raw))
    record = record_from_json((folder / "run.json").read_bytes(), where="run.json")
    assert record.tags[1:] == ("release/1.0", "größe: 3")
    assert check_tag(record.tags[0])
    store.reindex(lambda run: None)
    assert all(check_tag(each) for each in store.index.find()[0].tags)


def test_a_sweep_whose_tag_steers_something_is_refused(tmp_path: Path) -> None:
    matrix = {"models": ["m.onnx"]}
    outline = {"name": "x", "tag": ESCAPE, "created": "", "store": "/s", "matrix": matrix}
    (tmp_path / "sweep.json").write_text(json.dumps(outline))
    with pytest.raises(InputError, match="tag"):
        sweep_records.read_outline(tmp_path)


def test_a_folder_without_locks_is_refused(tmp_path, monkeypatch) -> None:
    problem = OSError(errno.ENOLCK, "No locks available")
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=problem))
    with (
        pytest.raises(UnavailableError, match="needs file locks") as found,
        sweep_records.Journal(tmp_path).locked(),
    ):
        pass
    assert "another folder with -o" in (found.value.fix or "")


def test_a_process_of_another_container_is_never_taken_for_dead(tmp_path: Path) -> None:
    work = tmp_path / f".partial-{records.dead_process()}-other000.other000-abcdef"
    work.mkdir()
    assert unfinished.remove_abandoned(tmp_path) == 0
    assert work.is_dir()
