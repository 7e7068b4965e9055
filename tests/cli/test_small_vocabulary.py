"""Models that know few words: random ids stay below their tables, or the error says how."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, save

from models import multi_input_model
from trtbench.cli import run
from trtbench.domain.feed import Feed
from trtbench.domain.spec import ModelRef, RunSpec, TensorSpec
from trtbench.errors import UsageError
from trtbench.models.index_limits import index_limits
from trtbench.runtimes._session import resolve_inputs
from trtbench.tasks._feed import open_feed

QUICK = ("--iterations", "20", "--warmup", "5ms", "--no-until-steady")
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
    model: ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    save(model, path)
    return path


def limits(path: Path) -> dict[str, int]:
    return dict(index_limits(ModelRef(path=str(path), format="onnx"), [IDS]))


def constant(name: str) -> NodeProto:
    value = numpy_helper.from_array(np.zeros((5, 2), np.float32))
    return helper.make_node("Constant", [], [name], value=value)


@pytest.mark.parametrize(
    ("nodes", "names", "rows"),
    [
        ([], {}, 7),
        ([], {"axis": 1}, 7),
        ([], {"axis": -1}, 7),
        ([constant("made")], {"table": "made"}, 5),
        ([helper.make_node("Identity", ["table"], ["same"])], {"table": "same"}, 7),
        ([helper.make_node("Unsqueeze", ["ids", "zero"], ["deep"])], {"ids": "deep"}, 7),
        ([helper.make_node("Cast", ["ids"], ["cast"], to=TensorProto.INT32)], {"ids": "cast"}, 7),
        ([helper.make_node("Add", ["ids", "three"], ["sum"])], {"ids": "sum"}, None),
    ],
    ids=["stored", "columns", "last", "constant", "renamed table", "deeper", "cast", "computed"],
)
def test_a_file_tells_how_many_rows_its_table_has(
    tmp_path: Path, nodes: list[NodeProto], names: dict[str, str], rows: int | None
) -> None:
    path = words_model(tmp_path / "m.onnx", nodes, **names)  # type: ignore[arg-type]
    assert limits(path) == ({} if rows is None else {"ids": rows})


def test_the_smallest_of_several_tables_counts(tmp_path: Path) -> None:
    more = [constant("made"), helper.make_node("Gather", ["made", "ids"], ["other"])]
    assert limits(words_model(tmp_path / "m.onnx", more)) == {"ids": 5}


def test_a_model_without_integers_is_not_read(tmp_path: Path) -> None:
    plain = TensorSpec(name="x", dtype="float32", shape=(1,))
    path = words_model(tmp_path / "m.onnx")
    assert index_limits(ModelRef(path=str(path), format="onnx"), [plain]) == {}


def test_random_ids_of_a_run_stay_below(tmp_path: Path) -> None:
    path = words_model(tmp_path / "m.onnx")
    spec = RunSpec(model=ModelRef(path=str(path), format="onnx"), runtime="onnxruntime")
    _, arrays = resolve_inputs((IDS,), spec)
    assert set(np.unique(arrays["ids"])) == set(range(7))


def drawn(*, ends: tuple[float, float] | None = None, limit: int | None = None) -> np.ndarray:
    feed = Feed(
        kind="random",
        count=1,
        ranges={} if ends is None else {"": ends},
        limits={} if limit is None else {"ids": limit},
    )
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


def test_every_verb_runs_a_model_that_knows_few_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = str(multi_input_model(tmp_path / "m.onnx", vocabulary=9))
    for words in (
        ["bench", model, *QUICK],
        ["profile", model, *QUICK],
        ["check", model, model, "--random", "20"],
    ):
        assert run([*words, "--store", str(tmp_path / "store")]) == 0, capsys.readouterr().err


def test_a_table_that_nobody_can_see_is_an_error_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    hidden = [helper.make_node("Add", ["ids", "three"], ["sum"])]
    model = str(words_model(tmp_path / "m.onnx", hidden, ids="sum"))
    store = ["--store", str(tmp_path / "store")]
    assert run(["bench", model, *QUICK, *store]) == 1
    told = capsys.readouterr().err
    assert "fix: --inputs FILE (.npz)" in told
    assert "ids 1x128 int64, drawn at random" in told
    check = ["check", model, model, "--random", "3", *store]
    assert run(check) == 1
    assert "fix: --range 0:99" in capsys.readouterr().err
    assert run([*check, "--range", "0:3"]) == 0
