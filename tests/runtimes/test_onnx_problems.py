"""Files that ONNX Runtime does not take, explained."""

import pytest

import models
from trtbench.core.errors import InputError
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.runtimes.onnxruntime import open_session


def load(path, **kw):
    model = ModelRef(path=str(path), format="onnx")
    return open_session(RunSpec(model=model, runtime="onnxruntime", threads=1, **kw))


def refuse(path, **kw) -> InputError:
    with pytest.raises(InputError) as caught:
        load(path, **kw)
    return caught.value


HEADS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"PK\x03\x04", b"GGUF")
TEXTS = (
    b"hello, I am a text\n", "Bäume stehen hier, und ein Zeilenende\n".encode(), b'{"model": 1}',
    b"Because it begins with a byte that a model could begin with\nit is none\n",
)  # fmt: skip


@pytest.mark.parametrize("data", [*TEXTS, *(head + bytes(100) for head in HEADS)])
def test_something_else_is_not_an_onnx_file(tmp_path, data):
    (tmp_path / "m.onnx").write_bytes(data)
    problem = refuse(tmp_path / "m.onnx")
    assert problem.message == "m.onnx is not an ONNX file"
    assert problem.facts["file"] == str(tmp_path / "m.onnx")


def test_a_pointer_of_git_lfs_says_how_to_get_the_file(tmp_path):
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (tmp_path / "m.onnx").write_text(text)
    assert refuse(tmp_path / "m.onnx").fix == "git lfs pull"


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


def test_an_unsupported_operator_is_named(tmp_path):
    problem = refuse(models.unsupported_operator_model(tmp_path / "m.onnx"))
    assert "operator that ONNX Runtime does not have" in problem.message
    assert "Unheard" in problem.facts["reason"]
    assert problem.fix
