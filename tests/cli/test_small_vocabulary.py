"""Models that know few words: random ids stay below their tables, or the error says how."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from command import QUICK, Say
from onnx import NodeProto, TensorProto, helper, numpy_helper, save

from trtbench.core.errors import UsageError
from trtbench.core.results import Feed
from trtbench.core.spec import ModelRef, RunSpec, TensorSpec
from trtbench.models.identity import index_limits
from trtbench.tasks._feed import open_feed

IDS = TensorSpec(name="ids", dtype="int64", shape=("batch", "sequence"))


def words_model(
    path: Path,
    nodes: Sequence[NodeProto] = (),
    *,
    rows: int = 7,
    table: str = "table",
    ids: str = "ids",
    axis: int = 0,
) -> Path:
    """Write a model that looks "ids" up in a table; ``nodes`` come before, and say what is used."""
    values = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    values = values if axis == 0 else np.ascontiguousarray(values.T)
    graph = helper.make_graph(
        [*nodes, helper.make_node("Gather", [table, ids], ["y"], axis=axis)],
        "words",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(values, "table"),
            numpy_helper.from_array(np.int64(3), "three"),
            numpy_helper.from_array(np.array([0], np.int64), "zero"),
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def constant(name: str) -> NodeProto:
    value = numpy_helper.from_array(np.zeros((5, 2), np.float32))
    return helper.make_node("Constant", [], [name], value=value)


@pytest.mark.parametrize(
    ("before", "names", "rows"),
    [
        ([], {}, 7),
        ([], {"axis": 1}, 7),
        ([], {"axis": -1}, 7),
        ([constant("made")], {"table": "made"}, 5),
        ([helper.make_node("Identity", ["table"], ["same"])], {"table": "same"}, 7),
        ([helper.make_node("Unsqueeze", ["ids", "zero"], ["deep"])], {"ids": "deep"}, 7),
        ([helper.make_node("Cast", ["ids"], ["cast"], to=TensorProto.INT32)], {"ids": "cast"}, 7),
        ([helper.make_node("Add", ["ids", "three"], ["sum"])], {"ids": "sum"}, None),
        ([constant("made"), helper.make_node("Gather", ["made", "ids"], ["other"])], {}, 5),
    ],
    ids=["stored", "columns", "last", "constant", "renamed table", "deeper", "cast", "computed",
         "smallest of two"],
)  # fmt: skip
def test_a_file_tells_how_many_rows_its_table_has(
    tmp_path: Path, before: list[NodeProto], names: dict[str, str], rows: int | None
) -> None:
    path = words_model(tmp_path / "m.onnx", before, **names)  # type: ignore[arg-type]
    found = index_limits(ModelRef(path=str(path), format="onnx"))
    assert dict(found) == ({} if rows is None else {"ids": rows})


def drawn(*, ends: tuple[float, float] | None = None, limit: int | None = None) -> np.ndarray:
    limits = {} if limit is None else {"ids": limit}
    feed = Feed(kind="random", count=1, bounds=ends, limits=limits)
    model = ModelRef(path="/m.onnx", format="onnx")
    source = open_feed(feed, (IDS,), spec=RunSpec(model=model, runtime="onnxruntime"))
    return source.prepare(source.load(0))["ids"]


def test_a_range_holds_for_whole_numbers_too_and_never_leaves_the_table() -> None:
    assert drawn().max() > 900
    assert set(np.unique(drawn(limit=7))) == set(range(7))
    assert set(np.unique(drawn(ends=(3, 5.5)))) == {3, 4, 5}
    assert set(np.unique(drawn(ends=(-2, 50), limit=7))) == set(range(7))
    with pytest.raises(UsageError, match="no whole number") as caught:
        drawn(ends=(0.2, 0.8))
    assert "--range" in (caught.value.fix or "")


def test_a_hidden_table_is_an_error_with_the_way_out(say: Say) -> None:
    hidden = [helper.make_node("Add", ["ids", "three"], ["sum"])]
    model = words_model(Path("m.onnx"), hidden, ids="sum")
    said = say("bench", model, *QUICK)
    assert (said.status, "fix: --data FILE (.npz)" in said.err) == (1, True)
    assert "ids 1x128 int64, random values" in said.err
    check = ("check", model, model, "--random", "3")
    said = say(*check)
    assert (said.status, "fix: --range 0:99" in said.err) == (1, True)
    assert say(*check, "--range", "0:3").status == 0
