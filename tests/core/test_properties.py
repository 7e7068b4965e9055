"""The register of what makes a run another run: declared once, and everything follows."""

from __future__ import annotations

import numpy as np
import pytest

from analysis_values import run, stated
from trtbench.analysis.comparability import differences, refuse_unknown_keys
from trtbench.analysis.history import key_from_record
from trtbench.core import properties
from trtbench.core.properties import PROPERTIES, Property, declare, series_key
from trtbench.core.run import Run
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import ModelRef, RunSpec, TensorSpec
from trtbench.report.labels import labels_from_runs
from trtbench.report.sections.summary import title_of

MODEL = ModelRef(path="m.onnx", format="onnx")


def a_run(tiles: int, **changes: object) -> Run:
    given = {"spec": RunSpec(model=MODEL, runtime="onnxruntime"), "conditions": stated(tiles=tiles)}
    return run(IterationTimes(host=np.full(9, 1e-3)), id=f"r{tiles}", **{**given, **changes})


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
