"""Real engines, built by TensorRT-RTX on the CPU through the same job as any other build."""

import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import models
from bindings.wheels import cache_folder
from trtbench.convert.build import build_spec, run_build
from trtbench.core.codec import value_from_json
from trtbench.core.errors import InputError, TrtbenchError
from trtbench.core.results import Artefact
from trtbench.core.spec import BuildSpec
from trtbench.models.identity import sha256_of
from trtbench.requests.execution import Event, Execution
from trtbench.requests.measure import CompareRequest
from trtbench.requests.models import BuildRequest
from trtbench.requests.settings import Config, load_config
from trtbench.store.store import Store
from trtbench.trtexec.version import plan_from_bytes
from trtbench.workflows.builds import UNPAIRED, Builds
from typed_models import quantized, typed

pytestmark = [pytest.mark.xdist_group("rtx"), pytest.mark.usefixtures("tensorrt_rtx")]

BATCHES = {
    "shapes_min": {"image": (1, 3, 16, 16)},
    "shapes_opt": {"image": (4, 3, 16, 16)},
    "shapes_max": {"image": (8, 3, 16, 16)},
}


def spec_for(model: Path, **changes: Any) -> BuildSpec:
    changes.setdefault("runtime", "tensorrt-rtx")
    changes.setdefault("output", model.with_suffix(".engine"))
    return build_spec(BuildRequest(model=model, **changes), load_config())


def built(model: Path, events: list[Event] | None = None, **changes: Any) -> Artefact:
    heard = events if events is not None else []
    execution = Execution(listen=heard.append)
    return run_build(spec_for(model, **changes), execution=execution)


def refused(model: Path, **changes: Any) -> TrtbenchError:
    with pytest.raises(TrtbenchError) as caught:
        built(model, **changes)
    assert not model.with_suffix(".engine").exists()
    return caught.value


def conv(tmp_path: Path, **changes: Any) -> Path:
    return models.conv_model(tmp_path / "net.onnx", **changes)


def test_an_engine_with_everything_beside_it(tmp_path: Path) -> None:
    model = conv(tmp_path)
    events: list[Event] = []
    artefact = built(model, events, **BATCHES)
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
    tmp_path: Path, name: str, make: Any, targets: tuple[str, ...]
) -> None:
    artefact = built(make(tmp_path / "net.onnx"), target=targets)
    assert artefact.conditions["precision"].value == name
    assert artefact.conditions["typing"].value == "strong"
    assert artefact.notes == ()
    with open(tmp_path / "net.engine", "rb") as file:
        header = plan_from_bytes(file.read(64), where="engine")
    wanted = [f"{target[3:-1]}.{target[-1]}" for target in targets]
    assert list(header.compute_capabilities) == wanted


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_precision_casts_a_plain_model_first(tmp_path: Path, precision: str) -> None:
    artefact = built(conv(tmp_path), precision=precision, **BATCHES)
    assert artefact.conditions["precision"].value == precision
    assert any(note.startswith(f"cast the model to {precision}") for note in artefact.notes)
    made = onnx.load(tmp_path / f"net.engine.{precision}.onnx")
    wanted = TensorProto.FLOAT16 if precision == "fp16" else TensorProto.BFLOAT16
    assert wanted in {tensor.data_type for tensor in made.graph.initializer}
    assert artefact.facts["inputs"] == "image float32 ?x3x16x16"
    plain = built(models.conv_model(tmp_path / "plain.onnx"), **BATCHES)
    assert artefact.facts["weights_bytes"] != plain.facts["weights_bytes"]


def test_int8_quantizes_a_plain_model_first(tmp_path: Path) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, image=np.random.default_rng(0).random((16, 3, 16, 16), dtype=np.float32))
    artefact = built(conv(tmp_path), precision="int8", data=str(data), **BATCHES)
    assert artefact.conditions["precision"].value == "int8"
    made = onnx.load(tmp_path / "net.engine.int8.onnx")
    assert "QuantizeLinear" in {node.op_type for node in made.graph.node}
    assert any(note.startswith("quantize the model to int8") for note in artefact.notes)


def test_a_node_that_cannot_be_parsed_is_named(tmp_path: Path) -> None:
    model = models.unsupported_operator_model(tmp_path / "net.onnx")
    error = refused(model)
    assert isinstance(error, InputError)
    assert error.facts["operator"] == "Unheard"
    assert error.facts["node"] == "number 0, 'strange'"
    assert "-r tensorrt with --plugin" in (error.fix or "")  # TensorRT-RTX takes no plugins
    log = Path(error.facts["log"])
    assert log == model.with_name("net.engine.build.log")
    assert "Unheard" in log.read_text()


OLDER = "1.6.1.120"  # in an interpreter of its own, kept in the cache (300 MB)


def older_python() -> str:
    """Make an interpreter that has an older TensorRT-RTX."""
    folder = cache_folder() / f"rtx-{OLDER}-py{sys.version_info[0]}{sys.version_info[1]}"
    if not (folder / "whole").is_file():
        venv.create(folder, with_pip=False, clear=True)
        [packages] = folder.glob("lib/python3*/site-packages")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--retries", "1", "--target"]
        command += [str(packages), f"tensorrt-rtx-cu13=={OLDER}", "numpy", "msgspec"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"TensorRT-RTX {OLDER} could not be fetched: {done.stderr[-300:]}")
        (folder / "whole").touch()
    return str(folder / "bin" / "python")


def compared(request: CompareRequest, store: Store) -> Any:
    config = Config(store=str(store.root))
    return Builds(request=request, store=store, config=config, execution=Execution()).compare()


def test_two_versions_stand_side_by_side(tmp_path: Path) -> None:
    """Each in its interpreter: builds, bytes and layers of both, and why nothing was run."""
    store = Store(tmp_path / "store")
    request = CompareRequest(
        models.conv_model(tmp_path / "net.onnx", batch=1), builds=2, build={"target": "sm_86"},
        python=[older_python(), sys.executable], output=tmp_path / "out",
    )  # fmt: skip
    (found,) = compared(request, store)
    old, new = found.baseline, found.candidate
    assert old.builder == f"tensorrt-rtx {OLDER}"
    assert new.builder.startswith("tensorrt-rtx ")
    assert new.builder != old.builder
    assert [each.aspect("bytes").same for each in (old, new)] == [True, True]
    assert old.draws[0].sha256 != new.draws[0].sha256
    assert found.mode == UNPAIRED
    verdict = found.comparison.verdicts[0]
    if verdict.kind == "incomparable":
        assert "the engines were not measured: CUDA" in verdict.reason


def test_networks_are_built_in_pairs_without_a_timing_cache(tmp_path: Path) -> None:
    """A builder that times no kernels has none to share, and is not told of any."""
    store = Store(tmp_path / "store")
    model = models.conv_model(tmp_path / "net.onnx", batch=1)
    request = CompareRequest(
        baseline=model, candidates=[model], builds=2, runtime=("tensorrt-rtx",),
        python=(sys.executable,), output=tmp_path / "out",
        build={"target": "sm_86"},
    )  # fmt: skip
    (found,) = compared(request, store)
    assert [len(each.draws) for each in (found.baseline, found.candidate)] == [2, 2]
    assert found.mode == UNPAIRED
