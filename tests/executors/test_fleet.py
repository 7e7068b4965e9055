"""A sweep over other machines: they quantize, build, measure and judge; results come back."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from machines import hosts_file

import models
import trtbench
from trtbench import verbs
from trtbench.errors import UsageError
from trtbench.models.identity import sha256_of
from trtbench.store.store import Store
from trtbench.workflows.request.making import BuildRequest
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("machines")]


def model_and_data(folder: Path) -> tuple[Path, Path]:
    rows = np.random.default_rng(0).normal(size=(12, 16)).astype(np.float32)
    np.savez(folder / "val.npz", data=rows, labels=np.zeros(12, dtype=np.int64))
    return models.tiny_model(folder / "tiny.onnx"), folder / "val.npz"


def steps_of(folder: Path, kind: str) -> list[Path]:
    """What a machine made for sweeps."""
    return list(folder.glob(f"store/steps/{kind}-*/made.json"))


def test_a_case_is_quantized_measured_and_judged_where_it_is_sent(tmp_path, sshd, clocked):
    model, data = model_and_data(tmp_path)
    hosts = hosts_file(tmp_path, sshd, clocked, "a", "b")
    found = trtbench.sweep(
        model, precision=["fp32", "int8"], batch=[1], runtime="onnxruntime", data=data,
        axis={"machine": ["a", "b"], "duration": ["50ms"]}, output=tmp_path / "sweep",
        store=tmp_path / "store", executor="ssh", hosts=hosts, check=20, fetch_engines=True,
    )  # fmt: skip
    assert [row.reason for row in found.rows] == [None] * 4
    assert len(Store(tmp_path / "store").index.find(kind="run")) == 4
    assert not (tmp_path / "store" / "steps").exists()  # nothing was made here
    for name in ("a", "b"):
        kept = tmp_path / name / "kept"
        assert len(steps_of(kept, "quantize")) == 1
        assert len(steps_of(kept, "eval")) == 2
        assert len(steps_of(kept, "check")) == 2
        assert len(list((kept / "blobs").iterdir())) == 2  # the model and the data, once
        assert list((kept / "work").iterdir()) == []
    again = trtbench.sweep(output=tmp_path / "sweep", store=tmp_path / "store", executor="ssh",
                           hosts=hosts)  # fmt: skip
    assert [row.remark for row in again.rows] == [row.remark for row in found.rows]
    assert "random data" in str(found.rows[2].remark)
    assert [row.max_abs == 0 for row in found.rows] == [True, True, False, False]
    came = {sha256_of(path) for path in (tmp_path / "sweep" / "engines").rglob("*.onnx")}
    assert came == {run.record.spec.model.sha256 for run in found.runs} - {sha256_of(model)}
    for run in found.runs:
        assert run.extra["scores"]
        steps = json.loads((run.path / "steps.json").read_text())
        if run.record.spec.model.path == str(model):
            assert steps == []
        else:
            assert [each["kind"] for each in steps] == ["quantize"]
            assert steps[0]["sha256"] == run.record.spec.model.sha256


def test_a_machine_that_is_not_there_is_a_row_with_its_reason(tmp_path, sshd, clocked):
    model, _ = model_and_data(tmp_path)
    found = trtbench.sweep(
        model, batch=[1], runtime="onnxruntime", store=tmp_path / "store",
        axis={"machine": ["a", "moon"], "duration": ["50ms"]}, output=tmp_path / "sweep",
        executor="ssh", hosts=hosts_file(tmp_path, sshd, clocked, "a"),
    )  # fmt: skip
    reasons = [row.reason for row in found.rows]
    assert reasons[0] is None
    assert "no machine can ever do this: none is called moon" in reasons[1]
    assert "add it: a" in reasons[1]


def test_an_engine_is_built_again_elsewhere_when_its_node_is_lost(nodes, tmp_path, rtx):
    if rtx.python is not None:
        pytest.skip("TensorRT-RTX is in another interpreter")
    nodes.site = f"{nodes.site}:{rtx.env.get('PYTHONPATH', '')}"
    for name in ("a", "b", "c"):
        nodes.add(name)
    model, _ = model_and_data(tmp_path)

    def building() -> list[str]:
        return [name for name in nodes.alive if list((tmp_path / name / "tmp").rglob("job.json"))]

    killer = threading.Thread(target=lambda: nodes.kill(wait_for(building)[0]), daemon=True)
    killer.start()
    heard: list[str] = []
    request = BuildRequest(
        model=model, runtime="tensorrt-rtx", output=tmp_path / "e.engine",
        executor="ray", address=nodes.cluster.address,
    )  # fmt: skip
    made = verbs.build(request, listen=lambda event: heard.append(event.text))
    killer.join()
    assert len(nodes.alive) == 2
    assert any("was lost; once more elsewhere" in text for text in heard)
    assert sha256_of(tmp_path / "e.engine") == made.sha256


def test_a_sweep_over_three_nodes_one_of_which_is_lost_while_it_quantizes(nodes, tmp_path):
    for name in ("a", "b", "c"):
        nodes.add(name)
    model, data = model_and_data(tmp_path)

    def quantizing() -> list[str]:
        begun = [n for n in nodes.alive if list((tmp_path / n / "cache").glob("store/steps/q*"))]
        return [n for n in begun if not steps_of(tmp_path / n / "cache", "quantize")]

    killer = threading.Thread(target=lambda: nodes.kill(wait_for(quantizing)[0]), daemon=True)
    killer.start()
    found = trtbench.sweep(
        model, precision=["fp32", "int8"], batch=[1, 2], runtime="onnxruntime", data=data,
        axis={"duration": ["50ms"]}, output=tmp_path / "sweep", store=tmp_path / "store",
        executor="ray", address=nodes.cluster.address,
    )  # fmt: skip
    killer.join()
    assert len(nodes.alive) == 2
    assert [row.reason for row in found.rows] == [None] * 4
    assert sha256_of(model) in {run.record.spec.model.sha256 for run in found.runs}
    assert all(run.extra["scores"] for run in found.runs)
    assert len(Store(tmp_path / "store").index.find(kind="run")) == 4
    assert not (tmp_path / "store" / "steps").exists()


def test_machines_are_no_axis_where_there_is_but_this_one(tmp_path):
    model, _ = model_and_data(tmp_path)
    with pytest.raises(UsageError, match="axis of machines"):
        trtbench.sweep(
            model, axis={"machine": ["a", "b"]}, output=tmp_path / "sweep", store=tmp_path / "store"
        )
