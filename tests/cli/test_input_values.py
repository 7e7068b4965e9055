"""Shapes and values of inputs: by name, by use in the graph, by trying, or as --input says."""

import json
from pathlib import Path

import numpy as np
import pytest

from command import QUICK, Say
from models import save_text
from trtbench.core.errors import UsageError
from trtbench.core.results import Feed
from trtbench.core.spec import ModelRef, RunSpec, TensorSpec
from trtbench.host.cache import cache_folder
from trtbench.models.identity import index_limits
from trtbench.tasks._feed import open_feed

M = Path("m.onnx")
COMMANDS = {
    "bench": ("bench", M, *QUICK),
    "profile": ("profile", M, *QUICK),
    "check": ("check", M, M, "--random", "2"),
    "quantize": ("quantize", M, "--precision", "fp16", "-o", "half.onnx"),
    "compare": ("compare", M, M, "--duration", "20ms", "--launches", "1", "--max-launches", "1"),
    "sweep": ("sweep", M, "--axis", "iterations=9", "--format", "none"),
}
VOICE = """v (float[N, L] input, float[2, B, 8] state, int64 sr) => (float[N, 4] o, float h) {
    index = Sub (sr, rate)
    gain = Gather (one, index)
    scaled = Mul (input, gain)
    o = MatMul (scaled, w)
    top = ReduceMax <keepdims = 0> (state)
    place = Cast <to = 7> (top)
    h = Gather (one, place)
}"""
"""It runs only on 576 samples at 16 kHz, and on states of 0."""


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_model_with_a_rate_and_a_state_runs_at_the_first_command(
    words: tuple[object, ...], say: Say
) -> None:
    save_text(M, VOICE, w=np.ones((576, 4), np.float32), rate=np.int64(16_000), one=np.ones(1))
    said = say(*words, status=0)
    if words[0] == "bench":
        assert "L 576 (it does not run on 1x128, 2x1x8; change" in said.words
        fed = "input values: state 0, sr 16000 (change with --input state=VALUE)"
        assert fed in say("runs", "show", "last", "--json").out
        [found] = (cache_folder() / "shapes").iterdir()
        kept = json.loads(found.read_text())
        found.write_text(json.dumps({**kept, "tried": ["what was kept"]}))
        assert "it does not run on" not in say(*words).words, "a second command searched again"
    said = say(*words, "--input", "sr=8000")
    assert said.status != 0
    assert "fix: --shape" not in said.err


SOUND = """sound (float[batch, N] waves, int64[batch] waves_len) => (float[batch, N] o) {
    all = Shape (waves)
    long = Gather (all, second)
    index = Sub (waves_len, long)
    gain = Gather (table, index)
    o = Mul (waves, gain)
}"""
WORDS = """w (float[batch, K] ids, float[batch, M] x) => (float[batch, K] o, float[batch, 3] y) {
    whole = Cast <to = 7> (ids)
    o = Gather (table, whole)
    y = MatMul (x, w)
}"""


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (SOUND, (), ["waves_len 16000"]),
        (SOUND, ("--shape", "waves:1x800"), ["waves_len 800"]),
        (WORDS, (), ["ids 0..4", "K 128, M 37 (as its operators require; change"]),
        ("p (float[1] f_min) => (float[1] o) { o = Log (f_min) }", (), ["f_min 50"]),
    ],
)
def test_lengths_indices_and_sizes_are_those_that_the_graph_needs(
    text: str, words: tuple[str, ...], said: list[str], say: Say
) -> None:
    rows = 1 if text is SOUND else 5
    save_text(M, text, second=np.int64(1), table=np.ones(rows, np.float32),
              w=np.ones((37, 3), np.float32))  # fmt: skip
    found = say(*COMMANDS["bench"], *words, status=0).words
    assert [each for each in said if each not in found] == []
    assert say(*COMMANDS["check"], *words).status == 0


def echo(kind: str) -> None:
    save_text(M, f"echo ({kind}[batch, 6] x) => ({kind}[batch, 6] y) {{ y = Identity (x) }}")
    np.save("rows.npy", np.full((1, 6), 30, np.float64))
    np.save("wide.npy", np.ones((1, 7), np.float32))


def test_inputs_that_are_unusual_run_or_are_refused(say: Say) -> None:
    text = "net (float[T, N, 6] x, float[1, N, 6] h0) => (float[T, N, 6] y) { y = Add (x, h0) }"
    save_text(M, text)
    assert "x float32 1x1x6, h0 float32 1x1x6" in say(*COMMANDS["bench"], status=0).words
    save_text(M, "none () => (float[2] y) { y = RandomNormal <shape = [2]> () }")
    say(*COMMANDS["bench"], status=0)
    echo("bfloat16")
    assert "cannot exchange BF16" in say(*COMMANDS["bench"], status=1).err
    inside = "{ a = Cast <to = 16> (x) b = MatMul (a, a) y = Cast <to = 1> (b) }"
    save_text(M, f"net (float[6, 6] x) => (float[6, 6] y) {inside}")
    assert "does not compute this model in BF16" in say(*COMMANDS["bench"], status=1).err


@pytest.mark.parametrize(
    ("given", "kind", "least", "most"),
    [("x=7", "int64", 7, 7), ("x=3..5", "int32", 3, 5), ("x=-2..-1", "float", 1, 2),
     ("x=1,2,3,4,5,6", "float16", 1, 6), ("x@rows.npy", "float", 30, 30),
     ("x=@rows.npy", "uint8", 30, 30), ("x=true", "int64", 1, 1)],
)  # fmt: skip
def test_an_input_has_the_value_that_it_is_given(
    given: str, kind: str, least: float, most: float, say: Say
) -> None:
    echo(kind)
    words = ("check", M, M, "--random", "3", "--input", given, "--json")
    [output] = say(*words).json["check"]["candidates"][0]["checks"]
    assert 0.9 * least <= output["p90_reference"] <= 1.1 * most  # of absolute values
    assert say(*COMMANDS["bench"], "--batch", 2, "--input", given).status == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x=16k",), "'16k' is not a value for the input 'x'"),
        (("x=9..1",), "'9..1' is not a value for the input 'x'"),
        (("x=1,2",), "2 numbers for x"),
        (("x=300",), "the input 'x' cannot have the value 300"),
        (("x=1.5",), "the input 'x' cannot have the value 1.5"),
        (("x=@wide.npy",), "the input 'x' has the wrong shape"),
        (("x@none.npy",), "there are no inputs at"),
        (("z=1",), "the model has no input called 'z'"),
        (("x",), "--input x is not valid"),
        (("x=1", "--data", "rows.npy"), "--input and --data cannot be combined"),
    ],
)
def test_a_value_that_cannot_be_fed_is_refused(words: tuple[str, ...], said: str, say: Say) -> None:
    echo("uint8")
    for verb in ("bench", "check", "quantize"):
        found = say(*COMMANDS[verb], "--input", *words)
        assert found.status in (1, 2)
        assert said in found.err, verb


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
