"""One vocabulary of precisions: what each version has to do for it, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

import models
from trtbench.convert.builders._precision import PrecisionPlan, opset_warnings, precision_plan
from trtbench.core.errors import InputError, UsageError
from trtbench.core.spec import BuildSpec, ModelRef
from trtbench.host.tensorrt import Abilities, abilities_of_version
from trtbench.models.onnx_outline import outline_of
from typed_models import quantized, typed

OLD, TEN, ELEVEN = (
    abilities_of_version(version, flavour="tensorrt") for version in ("8.6.1", "10.9.0", "11.4.0")
)
RTX = abilities_of_version("1.7.1", flavour="tensorrt_rtx")
EVERY = pytest.mark.parametrize("abilities", [OLD, TEN, ELEVEN, RTX], ids=lambda each: each.title)
WEAK = pytest.mark.parametrize("abilities", [OLD, TEN], ids=lambda each: each.title)
STRONG = pytest.mark.parametrize("abilities", [ELEVEN, RTX], ids=lambda each: each.title)


def plan(precision: Any, abilities: Abilities, **changes: Any) -> PrecisionPlan:
    spec = BuildSpec(
        model=ModelRef(path="net.onnx", format="onnx"), output="net.engine", runtime="tensorrt",
        precision=precision,
        options={"typing": changes.pop("typing")} if "typing" in changes else {},
        calibration_cache="scales.cache" if changes.pop("scales", False) else None,
        calibration="data.npz" if changes.pop("data", False) else None,
    )  # fmt: skip
    return precision_plan(spec, frozenset(changes.get("carried", ())), abilities=abilities)


@EVERY
def test_fp32_is_without_tf32_and_tf32_is_with_it(abilities: Abilities) -> None:
    for precision, tf32 in ((None, False), ("fp32", False), ("tf32", True)):
        made = plan(precision, abilities)
        assert made.tf32 is tf32
        assert made.flags == ()
        assert made.step is None
        assert made.precision == (precision or "fp32")


@WEAK
def test_a_weak_builder_is_allowed_fp16_and_the_record_says_weak(abilities: Abilities) -> None:
    made = plan("fp16", abilities)
    assert made.flags == ("FP16",)
    assert made.typing == "weak"
    assert made.precision == "fp16+fp32"
    assert made.step is None


@STRONG
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_strong_builder_casts_first(abilities: Abilities, precision: Any) -> None:
    made = plan(precision, abilities)
    assert made.typing == "strong"
    assert made.flags == ()
    assert made.step is not None
    assert made.step.startswith(f"cast the model to {precision}: ")
    assert made.precision == precision


def test_10_can_be_held_to_the_types_and_8_cannot() -> None:
    made = plan("fp16", TEN, typing="strong")
    assert made.typing == "strong"
    assert made.step is not None
    assert made.step.startswith("cast ")
    with pytest.raises(UsageError, match="cannot be held to the types"):
        plan("fp16", OLD, typing="strong")


def test_a_typed_model_is_held_to_its_types_where_that_exists() -> None:
    assert plan(None, TEN, carried={"fp16"}).typing == "strong"
    assert plan(None, TEN, carried={"fp16"}).flags == ()
    made = plan(None, OLD, carried={"fp16"})
    assert made.typing == "weak"
    assert made.flags == ("FP16",)
    assert plan(None, OLD, carried={"int8"}).flags == ("INT8",)
    assert plan(None, OLD, carried={"int8"}).calibrate is False


@EVERY
def test_a_typed_model_is_never_built_in_another_precision(abilities: Abilities) -> None:
    for precision, carried in (("fp32", "fp16"), ("fp16", "int8"), ("bf16", "fp16")):
        with pytest.raises(UsageError, match=f"carries {carried}"):
            plan(precision, abilities, carried={carried})


@WEAK
def test_int8_calibrates_where_there_are_calibrators(abilities: Abilities) -> None:
    made = plan("int8", abilities, scales=True)
    assert made.calibrate
    assert made.flags == ("INT8",)
    with pytest.raises(UsageError, match="needs scales"):
        plan("int8", abilities)


@STRONG
def test_int8_quantizes_where_there_are_none(abilities: Abilities) -> None:
    made = plan("int8", abilities, scales=True)
    assert made.step is not None
    assert made.step.startswith("quantize ")
    assert not made.calibrate
    with pytest.raises(UsageError) as caught:
        plan("int8", abilities)
    assert "trtbench quantize net.onnx --precision int8" in (caught.value.fix or "")


def test_bf16_is_not_silently_something_else_on_8() -> None:
    with pytest.raises(UsageError, match="cannot build bf16"):
        plan("bf16", OLD)
    assert plan("bf16", TEN).flags == ("BF16",)


NEW = pytest.mark.parametrize("abilities", [TEN, ELEVEN, RTX], ids=lambda each: each.title)


@NEW
def test_fp8_is_built_from_a_model_that_carries_it(abilities: Abilities) -> None:
    made = plan("fp8", abilities, carried={"fp8"})
    assert (made.typing, made.precision, made.calibrate) == ("strong", "fp8", False)
    assert made.step is None
    with pytest.raises(UsageError, match="FP8 is built from") as caught:
        plan("fp8", abilities, data=True)
    assert "trtbench quantize net.onnx --precision fp8" in (caught.value.fix or "")


def test_fp8_is_not_for_8() -> None:
    with pytest.raises(UsageError, match=r"TensorRT 8.6.1 cannot build fp8"):
        plan("fp8", OLD)
    with pytest.raises(UsageError, match="cannot build fp8"):
        plan(None, OLD, carried={"fp8"})


def test_best_is_all_that_a_weak_builder_has_and_nothing_to_a_strong_one() -> None:
    assert plan("best", OLD).flags == ("FP16",)
    assert plan("best", TEN).flags == ("FP16", "BF16")
    assert plan("best", TEN, scales=True).flags == ("INT8", "FP16", "BF16")
    for abilities in (ELEVEN, RTX):
        with pytest.raises(UsageError, match="'best' means nothing"):
            plan("best", abilities)


@EVERY
def test_data_that_would_not_be_used_is_refused(abilities: Abilities) -> None:
    for precision, carried in (("fp32", ()), (None, ("int8",))):
        with pytest.raises(UsageError, match="calibration would have no effect"):
            plan(precision, abilities, scales=True, carried=carried)


def test_what_a_model_carries_is_read_from_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    assert outline_of(models.conv_model(path)).carried == set()
    assert outline_of(typed(path, TensorProto.FLOAT16)).carried == {"fp16"}
    assert outline_of(typed(path, TensorProto.BFLOAT16)).carried == {"bf16"}
    assert outline_of(quantized(path, TensorProto.INT8)).carried == {"int8"}
    assert outline_of(quantized(path, TensorProto.FLOAT8E4M3FN)).carried == {"fp8"}


def test_an_opset_that_is_too_new_is_reported(tmp_path: Path) -> None:
    outline = outline_of(typed(tmp_path / "net.onnx", TensorProto.FLOAT, opset=18))
    said = opset_warnings(outline, abilities=OLD)
    assert "opset 18" in said[0]
    assert "--opset 17" in said[0]
    assert opset_warnings(outline, abilities=TEN) == ()


@pytest.mark.parametrize("content", [b"\x00", b"\xff" * 64, b"no model at all", b"\x08\x08"])
def test_bytes_that_are_no_model_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a whole ONNX file"):
        outline_of(path)
