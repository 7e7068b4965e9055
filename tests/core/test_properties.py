"""The register of what makes a run another run: declared once, and everything follows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import models
from trtbench.analysis.comparability import differences, refuse_unknown_keys
from trtbench.analysis.history import key_from_record
from trtbench.core import properties
from trtbench.core.properties import PROPERTIES, Property, declare, series_key
from trtbench.core.run import Environment, Fact, Run, RunRecord
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import ModelRef, RunSpec, TensorSpec
from trtbench.report.labels import labels_from_runs
from trtbench.report.sections.summary import title_of


def trtbench(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "trtbench", *words, "--store", "store"],
        cwd=folder, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_runs_of_two_sizes_are_labelled_so_and_no_curve_runs_through_both(tmp_path: Path) -> None:
    models.identity(tmp_path / "m.onnx", ("x", TensorProto.FLOAT, ["n", 3, "h", "w"]))
    runs = []
    for size in (32, 96):
        for batch in (1, 2):
            told = trtbench(
                tmp_path, "bench", "m.onnx", "--shape", f"x:{batch}x3x{size}x{size}",
                "--iterations", "20", "--warmup", "1ms", "--no-until-steady", "--json",
            )  # fmt: skip
            runs.append(json.loads(told)["run"]["id"])
    trtbench(tmp_path, "report", *runs, "--format", "json,md", "-o", "out")
    page = (tmp_path / "out" / "report.md").read_text()
    assert "3x32x32 · batch 1" in page
    assert "3x96x96 · batch 2" in page
    assert "batch 2 (1)" not in page
    document = (tmp_path / "out" / "report.json").read_text()
    curves = [
        line
        for figure in _figures(json.loads(document))
        if figure.get("id", "").startswith("throughput")
        for panel in figure["chart"]["panels"]
        for line in panel["lines"]
    ]
    names = {line["name"] for line in curves if line.get("name")}
    assert {"3x32x32", "3x96x96"} <= names
    assert all(len(line["x"]) == 2 for line in curves if line.get("name") in names)


def _figures(value: object) -> Iterator[dict]:  # type: ignore[type-arg]
    if isinstance(value, dict):
        if "chart" in value:
            yield value
        for inner in value.values():
            yield from _figures(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _figures(inner)


MODEL = ModelRef(path="m.onnx", format="onnx")


def a_run(tiles: int, **changes: object) -> Run:
    record = RunRecord(
        id=f"r{tiles}",
        created="2026-01-01T00:00:00+00:00",
        spec=RunSpec(model=MODEL, runtime="onnxruntime"),
        environment=Environment(host="h", os="Linux"),
        inputs=(TensorSpec(name="x", dtype="float32", shape=(1, 8)),),
        conditions={"tiles": Fact(value=tiles)},
    )
    return Run(record=record.having(**changes), times=IterationTimes(host=np.full(9, 1e-3)))


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "PROPERTIES", PROPERTIES)
    before = list(PROPERTIES)
    declare(
        Property(
            name="tiles",
            words="tiles of the scheduler",
            read=lambda record: record.conditions["tiles"].value,
            write=lambda count: f"{count} tiles",
            condition=True,
            code="H25",
        )
    )
    yield  # type: ignore[misc]
    PROPERTIES[:] = before


class TiledSpec(RunSpec, frozen=True, kw_only=True):
    tiles: int = 1


def test_a_new_field_of_a_spec_is_a_property_by_itself() -> None:
    before = list(PROPERTIES)
    declare(*properties.properties_of_fields(TiledSpec))
    try:
        few, many = (
            a_run(0, conditions={}, spec=TiledSpec(model=MODEL, runtime="onnxruntime", tiles=count))
            for count in (2, 8)
        )
        assert "tiles 2" in title_of(few)
        assert labels_from_runs([few, many]) == ("tiles 2", "tiles 8")
        assert "tiles 8" in key_from_record(many.record).name
        (found,) = differences(few.record, many.record)
        assert (found.key, found.blocking) == ("tiles", True)
    finally:
        PROPERTIES[:] = before


@pytest.mark.usefixtures("tiles")
def test_one_declaration_reaches_title_label_series_history_and_comparability() -> None:
    few, many = a_run(2), a_run(8)
    assert "2 tiles" in title_of(few)
    assert labels_from_runs([few, many]) == ("2 tiles", "8 tiles")
    assert series_key(few.record) != series_key(many.record)
    assert "8 tiles" in key_from_record(many.record).name
    (found,) = differences(few.record, many.record)
    assert (found.key, found.blocking, found.code) == ("tiles", True, "H25")
    assert not differences(few.record, many.record, accept=["tiles"])[0].blocking
    refuse_unknown_keys(["tiles"])


def test_what_is_not_declared_is_a_remark() -> None:
    (found,) = differences(a_run(2).record, a_run(8).record)
    assert (found.key, found.blocking) == ("tiles", False)
    assert labels_from_runs([a_run(2), a_run(8)]) == ("m.onnx (1)", "m.onnx (2)")


def test_names_of_properties_are_unique_and_steps_are_fields_of_a_spec() -> None:
    names = [each.name for each in PROPERTIES]
    assert len(set(names)) == len(names)
    fields = set(RunSpec.__struct_fields__)
    assert {name for each in PROPERTIES for name in each.asked} <= fields
    assert set(properties.ladder_fields()) <= fields


def test_the_shape_counts_within_one_model_only() -> None:
    small, large = (
        a_run(1, inputs=(TensorSpec(name="x", dtype="float32", shape=(1, 3, s, s)),))
        for s in (32, 96)
    )
    other = a_run(
        1,
        spec=RunSpec(model=ModelRef(path="n.onnx", format="onnx"), runtime="onnxruntime"),
        inputs=(TensorSpec(name="x", dtype="float32", shape=(1, 3, 64, 64)),),
    )
    assert labels_from_runs([small, large]) == ("3x32x32", "3x96x96")
    assert labels_from_runs([small, other]) == ("m.onnx", "n.onnx")
