"""README's first command, run as a newcomer runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from trtbench.core.run import Run
from trtbench.report.renderers.json import document_from_json
from trtbench.store.store import Store

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("demo")]
pytestmark += [
    pytest.mark.real("minutes"),
    pytest.mark.timeout(900),
]  # a minute, where nothing else runs


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder it ran in, what it printed, and what it said beside."""
    folder = tmp_path_factory.mktemp("newcomer")
    home = {name: str(folder / "home") for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    command = [sys.executable, "-m", "trtbench", "demo", "-o", "demo-report"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **home, "COLUMNS": "80"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "demo-report", done.stdout, done.stderr


def test_it_is_what_readme_begins_with() -> None:
    assert "make demo" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "trtbench demo -o demo-report" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_it_shows_four_runs_and_two_verdicts(shown: tuple[Path, str, str]) -> None:
    _, printed, said = shown
    lines = printed.splitlines()
    assert sum(line.lstrip().startswith("digits") for line in lines) >= 4
    for batch in (1, 16):
        assert f"INT8 against FP32, batch {batch}" in printed
    assert "report: demo-report" in said
    assert "Traceback" not in said


def test_it_leaves_a_report_in_every_form(shown: tuple[Path, str, str]) -> None:
    folder, _, _ = shown
    page = (folder / "report.html").read_text("utf-8")
    assert "https://" not in page.partition("<script")[0]
    assert "digits.int8" in (folder / "report.md").read_text("utf-8")
    document = document_from_json((folder / "report.json").read_bytes())
    assert document.title == "trtbench demo"
    assert "summary" in {section.id for section in document.sections}
    pictures = [Image.open(path) for path in folder.rglob("*.png") if "store" not in path.parts]
    assert pictures
    assert all(min(picture.size) > 100 for picture in pictures)


def test_its_runs_are_kept_and_judged(shown: tuple[Path, str, str]) -> None:
    folder, _, _ = shown
    store = Store(folder / "store")
    runs = [store.load(entry.id) for entry in store.index.find(kind="run")]
    alone = [run for run in runs if isinstance(run, Run) and run.record.duet is None]
    asked = {(Path(run.record.spec.model.path).stem, run.record.spec.batch) for run in alone}
    assert asked == {(name, batch) for name in ("digits", "digits.int8") for batch in (1, 16)}
    for run in alone:
        assert run.path is not None
        assert len(run.record.launches) == 3
        scores = json.loads((run.path / "scores.json").read_bytes())
        by_name = {each["metric"]: each["value"] for each in scores["scores"]}
        assert by_name["top1"] > 0.95
    pairs = [run for run in runs if isinstance(run, Run) and run.record.duet is not None]
    assert {run.record.duet.side for run in pairs if run.record.duet} == {0, 1}
