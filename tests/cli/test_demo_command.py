"""README's first command, run as a newcomer runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from PIL import Image

from command import Said, Say
from trtbench.analysis.summary import summary_from_run
from trtbench.compare import compare
from trtbench.core.run import Run
from trtbench.core.spec import Length, Warmup
from trtbench.measure import bench
from trtbench.report.document import Document
from trtbench.store.store import Store
from trtbench.verbs import demo

REAL = (pytest.mark.slow, pytest.mark.real("minutes"), pytest.mark.timeout(900))


@pytest.mark.process
@pytest.mark.parametrize("batches", [(2,), pytest.param((1, 16), marks=REAL)])
def test_the_demo_measures_judges_and_leaves_a_report_in_every_form(
    tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch, batches: tuple[int, ...]
) -> None:
    launches = 3 if batches == demo.BATCHES else 1
    if launches == 3:
        names = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
        done = subprocess.run(
            [sys.executable, "-m", "trtbench", "demo", "-o", "demo-report"], cwd=tmp_path,
            env={**os.environ, **dict.fromkeys(names, str(tmp_path / "home")), "COLUMNS": "80"},
            capture_output=True, text=True,
        )  # fmt: skip
        said = Said(done.returncode, done.stdout, done.stderr)
    else:  # the same with short runs
        run_bench, run_compare, stop = bench.run_bench, compare.compare, Length(iterations=20)
        brief = {
            "stop": stop,
            "warmup": Warmup(floor=stop, until_steady=False),
            "launches": launches,
        }
        few = {"launches": 2, "max_launches": 2, "pairs": 10}
        monkeypatch.setattr(bench, "run_bench", lambda s, **kw: run_bench(s.having(**brief), **kw))
        monkeypatch.setattr(compare, "compare", lambda r, **k: run_compare(r.having(**few), **k))
        monkeypatch.setattr(demo, "BATCHES", batches)
        said = say("demo", "-o", "demo-report")
    assert said.status == 0, said.err
    for batch in batches:
        assert f"INT8 against FP32, batch {batch}" in said.out
    folder = tmp_path / "demo-report"
    assert "https://" not in (folder / "report.html").read_text("utf-8").partition("<script")[0]
    assert "digits.int8" in (folder / "report.md").read_text("utf-8")
    written = json.loads((folder / "report.json").read_bytes())
    document = msgspec.convert(written["document"], Document)
    tables = {each.id: each for each in document.tables()}
    assert {"summary", "percentiles"} <= set(tables)
    for each in tables.values():
        for place, heading in enumerate(each.headings):
            shown = [row[place].shown for row in each.rows if heading.key.endswith("_s")]
            units = {text.split()[-1] for text in shown if text.endswith(("s", "/s"))} - {"samples"}
            assert len(units) < 2, f"{heading.title} of {each.id}: {units}"
    spelled = said.out + (folder / "report.md").read_text("utf-8")
    assert "Top-1" in spelled
    assert "top1" not in spelled
    pictures = [Image.open(path) for path in folder.rglob("*.png") if "store" not in path.parts]
    assert pictures
    assert all(min(picture.size) > 100 for picture in pictures)
    store = Store(folder / "store")
    runs = [store.load(entry.id) for entry in store.index.find(kind="run")]
    alone = [run for run in runs if isinstance(run, Run) and run.record.duet is None]
    asked = {(Path(run.record.spec.model.path).stem, run.record.spec.batch) for run in alone}
    assert asked == {(name, batch) for name in ("digits", "digits.int8") for batch in batches}
    for run in alone:
        assert run.path is not None
        assert len(run.record.launches) == launches
        block = json.loads((run.path / "summary.json").read_bytes())["latency"]
        given, lacking = block["percentiles_ms"], set(block["too_few_samples"])
        quantiles = summary_from_run(run).columns[0].quantiles
        every = {each.name.replace(".", "_"): each.value for each in quantiles}
        known = {name: value for name, value in every.items() if value is not None}
        assert lacking & every.keys() == every.keys() - known.keys()
        assert {name: value * 1e3 for name, value in known.items()} == pytest.approx(
            {name: given[name] for name in known}
        )
        scores = json.loads((run.path / "scores.json").read_bytes())
        assert {each["metric"]: each["value"] for each in scores["scores"]}["top1"] > 0.95
    sides = {run.record.duet.side for run in runs if isinstance(run, Run) and run.record.duet}
    assert sides == {0, 1}
