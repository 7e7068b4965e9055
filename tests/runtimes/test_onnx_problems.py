"""Files that ONNX Runtime does not take, explained."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import models
from trtbench.core.errors import InputError, UnavailableError, UsageError
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.runtimes.onnxruntime import open_session


def load(path, **kw):
    model = ModelRef(path=str(path), format="onnx")
    return open_session(RunSpec(model=model, runtime="onnxruntime", threads=1, **kw))


def refuse(path, **kw) -> InputError:
    with pytest.raises(InputError) as caught:
        load(path, **kw)
    return caught.value


@pytest.mark.parametrize(
    "data",
    [
        b"hello, I am a text\n",
        b"Because it begins with a byte that a model could begin with\nit is none\n",
        "Bäume stehen hier, und ein Zeilenende\n".encode(),
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"\xff\xd8\xff\xe0" + bytes(100),
        b"PK\x03\x04" + bytes(100),
        b"GGUF" + bytes(100),
        b'{"model": 1}',
    ],
)
def test_something_else_is_not_an_onnx_file(tmp_path, data):
    (tmp_path / "m.onnx").write_bytes(data)
    problem = refuse(tmp_path / "m.onnx")
    assert problem.message == "m.onnx is not an ONNX file"
    assert problem.facts["file"] == str(tmp_path / "m.onnx")


def test_a_pointer_of_git_lfs_says_how_to_get_the_file(tmp_path):
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (tmp_path / "m.onnx").write_text(text)
    assert refuse(tmp_path / "m.onnx").fix == "git lfs pull"


def test_random_bytes_are_damage_or_no_onnx_file(tmp_path):
    generator = np.random.default_rng(0)
    for _ in range(40):
        (tmp_path / "m.onnx").write_bytes(generator.bytes(500))
        message = refuse(tmp_path / "m.onnx").message
        assert "is damaged or cut short" in message or "is not an ONNX file" in message


def test_a_truncated_model_is_cut_short_at_every_length(tmp_path):
    whole = models.tiny_model(tmp_path / "whole.onnx").read_bytes()
    for length in range(1, len(whole)):
        (tmp_path / "m.onnx").write_bytes(whole[:length])
        problem = refuse(tmp_path / "m.onnx")
        assert problem.message == "m.onnx is damaged or cut short", length
        assert problem.fix


def test_weights_in_another_file(tmp_path):
    path = models.external_data_model(tmp_path / "m.onnx")
    weights = models.external_data_path(path)
    load(path)
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert refuse(path).facts["reason"]
    weights.unlink()
    assert "m.onnx.data" in refuse(path).facts["reason"]


@pytest.mark.parametrize("odd", ["abc", "-3", "²"])
def test_weights_whose_place_is_no_number(tmp_path, odd):
    path = models.external_data_model(tmp_path / "m.onnx")
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "offset":
            entry.value = odd
    path.write_bytes(model.SerializeToString())
    assert refuse(path).facts["file"] == str(path)


def test_an_unsupported_operator_is_named(tmp_path):
    problem = refuse(models.unsupported_operator_model(tmp_path / "m.onnx"))
    assert "operator that ONNX Runtime does not have" in problem.message
    assert "Unheard" in problem.facts["reason"]
    assert problem.fix


def test_an_operator_that_the_standard_never_had_is_named(tmp_path):
    node = onnx.helper.make_node("Unheard", ["x"], ["y"])
    value = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1]) for n in "xy"]
    graph = onnx.helper.make_graph([node], "g", value[:1], value[1:])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    problem = refuse(tmp_path / "m.onnx")
    assert "operator that ONNX Runtime does not have" in problem.message
    assert "Unheard" in problem.facts["reason"]


def test_an_option_that_is_none_and_a_value_that_is_none(tmp_path):
    path = models.tiny_model(tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="no option 'spining'") as caught:
        load(path, options={"spining": "off"})
    assert caught.value.fix == "--opt spinning=off"
    with pytest.raises(UsageError, match="one of on, off"):
        load(path, options={"spinning": "maybe"})
    for number in ("two", "²", ""):  # a digit, and no number
        with pytest.raises(UsageError, match="whole number"):
            load(path, options={"inter_threads": number})
    with pytest.raises(UnavailableError, match="no execution provider 'cuda'") as caught:
        load(path, options={"providers": "cuda"})
    assert "cpu" in caught.value.facts["available"]
