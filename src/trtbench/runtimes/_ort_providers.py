"""Which execution providers a session of ONNX Runtime uses, and why one of them is not there.

ONNX Runtime itself goes on with the CPU when a provider cannot start. A number measured that way
would be taken for the GPU's, so here it is an error.
"""

from __future__ import annotations

import ctypes
import importlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.domain.labels import name_of
from trtbench.domain.result import Fact
from trtbench.domain.spec import RunSpec
from trtbench.errors import UnavailableError, UsageError
from trtbench.host.cuda import index_of

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

CPU = "CPUExecutionProvider"
ON_GPU = ("cuda", "tensorrt", "nvtensorrtrtx")
"""Providers whose tensors live in the memory of an NVIDIA GPU, by their short names."""

Provider = str | tuple[str, dict[str, str]]

_SUFFIX = "executionprovider"
_NO_DEVICE = re.compile(
    r"CUDA failure|CUDA error|CUDA_PATH|cudaError|CUDNN|no CUDA-capable device"
    r"|driver version is insufficient|Failed to load library|LoadLibrary failed"
    r"|cannot open shared object file",
    re.IGNORECASE,
)
"""What ONNX Runtime says when it is not the model but the provider that is at fault."""


def short_name(word: str) -> str:
    """Write ``cuda`` for ``CUDAExecutionProvider``, ``CUDA`` and ``cuda``."""
    return word.strip().lower().removesuffix(_SUFFIX)


def asked_for(spec: RunSpec) -> list[str]:
    """List the short names a run asks for, in order of preference.

    A device without providers says enough; the two together must agree.
    """
    if spec.device is not None and spec.device.split(":")[0] not in ("cpu", "cuda", "gpu"):
        raise UsageError(f"ONNX Runtime has no device {spec.device}", fix="--device cuda:0, or cpu")
    wants_gpu = spec.device is not None and spec.device.split(":")[0] in ("cuda", "gpu")
    given = spec.options.get("providers", "cuda" if wants_gpu else "cpu")
    names = [short_name(word) for word in given.split(",")]
    if spec.device is not None and wants_gpu != any(name in ON_GPU for name in names):
        raise UsageError(
            f"the device {spec.device} and the execution providers {given} do not go together",
            fix="--opt providers=cuda --device cuda:0, or leave both out for the CPU",
        )
    return names


def on_gpu(spec: RunSpec) -> bool:
    return any(name in ON_GPU for name in asked_for(spec))


def preload(onnxruntime: ModuleType, spec: RunSpec) -> None:
    """Load CUDA, cuDNN and TensorRT from pip's packages, where the loader would not look.

    What is not installed that way is left to the loader's own search, and missed by the session.
    """
    if not on_gpu(spec):
        return
    if "tensorrt" in asked_for(spec):
        with suppress(ImportError, OSError):
            importlib.import_module("tensorrt_libs")
    load = getattr(onnxruntime, "preload_dlls", None)
    if load is not None:
        with suppress(OSError, RuntimeError):
            load()


def providers(onnxruntime: ModuleType, spec: RunSpec) -> list[Provider]:
    """Find full names for ``cpu``, ``cuda``, ``tensorrt`` and so on; only what is installed."""
    known = {short_name(name): name for name in onnxruntime.get_available_providers()}
    for name in asked_for(spec):
        if name not in known:
            raise UnavailableError(
                f"ONNX Runtime here has no execution provider {name!r}",
                facts={"available": ", ".join(known)},
                fix="pip install onnxruntime-gpu" if name in ON_GPU else None,
            )
    return [_on_device(known[name], spec) for name in asked_for(spec)]


def _on_device(name: str, spec: RunSpec) -> Provider:
    if short_name(name) not in ON_GPU or not (index := index_of(spec.device)):
        return name
    return name, {"device_id": str(index)}


def demand_started(
    onnxruntime: ModuleType, session: InferenceSession, asked: Sequence[Provider]
) -> None:
    """Refuse a session that goes without a provider it was asked for."""
    started = tuple(short_name(name) for name in session.get_providers())
    for provider in asked:
        name = provider if isinstance(provider, str) else provider[0]
        # A provider that is a plug-in of its own may add to the name it is asked for by.
        if not any(each.startswith(short_name(name)) for each in started):
            reason = _load_problem(onnxruntime, name) or "its libraries load; the log may say more"
            raise unavailable(onnxruntime, name, reason)


def refuse_if_no_device(onnxruntime: ModuleType, spec: RunSpec, reason: str) -> None:
    """Tell a provider that cannot start from a model that cannot be loaded."""
    if on_gpu(spec) and _NO_DEVICE.search(reason):
        name = next(name for name in asked_for(spec) if name in ON_GPU)
        raise unavailable(onnxruntime, name, reason.strip().splitlines()[0])


_ALLOWED = {"fp16": "FP16", "int8": "INT8", "bf16": "BF16"}
"""Types that ONNX Runtime's TensorRT may be allowed beside those of the file."""


def computing(
    session: InferenceSession,
    asked: Sequence[Provider],
    held: frozenset[str],
    environment: Mapping[str, str],
) -> dict[str, Fact]:
    """Tell what the first provider computes in, where that is more than the types of the file.

    TensorRT takes its settings from the environment only where none are handed over. It rounds
    FP32 to TF32 unless told not to, and so does CUDA.
    """
    first = asked[0] if isinstance(asked[0], str) else asked[0][0]
    name = short_name(first)
    facts: dict[str, Fact] = {}
    if name == "tensorrt":
        allowed = {
            each
            for each, word in _ALLOWED.items()
            if isinstance(asked[0], str) and _is_on(environment.get(f"ORT_TENSORRT_{word}_ENABLE"))
        }
        if allowed:
            types = name_of(held | allowed)
            return {"precision": Fact(value=types, source="implied")}
        facts["tf32"] = Fact(value=True, source="implied")
    if name == "cuda":
        told = session.get_provider_options().get(first, {}).get("use_tf32")
        if told is not None:
            facts["tf32"] = Fact(value=told == "1")
    return facts if held <= {"fp32"} else {}


def _is_on(value: str | None) -> bool:
    """Read a switch as ONNX Runtime does: a whole number that is not 0."""
    return bool(value and value.strip().lstrip("+-0"))


def unavailable(onnxruntime: ModuleType, provider: str, reason: str) -> UnavailableError:
    """Say why a provider does not start, and what would bring its libraries."""
    built = getattr(onnxruntime, "cuda_version", None) or None
    return UnavailableError(
        f"ONNX Runtime's execution provider {short_name(provider)!r} does not start",
        facts={
            "reason": reason,
            "onnxruntime": getattr(onnxruntime, "__version__", "?"),
            **({"built for": f"CUDA {built}"} if built else {}),
        },
        fix=_fix(reason, cuda=built),
    )


def _fix(reason: str, *, cuda: str | None) -> str:
    tensorrt = re.search(r"libnvinfer\w*\.so\.(\d+)", reason)
    if tensorrt:
        major = (cuda or "12").split(".")[0]
        return f'pip install "tensorrt-cu{major}=={tensorrt[1]}.*"'
    if re.search(r"\.so\.\d", reason):
        return 'pip install "onnxruntime-gpu[cuda,cudnn]"'
    return "trtbench doctor"


def _load_problem(onnxruntime: ModuleType, provider: str) -> str | None:
    """Load the provider's library as ONNX Runtime did, for the words of the loader."""
    folder = Path(str(onnxruntime.__file__)).parent / "capi"
    library = folder / f"libonnxruntime_providers_{short_name(provider)}.so"
    if not library.is_file():
        return f"{library.name} is not part of this package"
    try:
        ctypes.CDLL(str(library))
    except OSError as problem:
        return str(problem)
    return None
