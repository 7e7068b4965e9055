"""A gate as CI uses it: labels for machines, kept models, files of several models."""

from pathlib import Path

import pytest

from models import tiny_model
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

QUICK = {"warmup": 0.02, "duration": 0.05}


def measured(model: Path, store: Store, **how: str) -> str:
    spec = run_spec(BenchRequest(model=model, batch=1, **QUICK), Config(store=str(store.root)))
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
    kept = kept_model(store, before)
    assert Path(kept.path).is_relative_to(store.root)
    found = gate(gone, store=store, config=config)
    assert found.compared.comparison.design == "duet"
    sides = (found.compared.baseline.record, found.compared.candidate.record)
    assert {side.spec.lock_clocks for side in sides} == {"max"}, "one clock for both, as asked now"
    Path(kept.path).write_bytes(b"other bytes")
    assert kept_model(store, before) is None
    said: list[str] = []
    apart = gate(
        gone, store=store, config=config, execution=Execution(listen=lambda e: said.append(e.text))
    )
    assert apart.compared.comparison.design == "apart"
    assert MEASURED_APART in said
