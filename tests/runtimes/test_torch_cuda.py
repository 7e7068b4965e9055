"""Sessions of PyTorch on a GPU, and on a stand-in that captures and computes as one does."""

import json
from pathlib import Path
from typing import Any

import pytest

from waiting import printed

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
STEPS = 4

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("torch")]


@pytest.fixture(scope="module", params=["standin", pytest.param("gpu", marks=pytest.mark.gpu)])
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, torch_python: str
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("cuda")
    words = [str(HERE / "torch_cuda_probe.py"), str(SOURCE), str(folder), request.param]
    told = json.loads(printed([torch_python, *words]).splitlines()[-1])
    if told is None:
        pytest.skip("no GPU: PyTorch sees none")
    return told


def told(found: dict[str, Any], name: str) -> dict[str, Any]:
    assert "ok" in found[name], found[name]
    return found[name]["ok"]


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("graph", {"enqueue", "h2d", "gpu", "d2h"}),
        ("eager", {"enqueue", "h2d", "gpu", "d2h"}),
        ("bare", {"enqueue", "gpu"}),
        ("gpu", {"enqueue", "gpu", "start", "latency"}),
        ("coldl2", {"enqueue", "gpu", "start", "latency"}),
        ("nested", {"enqueue", "h2d", "gpu", "d2h"}),
    ],
)
def test_every_query_has_its_spans(found: dict[str, Any], name: str, columns: set[str]) -> None:
    case = told(found, name)
    assert case["columns"] == dict.fromkeys(columns, STEPS)
    assert case["positive"]
    assert case["burst"]
    assert case["early"], "a burst before there is a query"
    assert case["overlapping"] is (name in ("gpu", "coldl2"))


@pytest.mark.parametrize("name", ["graph", "eager", "bare", "gpu", "half", "channels_last", "tf32"])
def test_numbers_are_those_of_the_processor(found: dict[str, Any], name: str) -> None:
    assert told(found, name)["first"] == pytest.approx(found["processor"], abs=5e-3)


def test_conditions_say_how_it_was_run(found: dict[str, Any]) -> None:
    graph, eager, bare = (told(found, each)["conditions"] for each in ("graph", "eager", "bare"))
    assert (graph["cuda_graph"], eager["cuda_graph"]) == (True, False)
    assert (graph["transfers"], bare["transfers"]) == (True, False)
    assert (graph["spin_wait"], bare["spin_wait"]) == (False, True)
    assert "threads" not in graph
    assert graph["device"]
    assert graph["memory"] == "pinned"
    assert told(found, "half")["conditions"]["precision"] == "half"
    assert told(found, "tf32")["conditions"]["precision"] == "tf32"
    assert not told(found, "graph")["notes"]


@pytest.mark.parametrize("name", ["nested", "nested_eager"])
def test_outputs_are_found_however_deep_they_lie(found: dict[str, Any], name: str) -> None:
    assert told(found, name)["outputs"] == {
        "output0": ["float32", [2, 5]], "output1": ["float32", [2, 5]], "output2": ["int64", [2]],
    }  # fmt: skip


def test_outputs_without_an_end_are_no_reason_to_doubt_a_graph(found: dict[str, Any]) -> None:
    case = told(found, "endless")
    assert case["conditions"]["cuda_graph"] is True
    assert "graph_outputs_differ" not in case["evidence"]


@pytest.mark.parametrize(
    ("name", "words"), [("asking", "captur"), ("counting", "different results from the model")]
)
def test_what_no_graph_can_hold_is_measured_without_one_and_said(
    found: dict[str, Any], name: str, words: str
) -> None:
    """One asks for a value on the way, the other counts its calls in Python."""
    case = told(found, name)
    assert case["conditions"]["cuda_graph"] is False
    assert case["conditions"]["cuda_graph_fell_back"] is True
    (note,) = case["notes"]
    assert note.startswith("measured without a CUDA graph: ")
    assert words in note
    assert "\n" not in note
    assert case["evidence"].get("graph_outputs_differ", False) is (name == "counting")
    assert case["columns"]["gpu"] == STEPS
    refused = found[f"{name}_on"]
    assert refused["error"] == "InputError"
    assert "--cuda-graph auto" in refused["fix"]


def test_the_cache_is_emptied_for_coldl2_alone(found: dict[str, Any]) -> None:
    assert not told(found, "gpu")["filled"]
    if found["where"] == "standin":  # a GPU does not tell
        assert told(found, "coldl2")["filled"] == [2 << 16], "twice what its cache holds"


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("picky", "InputError", "cannot prepare the model"),
        ("no_such_device", "UnavailableError", "no device cuda:99"),
    ],
)
def test_what_cannot_be_opened_is_said(found: dict[str, Any], name: str, kind: str, message: str):
    refused = found[name]
    assert (refused["error"], message in refused["message"]) == (kind, True), refused


def test_modules_are_compiled_and_timed_by_their_kernels(found: dict[str, Any]) -> None:
    if found["where"] == "standin":
        pytest.skip("no GPU: a stand-in has no kernels")
    compiled = told(found, "compiled")
    assert compiled["conditions"]["cuda_graph"] is True
    assert compiled["first"] == pytest.approx(found["processor"], abs=5e-3)
    assert told(found, "autocast")["conditions"]["precision"] == "fp16"
    assert {"conv (Conv2d)", "head (Linear)"} <= set(told(found, "layers")["names"])
