"""Models that know few words: random ids stay below their tables, or the error says how."""

from pathlib import Path

import numpy as np
import pytest

from command import QUICK, Say
from models import save_text
from trtbench.core.errors import UsageError
from trtbench.core.results import Feed
from trtbench.core.spec import ModelRef, RunSpec, TensorSpec
from trtbench.models.identity import index_limits
from trtbench.tasks._feed import open_feed

IDS = TensorSpec(name="ids", dtype="int64", shape=("batch", "sequence"))


def words_model(
    path: Path, nodes: str = "", *, table: str = "table", ids: str = "ids", axis: int = 0
) -> Path:
    """Write a model that looks "ids" up in a table; ``nodes`` come before, and say what is used."""
    values = np.ones((7, 2), np.float32) if axis == 0 else np.ones((2, 7), np.float32)
    text = f"""words (int64[batch, sequence] ids) => (float[] y) {{
        {nodes}
        y = Gather <axis = {axis}> ({table}, {ids})
    }}"""
    weights = {"three": np.int64(3), "zero": np.array([0])}
    return save_text(path, text, check=False, table=values, **weights)


MADE = "made = Constant <value = float[5, 1] {0, 0, 0, 0, 0}> ()"


@pytest.mark.parametrize(
    ("before", "names", "rows"),
    [
        ("", {}, 7), ("", {"axis": 1}, 7), ("", {"axis": -1}, 7), (MADE, {"table": "made"}, 5),
        ("same = Identity (table)", {"table": "same"}, 7),
        ("deep = Unsqueeze (ids, zero)", {"ids": "deep"}, 7),
        ("cast = Cast <to = 6> (ids)", {"ids": "cast"}, 7),
        ("sum = Add (ids, three)", {"ids": "sum"}, None),
        (f"{MADE} other = Gather (made, ids)", {}, 5),
    ],
)  # fmt: skip
def test_a_file_tells_how_many_rows_its_table_has(
    tmp_path: Path, before: str, names: dict[str, str], rows: int | None
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


def test_rows_of_a_hidden_table_are_found_and_give_way_to_a_range(say: Say) -> None:
    model = words_model(Path("m.onnx"), "sum = Add (ids, three)", ids="sum")
    assert "input values: ids 0..1" in say("bench", model, *QUICK, status=0).err
    check = ("check", model, model, "--random", "3")
    assert "input values: ids 0..1" in say(*check, status=0).out
    assert "0..1" not in say(*check, "--range", "0:3", status=0).out
    assert "fix: --range 0:99" in say(*check, "--range", "0:999", status=1).err
