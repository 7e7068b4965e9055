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

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.real("minutes"),
    pytest.mark.timeout(900),  # a minute, where nothing else runs
]


def test_the_demo_measures_judges_and_leaves_a_report_in_every_form(tmp_path: Path) -> None:
    home = {name: str(tmp_path / "home") for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    done = subprocess.run(
        [sys.executable, "-m", "trtbench", "demo", "-o", "demo-report"], cwd=tmp_path,
        env={**os.environ, **home, "COLUMNS": "80"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for batch in (1, 16):
        assert f"INT8 against FP32, batch {batch}" in done.stdout
    folder = tmp_path / "demo-report"
    assert "https://" not in (folder / "report.html").read_text("utf-8").partition("<script")[0]
    assert "digits.int8" in (folder / "report.md").read_text("utf-8")
    document = document_from_json((folder / "report.json").read_bytes())
    assert "summary" in {section.id for section in document.sections}
    pictures = [Image.open(path) for path in folder.rglob("*.png") if "store" not in path.parts]
    assert pictures
    assert all(min(picture.size) > 100 for picture in pictures)
    store = Store(folder / "store")
    runs = [store.load(entry.id) for entry in store.index.find(kind="run")]
    alone = [run for run in runs if isinstance(run, Run) and run.record.duet is None]
    asked = {(Path(run.record.spec.model.path).stem, run.record.spec.batch) for run in alone}
    assert asked == {(name, batch) for name in ("digits", "digits.int8") for batch in (1, 16)}
    for run in alone:
        assert run.path is not None
        assert len(run.record.launches) == 3
        scores = json.loads((run.path / "scores.json").read_bytes())
        assert {each["metric"]: each["value"] for each in scores["scores"]}["top1"] > 0.95
    sides = {run.record.duet.side for run in runs if isinstance(run, Run) and run.record.duet}
    assert sides == {0, 1}
