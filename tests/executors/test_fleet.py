"""A sweep over other machines: they quantize, build, measure and judge; results come back."""

from pathlib import Path

import numpy as np
import pytest
from machines import hosts_file

import models
import trtbench
from trtbench.core.errors import UsageError
from trtbench.executors.ssh import ARCHIVE_BYTES, _groups
from trtbench.store.store import Store

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
        store=tmp_path / "store", executor="ssh", hosts=hosts,
    )  # fmt: skip
    assert [row.reason for row in found.rows] == [None] * 4
    assert len(Store(tmp_path / "store").index.find(kind="run")) == 4
    assert not (tmp_path / "store" / "steps").exists()  # nothing was made here
    for name in ("a", "b"):
        kept = tmp_path / name / "kept"
        assert len(steps_of(kept, "quantize")) == 1
        assert len(steps_of(kept, "eval")) == 2
        assert len(list((kept / "blobs").iterdir())) == 2  # the model and the data, once
        assert list((kept / "work").iterdir()) == []
    again = trtbench.sweep(output=tmp_path / "sweep", store=tmp_path / "store", executor="ssh",
                           hosts=hosts)  # fmt: skip
    assert [row.remark for row in again.rows] == [row.remark for row in found.rows]
    assert "random data" not in str(found.rows[2].remark)
    for run in found.runs:
        assert run.extra["scores"]


def test_machines_are_no_axis_where_there_is_but_this_one(tmp_path):
    model, _ = model_and_data(tmp_path)
    with pytest.raises(UsageError, match="axis of machines"):
        trtbench.sweep(
            model, axis={"machine": ["a", "b"]}, output=tmp_path / "sweep", store=tmp_path / "store"
        )


def test_small_files_go_together_and_large_ones_alone(tmp_path):
    quarter = ARCHIVE_BYTES // 4
    sizes = {"a": 10, "b": ARCHIVE_BYTES + 1, "c": quarter, "d": 20}
    sizes |= {f"e{number}": quarter for number in range(4)}
    for name, size in sizes.items():
        with open(tmp_path / name, "wb") as file:
            file.truncate(size)
    groups = list(_groups({name: tmp_path / name for name in sizes}))
    assert ["b"] in groups
    assert sorted(name for group in groups for name in group) == sorted(sizes)
    for group in groups:
        assert len(group) == 1 or sum(sizes[name] for name in group) <= ARCHIVE_BYTES
    assert len(groups) == 4
