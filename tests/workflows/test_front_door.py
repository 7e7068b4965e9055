"""The Python API judges, refuses and resumes as the command line does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trtbench
from models import tiny_model
from trtbench.core.errors import BrokenRuleError, UsageError
from trtbench.data import demo_file


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
