"""Variables of the environment that libraries obey though no flag shows it: part of what ran."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from trtbench.domain.labels import name_of, types_of
from trtbench.domain.result import Fact, RunRecord, known_value

VariablePlace = Literal["gpu", "cpu", "any"]


class Variable(NamedTuple):
    """What a variable does, where it is set."""

    pattern: str
    """Its name; ``*`` is any ending."""
    place: VariablePlace
    """Which runs it concerns."""
    decides: bool
    """Whether it changes what is computed or what a time means, not only how fast it is."""
    effect: str


NO_TF32 = "NVIDIA_TF32_OVERRIDE"
KNOWN = (
    Variable(NO_TF32, "gpu", True, "0 forbids TF32 to all libraries"),
    Variable("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "gpu", True, "1 allows TF32 in PyTorch"),
    Variable("ORT_TENSORRT_*", "gpu", True, "sets up ONNX Runtime's TensorRT"),
    Variable("__LUNOWUD", "gpu", True, "internal switches of TensorRT"),
    Variable("CUDA_LAUNCH_BLOCKING", "gpu", True, "1 makes every launch wait for its end"),
    Variable("CUDA_FORCE_PTX_JIT", "gpu", True, "1 compiles kernels instead of taking theirs"),
    Variable("CUDA_INJECTION64_PATH", "gpu", True, "a profiler is loaded with CUDA"),
    Variable("PYTORCH_NO_CUDA_MEMORY_CACHING", "gpu", True, "memory is allocated in each query"),
    Variable("PYTORCH_CUDA_ALLOC_CONF", "gpu", False, "how PyTorch keeps memory"),
    Variable("PYTORCH_ALLOC_CONF", "gpu", False, "how PyTorch keeps memory"),
    Variable("CUDA_DEVICE_MAX_CONNECTIONS", "gpu", False, "queues between host and GPU"),
    Variable("CUBLAS*", "gpu", False, "settings of cuBLAS"),
    Variable("CUDNN_*", "gpu", False, "settings of cuDNN"),
    Variable("TORCH_CUDNN_*", "gpu", False, "settings of cuDNN"),
    Variable("TORCHDYNAMO_DISABLE", "any", True, "1 leaves torch.compile out"),
    Variable("TORCH_COMPILE_DISABLE", "any", True, "1 leaves torch.compile out"),
    Variable("TORCHINDUCTOR_*", "any", False, "settings of torch.compile"),
    Variable("PYTORCH_JIT*", "any", False, "settings of TorchScript"),
    Variable("ONEDNN_DEFAULT_FPMATH_MODE", "cpu", True, "FP32 may be computed in a lower type"),
    Variable("DNNL_DEFAULT_FPMATH_MODE", "cpu", True, "FP32 may be computed in a lower type"),
    Variable("ONEDNN_MAX_CPU_ISA", "cpu", True, "instructions that may be used"),
    Variable("DNNL_MAX_CPU_ISA", "cpu", True, "instructions that may be used"),
    Variable("ATEN_CPU_CAPABILITY", "cpu", True, "instructions that may be used"),
    Variable("MKL_ENABLE_INSTRUCTIONS", "cpu", True, "instructions that may be used"),
    Variable("ONEDNN_*", "cpu", False, "settings of oneDNN"),
    Variable("DNNL_*", "cpu", False, "settings of oneDNN"),
    Variable("MKL_*", "cpu", False, "threads and settings of MKL"),
    Variable("OMP_*", "cpu", False, "threads of OpenMP"),
    Variable("KMP_*", "cpu", False, "threads of OpenMP"),
    Variable("GOMP_*", "cpu", False, "threads of OpenMP"),
    Variable("OPENBLAS_*", "cpu", False, "threads of OpenBLAS"),
    Variable("MALLOC_*", "any", False, "how memory is allocated"),
    Variable("LD_PRELOAD", "any", False, "libraries loaded before all others"),
)
"""The first that fits a name counts."""
_PLACES = ("_DIR", "_HOME", "_PATH", "_ROOT", "_VERSION")
"""Endings of variables that say where a library is: images of containers set many."""


def variable_of(name: str) -> Variable | None:
    """Find what a variable does; ``None`` of one that changes nothing that runs."""
    for each in KNOWN:
        if name == each.pattern:
            return each
        if fnmatchcase(name, each.pattern) and not name.endswith(_PLACES):
            return each
    return None


def text_from_variables(environment: Mapping[str, str]) -> str | None:
    """Write the variables that change what runs, as a shell takes them; ``None`` without any."""
    found = sorted(name for name, value in environment.items() if value and variable_of(name))
    return shlex.join(f"{name}={environment[name]}" for name in found) or None


def variables_from_text(text: object) -> dict[str, str]:
    """Take apart what a record tells of its variables."""
    words = shlex.split(text) if isinstance(text, str) else []
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def variables_of(record: RunRecord) -> dict[str, str]:
    """Find the variables that concern what a run executed, with their values."""
    told = variables_from_text(record.environment.extra.get("variables"))
    places = ("any", "gpu" if _on_gpu(record) else "cpu")
    return {
        name: value
        for name, value in told.items()
        if (known := variable_of(name)) is not None and known.place in places
    }


def deciding(names: Iterable[str]) -> list[str]:
    """Keep the variables that change what is computed, or what a time means."""
    return [name for name in names if (known := variable_of(name)) is not None and known.decides]


def _on_gpu(record: RunRecord) -> bool:
    """Tell whether a run used a GPU: it executed an engine, or what ran names one."""
    providers = str(known_value(record.conditions.get("providers")) or "").split(",")
    elsewhere = {*providers} - {"", "CPUExecutionProvider"}
    named = known_value(record.conditions.get("device")) is not None
    return bool(record.facts.get("executes_engine") or elsewhere or named)


def without_tf32(conditions: dict[str, Fact], told: Mapping[str, str]) -> dict[str, Fact]:
    """Correct what was allowed by what the environment forbids."""
    if told.get(NO_TF32) != "0" or known_value(conditions.get("tf32")) is not True:
        return conditions
    precision = known_value(conditions.get("precision"))
    types = types_of(precision) - {"tf32"}
    fixed = {"tf32": Fact(value=False, source="implied")}
    if precision is not None and types != types_of(precision):
        fixed["precision"] = Fact(value=name_of(types or frozenset({"fp32"})), source="implied")
    return {**conditions, **fixed}
