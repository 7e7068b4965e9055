"""Inspection: counts and estimates against numbers worked out by hand, and every kind of file."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import models
from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError
from trtbench.core.results import Artefact
from trtbench.core.run import Fact, Gpu
from trtbench.core.spec import BuildSpec, ShapeProfile
from trtbench.models.identity import model_ref, sha256_of
from trtbench.trtexec.version import PlanHeader
from trtbench.workflows.inspect import inspect, would_load


def plan(path: Path, *, magic: bytes = b"ftrt", version: bytes = bytes([10, 9, 0, 34])) -> Path:
    head = bytearray(128)
    head[:4] = magic
    head[24:28] = version
    struct.pack_into("<I", head, 32, 0b10)
    path.write_bytes(bytes(head))
    return path


def test_an_engine_of_a_tensorrt_that_is_not_here(tmp_path: Path) -> None:
    found = inspect(plan(tmp_path / "m.engine"))
    assert found.kind == "engine"
    assert found.facts["version"] == "10.9.0.34"
    assert found.facts["loads_here"] == "no"
    assert found.facts["size_bytes"] == (tmp_path / "m.engine").stat().st_size
    rtx = inspect(plan(tmp_path / "r.engine", magic=b"vtrt"))
    assert rtx.facts["flavour"] == "TensorRT-RTX"
    assert rtx.facts["built_for"] == "8.0"


def test_what_a_header_states_and_the_file_lacks_is_told(tmp_path: Path) -> None:
    whole = plan(tmp_path / "r.engine", magic=b"vtrt").read_bytes().ljust(4096, b"\0")
    cases: dict[int, str] = {16: "it is truncated: it has 4096 of 1099511627776 bytes",
             56: "its header states 1 024 GiB of weights, which it does not contain"}  # fmt: skip
    for place, words in cases.items():
        damaged = bytearray(whole)
        damaged[16:24] = len(whole).to_bytes(8, "little")
        damaged[place : place + 8] = (2**40).to_bytes(8, "little")
        (tmp_path / "d.engine").write_bytes(damaged)
        found = inspect(tmp_path / "d.engine")
        assert found.notes[0].startswith(words)
        assert found.facts["loads_here"] == "no"


def header(flavour: str = "tensorrt", version: str = "10.9.0.34", **rest: object) -> PlanHeader:
    return PlanHeader(flavour=flavour, version=version, **rest)  # type: ignore[arg-type]


def test_whether_an_engine_would_load() -> None:
    gpu = Gpu(name="A GPU", compute_capability="9.0")
    loads, reasons = would_load(header(), None, installed={"tensorrt": "10.9.0.34"}, gpus=[gpu])
    assert (loads, reasons) == (None, ())  # nothing says on which GPU it was built
    loads, reasons = would_load(header(), None, installed={"tensorrt": "8.6.1"}, gpus=[gpu])
    assert loads is False
    assert "8.6.1 is installed here" in reasons[0]
    rtx = header("tensorrt_rtx", "1.7.1.116", compute_capabilities=("8.6", "8.9"))
    loads, reasons = would_load(rtx, None, installed={"tensorrt-rtx": "1.7.1.116"}, gpus=[gpu])
    assert loads is False
    assert "has 9.0" in reasons[0]
    fitting = Gpu(name="Another", compute_capability="8.9")
    assert would_load(rtx, None, installed={"r": "1.7.1.116"}, gpus=[fitting]) == (True, ())
    why = ("TensorRT-RTX is not installed in this interpreter", "no GPU can be seen here")
    assert would_load(rtx, None, installed={}, gpus=[])[1] == why


def artefact(engine: Path, model: Path, **changes: Any) -> Artefact:
    """What a build would leave beside an engine."""
    span = ShapeProfile(min=(1, 3), opt=(4, 3), max=(8, 3))
    spec = BuildSpec(
        model=model_ref(model), output=str(engine), runtime="tensorrt", precision="fp16",
        shapes={"in put:0": span},
        more_profiles=({"in put:0": ShapeProfile(min=(16, 3), opt=(16, 3), max=(16, 3))},),
    )  # fmt: skip
    made = Artefact(
        path=str(engine), filename=engine.name, size_bytes=1,
        sha256=sha256_of(engine) if engine.is_file() else "0" * 64,
        created="2026-01-01T00:00:00+00:00", spec=spec, tensorrt="10.9.0.34", host="here",
        conditions={"precision": Fact(value="fp16+fp32"), "typing": Fact(value="weak")},
        facts={
            "inputs": "in put:0 float32 ?x3, go bool ",
            "outputs": "y float16 ?x3x?",
            "weights_bytes": 56,
            "activation_bytes": 4 * 2**20,
            "layers_from": "network",
        },
        **changes,
    )  # fmt: skip
    engine.with_name(f"{engine.name}.json").write_bytes(json_from_value(made))
    return made


def test_an_engine_with_its_record_shows_edges_profiles_and_weights(tmp_path: Path) -> None:
    engine = plan(tmp_path / "e.engine")
    artefact(engine, batch_norm_model(tmp_path / "bn.onnx"))
    found = inspect(engine)
    assert [(each.name, each.dtype, each.shape) for each in found.inputs] == [
        ("in put:0", "float32", (None, 3)),
        ("go", "bool", ()),
    ]
    assert [(each.name, each.shape) for each in found.outputs] == [("y", (None, 3, None))]
    assert found.facts["profiles"] == ("0: in put:0 1x3 to 8x3 (optimum 4x3); 1: in put:0 16x3")
    assert found.facts["activation_bytes"] == 4 * 2**20
    assert (found.facts["precision"], found.facts["typing"]) == ("fp16+fp32", "weak")


def test_a_file_cannot_overwrite_what_was_found_in_it(tmp_path: Path) -> None:
    model = onnx.load(batch_norm_model(tmp_path / "bn.onnx"))
    helper.set_model_props(model, {"parameters": "a billion", "author": "somebody"})
    onnx.save(model, tmp_path / "bn.onnx")
    facts = inspect(tmp_path / "bn.onnx").facts
    assert (facts["parameters"], facts["author"]) == (28, "somebody")


def batch_norm_model(path: Path) -> Path:
    text = """net (float[1, 3, 4, 4] x) => (float[1, 4, 4, 4] y) {
        c = Conv(x, w)
        y = BatchNormalization(c, scale, b, m, v)
    }"""
    each = dict.fromkeys(("scale", "b", "m", "v"), np.ones(4))
    return models.save_text(path, text, w=np.ones((4, 3, 1, 1)), **each)


def test_a_cut_model_a_folder_and_nothing_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        inspect("nothing")
    path = models.truncate(models.conv_model(tmp_path / "conv.onnx"))
    with pytest.raises(InputError, match="damaged"):
        inspect(path)
    with pytest.raises(InputError, match="is a folder"):
        inspect(tmp_path)
    with pytest.raises(InputError, match="did you mean"):
        inspect(tmp_path / "conv.onn")


@pytest.mark.parametrize(
    ("node", "kind", "words"),
    [
        ("Relu(x)", "float", "TensorRT 8.5 and later"),
        ("FooBar(x)", "float", "FooBar (node n) is no operator of ONNX"),
        ("Unique(x)", "float", "does not support the operator Unique (node n)"),
        ("Identity(x)", "string", "the tensor x holds str"),
        ("Relu(nowhere)", "float", "not valid: Nodes in a graph must be"),
        ("Conv(x)", "float", "has input size 1 not in range"),
    ],
)
def test_what_stands_against_a_parser_is_named(node: str, kind: str, words: str, tmp_path: Path):
    text = f"net ({kind}[4] x) => ({kind}[4] y) {{[n] y = {node}}}"
    said = str(inspect(models.save_text(tmp_path / "m.onnx", text, check=False)).facts["parsed_by"])
    assert words in said
    assert ("not by TensorRT as it is" in said) != said.startswith("TensorRT")
