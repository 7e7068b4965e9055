"""The Python API judges, refuses and resumes as the command line does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import trtbench
from models import tiny_model
from trtbench.core.errors import BrokenRuleError, UsageError
from trtbench.data import demo_file

QUICK: dict[str, Any] = {"warmup": "5ms", "iterations": 20, "until_steady": False, "launches": 2}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_a_check_judges_its_rules_and_refuses_nonsense(place: Path) -> None:
    sides = demo_file("digits.onnx"), demo_file("digits.int8.onnx")
    with pytest.raises(UsageError):
        trtbench.check(*sides, random=4, floor="off", expect=["no rule at all"])
    assert not (place / "artifacts").exists(), "refused before anything is run"
    with pytest.raises(BrokenRuleError, match="expectation failed"):
        trtbench.check(*sides, random=4, floor="off", expect=["max_abs<=1e-7"])
    assert (place / "artifacts" / "check" / "check.json").is_file(), "what was found is kept"
    checked = trtbench.check(*sides, random=4, floor="off", expect=["max_abs<=1000"])
    assert checked.candidates


def test_a_gate_has_one_baseline(place: Path) -> None:
    model, other = tiny_model(place / "a.onnx"), tiny_model(place / "b.onnx", batch=3)
    trtbench.bench(model, **QUICK)
    with pytest.raises(UsageError, match="both name the baseline"):
        trtbench.gate(model, against=other, baseline="best", max_slowdown="3%", **QUICK)


def test_a_resumed_sweep_repeats_nothing_and_uses_its_own_store(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(place / "net.onnx")
    trtbench.sweep(model, batch=[1, 2], duration="10ms", output="swept", store="first")
    journal = place / "swept" / "journal.jsonl"
    before = [json.loads(line) for line in journal.read_text().splitlines()]
    kept = {run.id for run in trtbench.runs(store="first")}
    assert len(kept) == 2
    monkeypatch.setenv("TRTBENCH_STORE", str(place / "second"))
    results = trtbench.sweep(resume="swept")
    after = [json.loads(line) for line in journal.read_text().splitlines()]
    measured = [each for each in after[len(before) :] if each.get("run")]
    assert not measured, "finished cases are measured again"
    assert {run.id for run in trtbench.runs(store="first")} == kept
    assert not trtbench.runs(store="second")
    assert len(results.rows) == 2


def test_a_gate_takes_a_file_of_rules(place: Path) -> None:
    tiny_model(place / "a.onnx")
    tiny_model(place / "b.onnx", batch=3)
    gates = place / "gates.toml"
    gates.write_text('[models."a.onnx"]\nmedian = "<10s"\n[models."b.onnx"]\nmedian = "<1ns"\n')
    found = trtbench.gate(gates, **QUICK)
    judged = found if isinstance(found, list | tuple) else [found]
    assert [each.open for each in judged] == [True, False]


def test_verbs_about_models_and_stored_runs(place: Path) -> None:
    model, store = tiny_model(place / "net.onnx"), place / "store"
    assert trtbench.inspect(model, batch=2).kind == "onnx"
    made = trtbench.quantize(model, precision="fp16", output=place / "half.onnx", keep_io=True)
    assert made.precision == "fp16"
    quick = {"batch": 1, "threads": 1, "duration": 0.02, "warmup": 0.01, "store": store}
    runs = [trtbench.bench(model, tags=["nightly"], **quick) for _ in range(2)]
    assert [entry.id for entry in trtbench.runs(tag="nightly", store=store)] == [
        run.id for run in reversed(runs)
    ]
    paths = trtbench.report("last", output=place / "report", format=["md"], store=store)
    assert paths[0].name == "report.md"
    assert not any(path.suffix == ".html" for path in paths)
    (series,) = trtbench.history(store=store).series
    assert len(series.points) == 2
    assert trtbench.site(output=place / "site", store=store).runs == 2
    held = trtbench.gate(runs[0].id, metrics=["median<10s"], store=store)
    assert held.open
    chosen = trtbench.gate(
        runs[1].id, baseline="last", max_slowdown="90%", on_unclear="pass", store=store
    )
    assert chosen.compared is not None
    assert chosen.compared.baseline.id == runs[0].id
    with pytest.raises(trtbench.TrtbenchError, match="no layer times"):
        trtbench.profile(runs[0].id, store=store)
