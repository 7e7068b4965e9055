"""One vocabulary of precisions: what each version has to do for it, and what it refuses."""

from collections.abc import Sequence
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
EVERY, WEAK, STRONG, NEW = (OLD, TEN, ELEVEN, RTX), (OLD, TEN), (ELEVEN, RTX), (TEN, ELEVEN, RTX)


def plan(precision: Any, abilities: Abilities, **changes: Any) -> PrecisionPlan:
    spec = BuildSpec(
        model=ModelRef(path="net.onnx", format="onnx"), output="net.engine", runtime="tensorrt",
        precision=precision,
        options={"typing": changes.pop("typing")} if "typing" in changes else {},
        calibration_cache="scales.cache" if changes.pop("scales", False) else None,
        calibration="data.npz" if changes.pop("data", False) else None,
    )  # fmt: skip
    return precision_plan(spec, frozenset(changes.get("carried", ())), abilities=abilities)


@pytest.mark.parametrize(
    ("precision", "versions", "given", "typing", "built", "flags", "step"),
    [
        (None, WEAK, {}, "weak", "fp32", "", None),
        (None, STRONG, {}, "strong", "fp32", "", None),
        ("fp32", WEAK, {}, "weak", "fp32", "", None),
        ("tf32", WEAK, {}, "weak", "tf32", "", None),
        ("tf32", STRONG, {}, "strong", "tf32", "", None),
        ("fp16", WEAK, {}, "weak", "fp16+fp32", "FP16", None),
        ("bf16", [TEN], {}, "weak", "bf16+fp32", "BF16", None),
        ("fp16", STRONG, {}, "strong", "fp16", "", "cast the model to fp16: "),
        ("bf16", STRONG, {}, "strong", "bf16", "", "cast the model to bf16: "),
        ("fp16", [TEN], {"typing": "strong"}, "strong", "fp16", "", "cast "),
        (None, [TEN], {"carried": {"fp16"}}, "strong", "fp16", "", None),
        (None, [OLD], {"carried": {"fp16"}}, "weak", "fp16+fp32", "FP16", None),
        (None, [OLD], {"carried": {"int8"}}, "weak", "int8+fp32", "INT8", None),
        ("fp16", WEAK, {"carried": {"int8"}}, "weak", "int8+fp16+fp32", "INT8 FP16", None),
        (
            "best",
            [TEN],
            {"carried": {"int8"}},
            "weak",
            "int8+fp16+bf16+fp32",
            "INT8 FP16 BF16",
            None,
        ),
        ("int8", WEAK, {"scales": True}, "weak", "int8+fp32", "INT8", None),
        ("int8", STRONG, {"data": True}, "strong", "int8", "", "quantize "),
        ("fp8", NEW, {"carried": {"fp8"}}, "strong", "fp8", "", None),
        ("best", [OLD], {}, "weak", "fp16+fp32", "FP16", None),
        ("best", [TEN], {}, "weak", "fp16+bf16+fp32", "FP16 BF16", None),
        ("best", [TEN], {"scales": True}, "weak", "int8+fp16+bf16+fp32", "INT8 FP16 BF16", None),
    ],
)
def test_how_each_version_builds_a_precision(
    precision: Any, versions: Sequence[Abilities], given: dict[str, Any], typing: str, built: str,
    flags: str, step: str | None,
) -> None:  # fmt: skip
    for abilities in versions:
        made = plan(precision, abilities, **given)
        assert (made.typing, made.precision, made.flags) == (typing, built, tuple(flags.split()))
        assert made.tf32 is (built != "fp32"), "FP32 is without TF32 unless it is asked for"
        assert made.calibrate is ("INT8" in flags and "carried" not in given)
        assert (made.step or "").startswith(step) if step else made.step is None


@pytest.mark.parametrize(
    ("precision", "versions", "given", "said"),
    [
        ("fp16", [OLD], {"typing": "strong"}, "cannot be held to the types"),
        ("fp32", EVERY, {"carried": {"fp16"}}, "carries fp16"),
        ("fp16", STRONG, {"carried": {"int8"}}, "carries int8"),
        ("fp16", [TEN], {"carried": {"int8"}, "typing": "strong"}, "carries int8"),
        ("bf16", EVERY, {"carried": {"fp16"}}, "carries fp16"),
        ("int8", WEAK, {}, "needs scales"),
        ("int8", STRONG, {}, "trtbench quantize net.onnx --precision int8"),
        ("bf16", [OLD], {}, "cannot build bf16"),
        ("fp8", NEW, {"data": True}, "FP8 is built from"),
        ("fp8", NEW, {"data": True}, "trtbench quantize net.onnx --precision fp8"),
        ("fp8", [OLD], {}, "TensorRT 8.6.1 cannot build fp8"),
        (None, [OLD], {"carried": {"fp8"}}, "cannot build fp8"),
        ("best", STRONG, {}, "'best' means nothing"),
        ("fp32", EVERY, {"scales": True}, "calibration would have no effect"),
        (None, EVERY, {"scales": True, "carried": {"int8"}}, "calibration would have no effect"),
    ],
)
def test_what_a_version_cannot_build_is_never_something_else(
    precision: Any, versions: Sequence[Abilities], given: dict[str, Any], said: str
) -> None:
    for abilities in versions:
        with pytest.raises(UsageError) as caught:
            plan(precision, abilities, **given)
        assert said in f"{caught.value.message} {caught.value.fix}"


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
