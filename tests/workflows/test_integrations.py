"""Gates as CI uses them, and the jobs for GitHub and GitLab, run as a runner would run them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from models import slow_model, tiny_model
from trtbench.analysis.comparability import differences
from trtbench.compare.gate import MEASURED_APART, gate
from trtbench.core.errors import TrtbenchError
from trtbench.measure.bench import run_bench
from trtbench.measure.model_facts import keep_model, kept_model
from trtbench.models.identity import model_ref
from trtbench.requests.execution import Execution
from trtbench.requests.measure import BenchRequest, GateRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.workflows.runs import baseline_run

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "integrations/github/gate/action.yml"
WORKFLOW = ROOT / "integrations/github/workflow.yml"
GITLAB = ROOT / "integrations/gitlab/gate.gitlab-ci.yml"
QUICK = "--batch 1 --duration 50ms"


def step(name: str) -> dict[str, Any]:
    steps = yaml.safe_load(ACTION.read_text())["runs"]["steps"]
    return next(each for each in steps if each["name"] == name)


@pytest.fixture
def job(tmp_path: Path) -> Any:
    """Run a script in the folder of a job, with this trtbench on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {
        "trtbench": f'exec "{sys.executable}" -m trtbench "$@"',
        "gh": 'printf "%s\\n" "$@" > gh.txt; cat "${@: -1}" >> gh.txt',
        "curl": 'printf "%s\\n" "$@" > curl.txt',
    }.items():
        (programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (programs / name).chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()

    def run(script: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=work,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **env},
            capture_output=True,
            text=True,
        )

    run.work = work  # type: ignore[attr-defined]
    return run


def gated(job: Any, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the step of the action as the runner would, its expressions filled in."""
    found = step("gate")
    assert found["env"]["GATE"].endswith("/../../gate.sh")
    gate = ACTION.parent / "../../gate.sh"
    assert gate.resolve() == ROOT / "integrations/gate.sh"
    asked = {"CANDIDATE": "model.onnx", "ARGS": QUICK, "MACHINE": "ci", "GATE": str(gate)}
    return job(found["run"], **{**asked, **env})


def test_the_first_job_makes_the_baseline_and_the_next_is_held_against_it(job: Any) -> None:
    model = job.work / "model.onnx"
    slow_model(model, width=64, rows=1, passes=4)
    first = gated(job)
    assert first.returncode == 0, first.stderr
    assert "no baseline yet" in (job.work / "gate/gate.md").read_text()
    same = gated(job, RULES="--max-slowdown 50% --on-unclear pass")
    assert same.returncode == 0, same.stderr
    assert "PASS (" in (job.work / "gate/gate.md").read_text()
    slow_model(model, width=64, rows=1, passes=64)
    slower = gated(job, RULES="--max-slowdown 50%")
    assert slower.returncode == 3, slower.stdout + slower.stderr
    page = (job.work / "gate/gate.md").read_text()
    assert "50%: too slow" in page
    assert "baseline" in page
    assert (job.work / "gate/gate.junit.xml").is_file()
    assert (job.work / "gate/report").is_dir()
    told = job(step("comment")["run"], PULL_REQUEST="7")
    assert told.returncode == 0, told.stderr
    assert "50%: too slow" in (job.work / "gh.txt").read_text()


def test_an_open_gate_on_the_main_branch_moves_the_baseline(job: Any) -> None:
    slow, fast, rules = {"passes": 64}, {"passes": 4}, {"RULES": "--max-slowdown 50%"}
    for change, asked, status in (
        (slow, {}, 0),
        (fast, {"UPDATE_BASELINE": "true", **rules}, 0),
        (slow, rules, 3),
        (fast, {"UPDATE_BASELINE": "true"}, 0),  # the same bytes make no other run the baseline
        (slow, rules, 3),  # what was refused once is no baseline
    ):
        slow_model(job.work / "model.onnx", width=64, rows=1, **change)
        done = gated(job, **asked)
        assert done.returncode == status, done.stdout + done.stderr


def test_the_job_of_gitlab_runs_the_same_script(job: Any) -> None:
    document = yaml.safe_load(GITLAB.read_text())["trtbench-gate"]
    install, branch, gate = document["script"]
    assert "pip install" in install
    tiny_model(job.work / "model.onnx")
    shutil.copytree(ROOT / "integrations", job.work / "integrations")
    variables = {key: str(value) for key, value in document["variables"].items()}
    done = job(f"{branch}\n{gate}", **{**variables, "ARGS": QUICK})
    assert done.returncode == 0, done.stderr
    note = {"GATE_TOKEN": "t", "CI_MERGE_REQUEST_IID": "3", "CI_API_V4_URL": "https://x.invalid/v4"}
    (told,) = document["after_script"]
    assert job(told, CI_PROJECT_ID="9", **note).returncode == 0
    assert "merge_requests/3/notes" in (job.work / "curl.txt").read_text()
    assert document["artifacts"]["reports"]["junit"] == "gate/gate.junit.xml"


def test_the_workflow_uses_the_action_with_inputs_it_has() -> None:
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["gate"]["steps"]
    used = next(each for each in steps if each["uses"].startswith("./integrations"))
    assert (ROOT / used["uses"] / "action.yml").resolve() == ACTION
    assert set(used["with"]) <= set(yaml.safe_load(ACTION.read_text())["inputs"])


FLAGS = {"warmup": 0.02, "duration": 0.05}


def measured(model: Path, store: Store, **how: str) -> str:
    spec = run_spec(BenchRequest(model=model, batch=1, **FLAGS), Config(store=str(store.root)))
    return run_bench(spec, store=store, execution=Execution(**how)).id


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "net.onnx")


def test_a_label_makes_one_machine_of_many_runners(
    model: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = measured(model, store, machine="ci-t4")
    record = store.load(first).record
    other = record.having(environment=record.environment.having(host="runner-7f3a", cpu="x"))
    assert record.environment.label == "ci-t4"
    assert not [d for d in differences(record, other) if d.key == "host"]
    unlabelled = other.having(environment=other.environment.having(machine=None))
    assert [d.blocking for d in differences(record, unlabelled) if d.key == "host"] == [True]
    monkeypatch.setattr("platform.node", lambda: "runner-0000")
    asked = GateRequest(candidate=model, baseline="last", max_slowdown="3%", batch=1)
    labelled = Config(store=str(store.root), machine="ci-t4")
    assert baseline_run(asked, store=store, config=labelled) == first
    with pytest.raises(TrtbenchError):
        baseline_run(asked, store=store, config=Config(store=str(store.root), machine="ci-a10"))


def test_a_kept_model_is_measured_in_turn_after_its_file_changed(
    model: Path, store: Store, config: Config
) -> None:
    baseline = measured(model, store)
    before = model_ref(model)
    gone = GateRequest(
        candidate=model, against=baseline, max_slowdown="900%", batch=1, launches=2, max_launches=2,
        pairs=10, lock_clocks="max",
    )  # fmt: skip
    keep_model(store, before)
    tiny_model(model, batch="rows")
    assert model_ref(model).sha256 != before.sha256
    kept = kept_model(store, store.load(baseline).record.spec)
    assert Path(kept.path).is_relative_to(store.root)
    found = gate(gone, store=store, config=config)
    assert found.compared.comparison.design == "duet"
    sides = (found.compared.baseline.record, found.compared.candidate.record)
    assert {side.spec.lock_clocks for side in sides} == {"max"}, "one clock for both, as asked now"
    Path(kept.path).write_bytes(b"other bytes")
    assert kept_model(store, store.load(baseline).record.spec) is None
    said: list[str] = []
    apart = gate(
        gone, store=store, config=config, execution=Execution(listen=lambda e: said.append(e.text))
    )
    assert apart.compared.comparison.design == "apart"
    assert MEASURED_APART in said
