"""Real engines, built by TensorRT-RTX on the CPU through the same job as any other build."""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import models
from bindings.rtx import Rtx
from planted_faults import convolutions
from trtbench.accuracy.graphs import write_marked
from trtbench.convert.build import build_spec, run_build
from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.errors import InputError, JobError, TrtbenchError, UnavailableError, UsageError
from trtbench.core.jobs import BuildJob
from trtbench.core.results import Artefact
from trtbench.core.spec import BuildSpec
from trtbench.host.process import Child
from trtbench.host.tensorrt_build import driver_problem
from trtbench.host.workers import worker_command, worker_environment
from trtbench.models.identity import sha256_of
from trtbench.requests.convert import BuildRequest
from trtbench.requests.execution import Event, Execution
from trtbench.requests.settings import load_config
from trtbench.trtexec.exports import graph_from_json
from trtbench.trtexec.version import plan_from_bytes
from typed_models import quantized, typed

pytestmark = pytest.mark.xdist_group("rtx")

BATCHES = {
    "shapes_min": {"image": (1, 3, 16, 16)},
    "shapes_opt": {"image": (4, 3, 16, 16)},
    "shapes_max": {"image": (8, 3, 16, 16)},
}


def spec_for(model: Path, **changes: Any) -> BuildSpec:
    changes.setdefault("runtime", "tensorrt-rtx")
    changes.setdefault("output", model.with_suffix(".engine"))
    return build_spec(BuildRequest(model=model, **changes), load_config())


def built(model: Path, rtx: Rtx, events: list[Event] | None = None, **changes: Any) -> Artefact:
    heard = events if events is not None else []
    execution = Execution(python=rtx.python, listen=heard.append)
    return run_build(spec_for(model, **changes), execution=execution)


def refused(model: Path, rtx: Rtx, **changes: Any) -> TrtbenchError:
    with pytest.raises(TrtbenchError) as caught:
        built(model, rtx, **changes)
    assert not model.with_suffix(".engine").exists()
    return caught.value


def conv(tmp_path: Path, **changes: Any) -> Path:
    return models.conv_model(tmp_path / "net.onnx", **changes)


def test_an_engine_with_everything_beside_it(rtx: Rtx, tmp_path: Path) -> None:
    model = conv(tmp_path)
    events: list[Event] = []
    artefact = built(model, rtx, events, **BATCHES)
    engine = tmp_path / "net.engine"
    data = engine.read_bytes()
    assert artefact.size_bytes == len(data) > 1000
    assert artefact.sha256 == sha256_of(engine)
    header = plan_from_bytes(data[:64], where="net.engine")
    assert header.flavour == "tensorrt_rtx"
    assert header.version == artefact.tensorrt == artefact.plan
    assert header.plan_bytes is not None
    assert artefact.conditions["typing"].value == "strong"
    assert artefact.conditions["precision"].value == "fp32"
    assert artefact.conditions["tf32"].value is False
    assert artefact.build_s is not None
    assert artefact.build_s > 0
    assert artefact.facts["inputs"] == "image float32 ?x3x16x16"
    peak = artefact.facts["peak_host_bytes"]
    assert isinstance(peak, int)
    assert peak > 10 << 20
    saved = value_from_json((tmp_path / "net.engine.json").read_bytes(), Artefact, where="json")
    assert saved == artefact
    assert "[I] [TRT]" in (tmp_path / "net.engine.build.log").read_text()
    assert [path.name for path in tmp_path.glob("*.part")] == []
    assert any(event.text not in ("parsing", "building", "saving") for event in events)


def test_the_layers_are_those_of_the_network_without_a_gpu(rtx: Rtx, tmp_path: Path) -> None:
    artefact = built(conv(tmp_path), rtx, **BATCHES)
    text = (tmp_path / "net.engine.graph.json").read_bytes()
    graph = graph_from_json(text, where="graph")
    assert artefact.facts["layers_from"] == "network"
    assert artefact.facts["network_layers"] == len(graph.layers)
    assert sum(layer.type == "CONVOLUTION" for layer in graph.layers) == 2
    assert set(graph.io_tensors) == {"image", "logits"}
    first = graph.layers[0]
    assert first.inputs[0].dtype == "fp32"
    assert first.origin


@pytest.mark.parametrize(
    ("name", "make", "targets"),
    [
        ("fp32", lambda path: typed(path, TensorProto.FLOAT), ("sm_86",)),
        ("fp16", lambda path: typed(path, TensorProto.FLOAT16), ("sm_75", "sm_86")),
        ("bf16", lambda path: typed(path, TensorProto.BFLOAT16), ("sm_80", "sm_120")),
        ("int8", lambda path: quantized(path, TensorProto.INT8), ("sm_86", "sm_89")),
        ("fp8", lambda path: quantized(path, TensorProto.FLOAT8E4M3FN), ("sm_89",)),
    ],
)
def test_every_precision_is_built_from_the_models_types(
    rtx: Rtx, tmp_path: Path, name: str, make: Any, targets: tuple[str, ...]
) -> None:
    artefact = built(make(tmp_path / "net.onnx"), rtx, target=targets)
    assert artefact.conditions["precision"].value == name
    assert artefact.conditions["typing"].value == "strong"
    assert artefact.notes == ()
    with open(tmp_path / "net.engine", "rb") as file:
        header = plan_from_bytes(file.read(64), where="engine")
    wanted = [f"{target[3:-1]}.{target[-1]}" for target in targets]
    assert list(header.compute_capabilities) == wanted


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_precision_casts_a_plain_model_first(rtx: Rtx, tmp_path: Path, precision: str) -> None:
    artefact = built(conv(tmp_path), rtx, precision=precision, **BATCHES)
    assert artefact.conditions["precision"].value == precision
    assert any(note.startswith(f"cast the model to {precision}") for note in artefact.notes)
    made = onnx.load(tmp_path / f"net.engine.{precision}.onnx")
    wanted = TensorProto.FLOAT16 if precision == "fp16" else TensorProto.BFLOAT16
    assert wanted in {tensor.data_type for tensor in made.graph.initializer}
    assert artefact.facts["inputs"] == "image float32 ?x3x16x16"
    plain = built(models.conv_model(tmp_path / "plain.onnx"), rtx, **BATCHES)
    assert artefact.facts["weights_bytes"] != plain.facts["weights_bytes"]


def test_int8_quantizes_a_plain_model_first(rtx: Rtx, tmp_path: Path) -> None:
    if not rtx.has("onnxruntime"):
        pytest.skip("the interpreter with TensorRT-RTX has no ONNX Runtime")
    data = tmp_path / "data.npz"
    np.savez(data, image=np.random.default_rng(0).random((16, 3, 16, 16), dtype=np.float32))
    artefact = built(conv(tmp_path), rtx, precision="int8", calibration=str(data), **BATCHES)
    assert artefact.conditions["precision"].value == "int8"
    made = onnx.load(tmp_path / "net.engine.int8.onnx")
    assert "QuantizeLinear" in {node.op_type for node in made.graph.node}
    assert any(note.startswith("quantize the model to int8") for note in artefact.notes)


MODELOPT = '''
import onnx
from onnx import TensorProto, helper


def quantize(onnx_path, quantize_mode, calibration_data, output_path, **rest):
    """Put Q/DQ pairs with a scale of one around what the first product reads."""
    assert all(len(array) for array in calibration_data.values())
    kind = {"fp8": TensorProto.FLOAT8E4M3FN, "int8": TensorProto.INT8}[quantize_mode]
    model = onnx.version_converter.convert_version(onnx.load(onnx_path), 19)
    graph = model.graph
    at = next(index for index, node in enumerate(graph.node) if node.op_type == "MatMul")
    product = graph.node[at]
    graph.initializer.append(helper.make_tensor("scale", TensorProto.FLOAT, [], [1.0]))
    graph.initializer.append(helper.make_tensor("zero", kind, [], [0]))
    for index, name in enumerate(product.input):
        given, low, high = [name, "scale", "zero"], f"{name}_q", f"{name}_dq"
        graph.node.insert(at, helper.make_node("QuantizeLinear", given, [low]))
        given = [low, "scale", "zero"]
        graph.node.insert(at + 1, helper.make_node("DequantizeLinear", given, [high]))
        product.input[index] = high
        at += 2
    onnx.save(model, output_path)
'''


@pytest.fixture
def modelopt(rtx: Rtx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in of NVIDIA ModelOpt in an interpreter that the settings name."""
    package = tmp_path / "lib" / "modelopt" / "onnx" / "quantization"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(MODELOPT)
    python = tmp_path / "modelopt-python"
    lib = tmp_path / "lib"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={lib}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "trtbench.toml").write_text(f'[runtimes.modelopt]\npython = "{python}"\n')
    monkeypatch.chdir(folder)
    return typed(folder / "net.onnx", TensorProto.FLOAT)


def test_fp8_is_quantized_by_modelopt_in_its_own_interpreter(rtx: Rtx, modelopt: Path) -> None:
    changes = {"precision": "fp8", "calibration": "random", "target": ("sm_89",)}
    artefact = built(modelopt, rtx, **changes)
    assert artefact.conditions["precision"].value == "fp8"
    assert "by NVIDIA ModelOpt" in artefact.notes[0]
    assert any("random data" in note for note in artefact.notes)
    kept = onnx.load(modelopt.with_name("net.engine.fp8.onnx"))
    assert {node.op_type for node in kept.graph.node} > {"QuantizeLinear", "DequantizeLinear"}
    assert "net.engine.fp8.onnx" in artefact.files
    assert "typed.onnx" not in str(artefact.command)
    assert str(modelopt) in str(artefact.command)
    assert not list(modelopt.parent.glob(".partial*"))


def test_a_node_that_cannot_be_parsed_is_named(rtx: Rtx, tmp_path: Path) -> None:
    model = models.unsupported_operator_model(tmp_path / "net.onnx")
    error = refused(model, rtx)
    assert isinstance(error, InputError)
    assert error.facts["operator"] == "Unheard"
    assert error.facts["node"] == "number 0, 'strange'"
    assert "-r tensorrt with --plugin" in (error.fix or "")  # TensorRT-RTX takes no plugins
    log = Path(error.facts["log"])
    assert log == model.with_name("net.engine.build.log")
    assert "Unheard" in log.read_text()


def test_scales_that_are_not_symmetric_are_explained(rtx: Rtx, tmp_path: Path) -> None:
    model = quantized(tmp_path / "net.onnx", TensorProto.INT8)
    graph = onnx.load(model)
    zero = next(each for each in graph.graph.initializer if each.name == "zero")
    zero.CopyFrom(helper.make_tensor("zero", TensorProto.INT8, [], [3]))
    onnx.save(graph, model)
    error = refused(model, rtx)
    assert "QuantizeLinear" in error.facts["operator"]
    assert "trtbench quantize" in (error.fix or "")


def test_weights_beside_the_model_are_found_from_any_folder(
    rtx: Rtx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    model = models.external_data_model(tmp_path / "net.onnx")
    monkeypatch.chdir(elsewhere)
    artefact = built(Path("../net.onnx"), rtx, output=tmp_path / "net.engine", **BATCHES)
    weights = models.external_data_path(model).stat().st_size
    assert artefact.size_bytes > weights // 2
    models.external_data_path(model).unlink()
    (tmp_path / "net.engine").unlink()
    error = refused(model, rtx, **BATCHES)
    assert "net.onnx.data" in error.facts["missing"]


def test_several_profiles_and_a_fixed_batch(rtx: Rtx, tmp_path: Path) -> None:
    profiles = [{"image": (2, 3, 16, 16)}, {"image": (64, 3, 16, 16)}]
    spec = spec_for(conv(tmp_path), shapes_opt=profiles)
    assert len(spec.more_profiles) == 1
    built(conv(tmp_path), rtx, shapes_opt=profiles)
    log = (tmp_path / "net.engine.build.log").read_text()
    assert "error" not in log.lower()
    static = models.conv_model(tmp_path / "static.onnx", batch=2)
    assert built(static, rtx).facts["inputs"] == "image float32 2x3x16x16"


def test_too_small_a_workspace_is_told_with_a_way_out(rtx: Rtx, tmp_path: Path) -> None:
    model = conv(tmp_path, channels=64, size=32, layers=4)
    shapes = {"shapes_opt": {"image": (64, 3, 32, 32)}}
    error = refused(model, rtx, workspace=1, **shapes)
    assert isinstance(error, JobError)
    assert "--workspace" in (error.fix or "")
    assert Path(error.facts["log"]).is_file()


def test_a_type_that_the_target_lacks_fails_and_says_so(rtx: Rtx, tmp_path: Path) -> None:
    model = quantized(tmp_path / "net.onnx", TensorProto.FLOAT8E4M3FN)
    error = refused(model, rtx, target=("sm_86",))
    assert "fp8 needs sm_89" in (error.fix or "")


@pytest.mark.parametrize("target", ["sm_90", "sm_87", "hopper"])
def test_a_gpu_that_tensorrt_rtx_does_not_know(rtx: Rtx, tmp_path: Path, target: str) -> None:
    error = refused(conv(tmp_path), rtx, target=(target,), **BATCHES)
    assert "sm_86" in error.facts["known"]


@pytest.mark.parametrize(
    "changes",
    [
        {"hardware_compatible": True},
        {"version_compatible": True},
        {"timing_cache": "cache"},
        {"plugins": ("lib.so",)},
        {"dla_core": 0},
    ],
)
def test_no_flag_is_silently_without_effect(rtx: Rtx, tmp_path: Path, changes: Any) -> None:
    error = refused(conv(tmp_path), rtx, **changes, **BATCHES)
    assert isinstance(error, UsageError)
    assert "has no effect" in error.message


def test_an_option_nobody_knows_is_refused(rtx: Rtx, tmp_path: Path) -> None:
    error = refused(conv(tmp_path), rtx, options={"typng": "strong"}, **BATCHES)
    assert error.fix == "--opt typing=strong"


def test_refitting_needs_a_gpu(rtx: Rtx, tmp_path: Path) -> None:
    if driver_problem() is None:
        pytest.skip("there is a GPU here")
    error = refused(conv(tmp_path), rtx, refit=True, **BATCHES)
    assert isinstance(error, UnavailableError)


def test_a_signal_ends_a_build_at_its_next_step(rtx: Rtx, tmp_path: Path) -> None:
    model = models.slow_model(tmp_path / "net.onnx", width=512, layers=8, passes=40)
    folder = tmp_path / "out"
    child, stages = start(spec_for(model, output=folder / "net.engine"), folder, rtx)
    try:
        listen_until(child, lambda: any(stage.startswith("~") for stage in stages))
    finally:
        child.end()
    child.close()
    assert not (folder / "net.engine").exists()
    told = json.loads((folder / "error.json").read_text())
    assert told["message"] == "the build was cancelled"
    assert told["stage"] == "build"


def test_tensorrt_itself_says_that_it_needs_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With bindings at hand and no driver, nothing of TensorRT is called."""
    if driver_problem() is None:
        pytest.skip("there is a GPU here")
    (tmp_path / "tensorrt.py").write_text(
        "__version__ = '10.9.0'\nclass BuilderFlag: FP16 = 1\nBuilder = None\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    model = models.conv_model(tmp_path / "net.onnx")
    error = refused(model, Rtx(), runtime="tensorrt", **BATCHES)
    assert isinstance(error, UnavailableError)
    assert error.message == "TensorRT needs a GPU to build; TensorRT-RTX does not"


def start(spec: BuildSpec, folder: Path, rtx: Rtx) -> tuple[Child, list[str]]:
    folder.mkdir()
    job = folder / "job.json"
    job.write_bytes(json_from_value(BuildJob(spec=spec)))
    stages: list[str] = []
    command = [*worker_command(rtx.python), str(job), str(folder), "{events}"]
    child = Child(command, log=folder / "log.txt", env=worker_environment(), on_line=stages.append)
    return child, stages


def listen_until(child: Child, happened: Callable[[], bool]) -> None:
    while not happened():
        assert not child.has_ended(), "it ended before"
        child.hear(select.select(child.watched(), [], [], 0.05)[0])


def test_a_model_with_marks_is_built_and_hands_them_out(rtx: Rtx, tmp_path: Path) -> None:
    """What localize asks of a builder: the same file with outputs where layers meet."""
    model = convolutions(tmp_path / "net.onnx", layers=3, seed=0)
    shapes = {f"shapes_{end}": {"x": (2, 3, 6, 6)} for end in ("min", "opt", "max")}
    plain = built(model, rtx, **shapes)
    graph = graph_from_json((tmp_path / "net.engine.graph.json").read_bytes(), where="graph")
    marked = write_marked(model, ["r0", "r1"], tmp_path / "marked.onnx")
    artefact = built(marked, rtx, **shapes)
    other = graph_from_json((tmp_path / "marked.engine.graph.json").read_bytes(), where="graph")
    assert plain.spec.precision == artefact.spec.precision
    assert not {"r0", "r1"} & set(graph.io_tensors)
    assert {"r0", "r1"} <= {tensor.name for layer in other.layers for tensor in layer.outputs}
