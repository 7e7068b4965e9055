"""What the runtime ``torch`` makes of a request before PyTorch is loaded: needs no PyTorch."""

import sys
from pathlib import Path
from typing import Any

import pytest

from trtbench.core.errors import UnavailableError, UsageError
from trtbench.core.spec import ModelRef, RunSpec, TensorSpec
from trtbench.models.torch_models import LoadedModel, import_torch, is_library_model
from trtbench.runtimes import torch as runtime


def spec(**changes: Any) -> RunSpec:
    options = changes.pop("options", {})
    given = {"model": ModelRef(path="net.pt", format="torch"), "runtime": "torch", "device": "cpu"}
    return RunSpec(**{**given, "options": options, **changes})


def loaded(*inputs: tuple[str, str, tuple[Any, ...]], suggested: bool = False) -> LoadedModel:
    tensors = tuple(TensorSpec(name=n, dtype=d, shape=s) for n, d, s in inputs)
    return LoadedModel(module=None, kind="module", inputs=tensors, suggested=suggested)


@pytest.mark.parametrize(
    ("changes", "message", "fix"),
    [
        ({"options": {"compil": "default"}}, "no option 'compil'", "--opt compile=default"),
        ({"options": {"zzzz": "1"}}, "no option 'zzzz'", None),
        ({"options": {"compile": "fast"}}, "compile must be one of default", None),
        ({"options": {"half": "maybe"}}, "half", None),
        (
            {"options": {"half": "on"}, "precision": "fp16"},
            "cannot be combined",
            "leave out --precision",
        ),
        ({"precision": "int8"}, "not int8", "--precision fp16"),
        ({"streams": 2}, "one query at a time", "--protocol"),
        ({"protocol": "pipeline"}, "one query at a time", "--protocol"),
        ({"protocol": "gpu"}, "the CPU has no transfers", "--protocol serve"),
        ({"cuda_graph": "on"}, "no CUDA graph", "--cuda-graph"),
        ({"precision": "tf32"}, "TF32 needs a GPU", "bf16"),
        ({"options": {"tf32": "on"}}, "TF32 needs a GPU", "bf16"),
        ({"options": {"waiting": "eager"}}, "waiting must be one of passive", None),
    ],
)
def test_what_means_nothing_is_refused_before_anything_is_loaded(
    changes: dict[str, Any], message: str, fix: str | None
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        runtime.open_session(spec(**changes))
    assert fix is None or fix in (caught.value.fix or "")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"compile": None, "half": False, "autocast": None, "tf32": False}),
        ({"precision": "bf16"}, {"autocast": "bfloat16", "tf32": False}),
        ({"precision": "fp16", "device": "cuda:0"}, {"autocast": "float16"}),
        ({"precision": "tf32", "device": "cuda:0"}, {"autocast": None, "tf32": True}),
        (
            {"options": {"compile": "max-autotune", "channels_last": "on", "half": "on"}},
            {"compile": "max-autotune", "channels_last": True, "half": True},
        ),
        ({"options": {"cudnn_benchmark": "off"}}, {"cudnn_benchmark": False}),
    ],
)
def test_options_become_settings(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    found = runtime.TorchSettings.of(spec(**changes))
    assert {name: getattr(found, name) for name in expected} == expected


def test_shapes_come_from_the_user_then_from_the_model() -> None:
    model = loaded(("images", "float32", ("batch", 3, 224, 224)), suggested=True)
    (own,) = runtime.inputs_of(model, spec())
    assert own.shape == ("batch", 3, 224, 224)
    (given,) = runtime.inputs_of(model, spec(shapes={"images": (2, 3, 64, 64)}))
    assert given.shape == (2, 3, 64, 64)
    (small,) = runtime.inputs_of(model, spec(options={"imgsz": "32", "channels": "1"}))
    assert small.shape == ("batch", 1, 32, 32)
    (wide,) = runtime.inputs_of(model, spec(options={"channels": "4"}))
    assert wide.shape == ("batch", 4, 224, 224)


def test_a_program_takes_its_own_shape_and_no_other() -> None:
    program = loaded(("x", "float32", (2, 3, 16, 16)))
    (kept,) = runtime.inputs_of(program, spec(shapes={"x": (8, 3, 16, 16)}))
    assert kept.shape == (2, 3, 16, 16)
    with pytest.raises(UsageError, match="accepts only images of 3x16x16") as caught:
        runtime.inputs_of(program, spec(options={"imgsz": "32"}))
    assert caught.value.facts["requested"] == "3x32x32"
    (same,) = runtime.inputs_of(program, spec(options={"imgsz": "16"}))
    assert same.shape == (2, 3, 16, 16)


@pytest.mark.parametrize(
    ("tensor", "changes", "message"),
    [
        (("x", "float32", ()), {}, "are not known"),
        (("ids", "int64", (1, 128)), {"options": {"imgsz": "32"}}, "'ids' is not an image"),
        (("x", "float32", ()), {"options": {"channels": "3"}}, "channels needs --opt imgsz"),
        (("x", "float32", ()), {"options": {"imgsz": "0"}}, "imgsz must be an integer"),
        (
            ("x", "float32", ()),
            {"options": {"imgsz": "32"}, "shapes": {"x": (1, 3, 8, 8)}},
            "cannot be combined",
        ),
    ],
)
def test_shapes_that_nothing_tells_are_asked_for(
    tensor: tuple[Any, ...], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        runtime.inputs_of(loaded(tensor), spec(**changes))
    assert "224x224" not in (caught.value.fix or "")


def test_types_follow_the_user_and_half_weights() -> None:
    model = loaded(("ids", "int64", (1, 8)), ("scale", "float32", (1,)))
    assert [t.dtype for t in runtime.inputs_of(model, spec())] == ["int64", "float32"]
    half = runtime.inputs_of(model, spec(options={"half": "on"}))
    assert [t.dtype for t in half] == ["int64", "float16"]
    named = runtime.inputs_of(model, spec(options={"dtypes": "int32,float64"}))
    assert [t.dtype for t in named] == ["int32", "float64"]
    one = runtime.inputs_of(model, spec(options={"dtypes": "int32"}))
    assert [t.dtype for t in one] == ["int32", "int32"]
    unknown = runtime.inputs_of(model, spec(shapes={"other": (3,)}))
    assert (unknown[0].name, unknown[0].dtype) == ("other", "float32")


def test_models_of_libraries_are_told_from_files() -> None:
    assert is_library_model("torchvision:resnet18")
    assert is_library_model("timm:vit_base_patch16_224.augreg")
    assert not is_library_model("models/torchvision.pt")
    assert not is_library_model("C:net.pt")


@pytest.mark.parametrize(
    ("changes", "together", "waits"),
    [
        ({}, False, True),
        ({}, True, False),  # one pool for all of a process
        ({"threads": 1}, False, False),
        ({"device": "cuda:0"}, False, False),
        ({"options": {"waiting": "passive"}}, False, True),
    ],
)
def test_idle_threads_rest_while_another_process_has_its_turn(
    changes: dict[str, Any], together: bool, waits: bool
) -> None:
    own = spec(**changes)
    settled = runtime.turn_spec(own, [own] if together else [])
    assert (settled.spec.options.get("waiting") == "passive") is waits
    assert settled.like_alone


def test_bursts_need_a_gpu_and_a_graph() -> None:
    assert runtime.bursts(spec(device="cuda:1", cuda_graph="auto"))
    assert not runtime.bursts(spec(device="cuda:1", cuda_graph="off"))
    assert not runtime.bursts(spec(cuda_graph="auto"))
    assert runtime.device(spec(device=None)) == "cuda:0"


def test_a_pytorch_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('undefined symbol')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(UnavailableError, match="cannot be imported") as caught:
        import_torch()
    assert set(caught.value.facts) == {"interpreter", "reason"}
    assert "--python PATH" in (caught.value.fix or "")
