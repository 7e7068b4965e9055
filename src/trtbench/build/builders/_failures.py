"""Why an engine was not built, in words a user can act on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from trtbench.domain.spec import BuildSpec
from trtbench.errors import InputError, JobError, TrtbenchError
from trtbench.host.tensorrt import Abilities
from trtbench.host.tensorrt_listen import Heard
from trtbench.host.tensorrt_network import ParserProblem
from trtbench.models.onnx_outline import ModelOutline

PARSER_HINTS = (
    (
        r"plugin not found|no importer registered|unsupported operator|not supported yet",
        "an operator this parser does not know: {plugin}, a newer version, or export the model "
        "without it",
    ),
    (
        r"non-zero zero point|zero.?point.*not supported",
        "quantize symmetrically: trtbench quantize {model} --precision int8 --calibration DATA",
    ),
    (
        r"dequantizelinear.*int32|int32.*dequantizelinear",
        "quantize without biases: trtbench quantize {model} --precision int8 --calibration DATA",
    ),
    (
        r"external|weights? file|could not (?:open|find) file",
        "keep the files of an export together",
    ),
    (r"deserialize|parse the onnx|protobuf", "export the model again; the file is damaged"),
    (
        r"static|dynamic|shape|dims|dimension|rank",
        "fix the shapes when exporting, or simplify the model (onnxsim) so that they are known",
    ),
)
"""What to try, by what the parser says; the first that fits."""

BUILD_HINTS = (
    (
        r"symboladdress for (?:cublas|cudnn)|(?:cublas|cudnn)\S* could not be loaded",
        "install cuBLAS and cuDNN as this TensorRT names them, or do without their kernels: "
        "--opt tactic_sources=none",
    ),
    (
        r"workspace|insufficient memory|no tactics|any implementation for node|out.?of.?memory",
        "give more scratch memory (--workspace 4GiB), or leave --workspace out",
    ),
    (
        r"hw-specific datatypes",
        "leave out the targets that lack the type: bf16 needs sm_80, fp8 needs sm_89",
    ),
    (r"fp32 gemm is not supported", "--target sm_80 or newer, or --precision fp16"),
    (r"optimization profile", "--shape-min, --shape-opt and --shape-max for every dynamic input"),
    (r"cudaerror 35|driver version is insufficient", "build where an NVIDIA driver is installed"),
)


def parser_error(
    problems: Sequence[ParserProblem],
    *,
    spec: BuildSpec,
    outline: ModelOutline,
    abilities: Abilities,
    warnings: Sequence[str],
) -> InputError:
    """Name the node, its operator and what to try; a too new opset is the likeliest cause."""
    first = problems[0]
    node = outline.node(first.index) if first.index >= 0 else None
    operator = first.operator or (node.operator if node else "")
    name = first.node or (node.name if node else "") or (node.outputs[0] if node else "")
    facts: dict[str, object] = {"model": spec.model.name}
    if operator:
        facts["node"] = f"number {first.index}, {name!r}" if name else f"number {first.index}"
        facts["operator"] = operator
    facts["reason"] = _plain(first.text)
    if len(problems) > 1:
        facts["further"] = f"{len(problems) - 1} more, see the log"
    facts["parser"] = abilities.title
    what = f"the operator {operator}" if operator else "the model"
    plugin = "--plugin LIB that has it"
    hint = _hint(
        PARSER_HINTS,
        first.text,
        model=spec.model.path,
        plugin=f"-r tensorrt with {plugin}" if abilities.targets else plugin,
    )
    return InputError(
        f"{abilities.title} cannot parse {what}",
        facts=facts,
        fix=next(iter(warnings), None) or hint or "look into the log with --verbose",
    )


def too_new(outline: ModelOutline, *, abilities: Abilities) -> tuple[str, ...]:
    """Say before building what is newer in the model than the parser documents."""
    said = []
    opset, limit = outline.opset, abilities.max_opset
    if opset is not None and limit is not None and opset > limit:
        said.append(
            f"the model has opset {opset}, and {abilities.title} documents up to {limit}: "
            f"export it with --opset {limit}"
        )
    ir_limit = abilities.max_ir
    if ir_limit is not None and outline.ir_version > ir_limit:
        said.append(
            f"the model has ONNX IR {outline.ir_version}, and the parser of {abilities.title} "
            f"was made for {ir_limit}: export it for that version"
        )
    return tuple(said)


def build_error(heard: Heard, *, spec: BuildSpec, abilities: Abilities) -> TrtbenchError:
    """Say why nothing came out of the builder."""
    cause = heard.cause() or "it gave no reason"
    text = _plain(cause)
    return JobError(
        f"{abilities.title} did not build the engine: {_short(text)}",
        facts={"model": spec.model.name, "reason": text},
        fix=_hint(BUILD_HINTS, cause, model=spec.model.path),
    )


def _hint(
    table: Sequence[tuple[str, str]], text: str, *, model: str, plugin: str = ""
) -> str | None:
    low = text.lower()
    found = next((hint for pattern, hint in table if re.search(pattern, low)), None)
    return found.format(model=shlex.quote(model), plugin=plugin) if found else None


def _plain(text: str) -> str:
    """Make one line, without the place in TensorRT's own source."""
    line = " ".join(text.split())
    return re.sub(r"\s*\(?In \S+ at \S+:\d+\)?|\s*\[\S+\.cpp::\S+::\d+\]", "", line).strip()


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
