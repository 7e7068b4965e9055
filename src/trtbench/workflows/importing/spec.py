"""What a run was asked to do, as far as its files tell: model, batch, settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from trtbench.domain.labels import batch_that_ran
from trtbench.domain.result import Fact
from trtbench.domain.spec import (
    Length,
    ModelFormat,
    ModelRef,
    Precision,
    Protocol,
    RunSpec,
    TensorSpec,
    Warmup,
)
from trtbench.formats.toolkit_files import EngineMetadata
from trtbench.models.identity import SUFFIXES, model_ref
from trtbench.trtexec.log import LogRun
from trtbench.trtexec.metadata import number
from trtbench.workflows.importing.agreement import warmup_ms_of
from trtbench.workflows.importing.find import plain
from trtbench.workflows.importing.match import Draft

_MODEL_FLAGS = ("--loadEngine", "--onnx", "--deploy", "--model", "--uff", "--saveEngine")
_MODEL_OPTIONS = ("Load engine", "Model", "Prototxt", "Uff", "loadEngine", "onnx", "deploy", "uff")
_PRECISIONS: tuple[Precision, ...] = ("fp8", "int8", "bf16", "fp16", "fp32")
"""The narrowest that was allowed names the run, as the flags do."""
_DECIDING = (
    "--sleepTime", "--threads", "--useManagedMemory", "--useDLACore", "--loadInputs",
    "--useRuntime", "--weightStreamingBudget", "--allocationStrategy", "--persistentCacheRatio",
)  # fmt: skip
"""Arguments that decide what is timed and that no condition tells."""
_SECONDS = re.compile(r"\s*([\d.]+)\s*s\b")
_SHAPE = re.compile(r"([^=,]+?)[=:](\d+(?:x\d+)*)(?:,|\Z)")


def spec_from_told(
    draft: Draft,
    told: LogRun,
    conditions: Mapping[str, Fact],
    *,
    engine: ModelRef | None = None,
    warmup_s: float | None = None,
) -> RunSpec:
    """Describe what was asked for; what nobody told takes no value or the plainest one."""
    torch = draft.of_torch
    warmup_ms = warmup_ms_of(told)
    floor = warmup_s if warmup_s is not None else (warmup_ms / 1e3 if warmup_ms else None)
    profiled = "profile" in draft.parts or (told.option("Profile") or "").startswith("Enabled")
    return RunSpec(
        model=engine or model_of(draft, told),
        runtime="torch" if torch else "trtexec",
        shapes=_shapes(told),
        batch=_integer(conditions["batch"].value),
        warmup=Warmup(floor=Length(seconds=floor), until_steady=False),
        stop=Length(seconds=_duration(told), iterations=_integer(told.option("Iterations"))),
        protocol=_protocol(conditions),
        streams=_integer(conditions["streams"].value) or 1,
        cuda_graph="on" if conditions["cuda_graph"].value is True else "off",
        transfers=conditions["transfers"].value is not False,
        spin_wait=conditions["spin_wait"].value is True,
        profile=profiled,
        separate_profile_run=_separate(told),
        precision=_precision(conditions["precision"]),
        options=_options(draft, told),
        extra_args=tuple(word for word in told.arguments if word.startswith(_DECIDING)),
    )


def model_of(draft: Draft, told: LogRun) -> ModelRef:
    """Name what was run: the engine, else the model it was built from; it need not be here."""
    for slot in ("plan", "onnx"):
        part = draft.parts.get(slot)
        if part is not None:
            return model_ref(part.file.path)
    if "engine_metadata" in draft.parts:
        return _model_from_metadata(draft.parts["engine_metadata"].value)
    path = _model_path(draft, told)
    return ModelRef(path=path, format="torch" if draft.of_torch else _format(path))


def engine_path(told: LogRun) -> str | None:
    """Write the engine that a log names, loaded or saved; a run of an ONNX file has one too."""
    given = dict(word.split("=", 1) for word in told.arguments if "=" in word)
    words = [given.get(flag) for flag in ("--loadEngine", "--saveEngine")]
    words += [told.option(label) for label in ("Load engine", "Save engine")]
    return next((word for word in words if word and "$" not in word), None)


def batch_of(
    draft: Draft,
    told: Fact,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    *,
    asked: int | None,
) -> Fact:
    """Settle the items per query: the user's word, the log's, the shapes', then the record's.

    A log says 1 of every engine with explicit batch, so its 1 counts only when nothing says more.
    """
    if asked is not None:
        return Fact(value=asked)
    if told.value not in (None, 1):
        return told
    taken, given = ([tensor.shape for tensor in side] for side in (inputs, outputs))
    size = batch_that_ran(taken, asked=None, told=None, outputs=given)
    if size is not None:
        return Fact(value=size, source="implied")
    recorded = recorded_batch(draft)
    return told if recorded is None else Fact(value=recorded)


def recorded_batch(draft: Draft) -> int | None:
    """Compute the batch that the trtexec evaluation toolkit recorded, in any of its files."""
    for slot in ("run_config", "summary", "report", "summary_csv", "torch"):
        part = draft.parts.get(slot)
        value: int | None = part.value.batch if part else None
        if value is not None and value >= 1:
            return value
    return None


def _model_from_metadata(engine: EngineMetadata) -> ModelRef:
    path = engine.path or engine.filename or "unknown"
    return ModelRef(
        path=path,
        format=_format(path),
        sha256=engine.sha256,
        size_bytes=engine.size_bytes,
        modified=engine.modified_iso,
    )


def _model_path(draft: Draft, told: LogRun) -> str:
    if "torch" in draft.parts:
        return str(draft.parts["torch"].value.model_path or "unknown")
    given = dict(word.split("=", 1) for word in told.arguments if "=" in word)
    words = [given.get(flag) for flag in _MODEL_FLAGS]
    words = [None if word and "$" in word else word for word in words]  # a variable of a shell
    words += [told.option(label) for label in _MODEL_OPTIONS]
    found = next((word for word in words if word), None)
    for slot in ("summary", "report", "summary_csv"):
        engine: EngineMetadata | None = (
            draft.parts[slot].value.engine if slot in draft.parts else None
        )
        found = found or (engine.path or engine.filename if engine else None)
    name = draft.key or plain(draft.folder.absolute().name) or "unknown"
    if found is None and told.title is not None and draft.parts["log"].of > 1:
        return f"{name}: {told.title}"  # several texts of one file are seldom of one network
    return str(found or name)


def _format(path: str) -> ModelFormat:
    ending = "." + path.rsplit(".", 1)[-1].lower() if "." in path else ""
    return SUFFIXES.get(ending, "unknown")


def _shapes(told: LogRun) -> dict[str, tuple[int, ...]]:
    """Read ``--shapes=a:1x3,b:2x4`` as it was given."""
    given = dict(word.split("=", 1) for word in told.arguments if "=" in word)
    text = given.get("--shapes", "").replace("'", "").replace('"', "")
    return {m[1]: tuple(int(d) for d in m[2].split("x")) for m in _SHAPE.finditer(text)}


def _duration(told: LogRun) -> float | None:
    match = _SECONDS.match(told.option("Duration") or "")
    return number(match[1]) if match else None


def _protocol(conditions: Mapping[str, Fact]) -> Protocol:
    """Tell what is known; trtexec keeps two queries in flight unless something says otherwise."""
    value = conditions["protocol"].value
    return cast(Protocol, value) if value in ("serve", "gpu") else "pipeline"


def _separate(told: LogRun) -> bool:
    printed = told.option("Separate profiling")
    if printed is not None:
        return printed.startswith("Enabled")
    return told.command is None or "--separateProfileRun" in told.arguments


def _precision(fact: Fact) -> Precision | None:
    words = re.split(r"[+,\s]+", str(fact.value).lower()) if fact.value else []
    return next((name for name in _PRECISIONS if name in words), None)


def _options(draft: Draft, told: LogRun) -> dict[str, str]:
    options = {}
    averages = (told.option("Averages") or "").split(" ")[0]
    if averages.isdecimal():
        options["avg_runs"] = averages
    config = draft.parts.get("run_config")
    binary = config.value.trtexec_binary if config else None
    binary = binary or (told.arguments[0] if told.arguments else None)
    if binary:
        options["binary"] = str(binary)
    return options


def _integer(value: object) -> int | None:
    found = number(value)
    return int(found) if found is not None and abs(found) < 1e15 else None
