"""Runs ONNX models on ONNX Runtime, in the worker's process.

ONNX Runtime falls back to the CPU if an execution provider cannot start. Such a result could be
taken for the GPU's, so it is an error here.
"""

from __future__ import annotations

import ctypes
import importlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache, partial
from importlib import util
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.onnx_graph import notes_from_metadata
from trtbench.core import errors
from trtbench.core.run import Fact, Scalar, name_from_types
from trtbench.core.safety import read_text
from trtbench.core.samples import Arrays, LayerProfile
from trtbench.core.spec import MAP, NO_TENSORS, OPTIONAL, SEQUENCE, SPARSE, RunSpec, TensorSpec
from trtbench.data import data_rows
from trtbench.host.cuda import index_of
from trtbench.host.cupti import Call, Recorder
from trtbench.host.files import temporary_name
from trtbench.models.onnx_outline import outline_of, quantized_type
from trtbench.models.onnx_session import CPU, open_onnx, sums_overflow
from trtbench.runtimes import _session
from trtbench.runtimes._kernels import profile_from_kernels
from trtbench.runtimes._loop import SERIAL, bench_session

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, NodeArg, OrtValue, SessionOptions

Provider = str | tuple[str, dict[str, str]]
TraceEvent = dict[str, Any]

FORMATS = ("onnx",)
CHOSEN_FOR = {"onnx": 1}
TAKES_PRECISION = False
OPTIONS = {
    "providers": "execution providers in order of preference, comma separated (default: cpu, "
    "and cuda with --device cuda:0)",
    "spinning": "on or off: whether idle threads spin (default: ONNX Runtime's own, on); run: only "
    "while a query runs; shared: on, in one pool for all sessions of the process",
    "optimization": "disable, basic, extended or all (default: all)",
    "io_binding": "on or off: tensors live on the device (default: on with cuda and tensorrt)",
    "PROVIDER.KEY": "a setting of an execution provider, such as cuda.use_tf32=0",
}
CONDITIONS = tuple(OPTIONS)

ON_GPU = ("cuda", "tensorrt", "nvtensorrtrtx")
"""Short names of providers whose tensors are in the memory of an NVIDIA GPU."""
_LEVELS = {"disable": "ORT_DISABLE_ALL"} | {
    level: f"ORT_ENABLE_{level.upper()}" for level in ("basic", "extended", "all")
}
_SPINNING = {
    "on": ("session.intra_op.allow_spinning", "1"),
    "off": ("session.intra_op.allow_spinning", "0"),
    "run": ("session.force_spinning_stop", "1"),
}
_CHOICES: dict[str, Sequence[str]] = {
    "spinning": (*_SPINNING, "shared"),
    "io_binding": ("on", "off"),
    "optimization": tuple(_LEVELS),
}
_NO_DEVICE = re.compile(
    r"CUDA failure|CUDA error|CUDA_PATH|cudaError|CUDNN|no CUDA-capable device"
    r"|driver version is insufficient|Failed to load library|LoadLibrary failed"
    r"|cannot open shared object file",
    re.IGNORECASE,
)
"""Messages of ONNX Runtime that are caused by the provider, not by the model."""
_NO_SETTING = re.compile(
    r"(?:Unknown provider option: |Failed to parse provider option|The value for the key )[^\n]*"
)
_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bfloat16)": "bfloat16",
    **{f"tensor({u}int{n})": f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)},
    "tensor(bool)": "bool",
    "tensor(string)": "str",
}
_KINDS = {"seq": SEQUENCE, "map": MAP, "sparse_tensor": SPARSE, "optional": OPTIONAL}

OLDEST_OPSET = 7
_BF16_ON_GPU = "trtbench build makes an engine that computes in BF16; trtbench localize emulates it"
KERNEL = "_kernel_time"
LARGEST_TRACE_BYTES = 1 << 30
MOST_NAMED = 8
_SHARED_POOL = "set_global_thread_pool_sizes"
"""A function of ONNX Runtime 1.23 and later, for a pool of all sessions of a process."""
_COMPUTES = re.compile(r"Conv|MatMul|Gemm|LSTM|GRU|RNN|Attention|Einsum")
"""Operators that multiply, also fused ones; the types of the others follow from them."""
_PRECISIONS = {"float": "fp32", "float16": "fp16", "bfloat16": "bf16", "double": "fp64"}
_MODEL_BYTES = re.compile(rb"^[\x08\x0a\x12\x1a\x22\x2a\x32\x3a\x42\x72\xa2]")
"""An ONNX file is a protobuf message: its first byte is the tag of one of ModelProto's fields."""


def available() -> str | None:
    return None if util.find_spec("onnxruntime") else "the package onnxruntime is not installed"


def fix() -> str | None:
    return "pip install 'trtbench[onnx]'"


def device(spec: RunSpec) -> str:
    """Return the device: the GPU of CUDA providers, else the whole processor."""
    return spec.device or "cuda:0" if _on_gpu(spec) else "cpu"


def turn_spec(spec: RunSpec, together: Sequence[RunSpec]) -> _session.TurnSpec:
    """Return how a side is opened so that its idle threads do not disturb the other side.

    ``together`` are the sides of this process, empty if each has its own. A pool of threads spins
    for about 30 ms after a query. Sessions that share a pool do not disturb each other, and run as
    if alone; a pool that stops when its query ends must be woken up.
    """
    if device(spec) != "cpu" or spec.threads == 1 or spec.options.get("spinning") == "off":
        return _session.TurnSpec(spec=spec)
    import onnxruntime

    pools = {(each.runtime, each.threads, each.options.get("spinning")) for each in together}
    way = "shared" if len(pools) == 1 and hasattr(onnxruntime, _SHARED_POOL) else "run"
    spec = spec.having(options={**spec.options, "spinning": way})
    return _session.TurnSpec(spec=spec, like_alone=way == "shared")


@cache
def _make_shared_pool(threads: int) -> None:
    """Create the pool for all sessions of this process, once, before the first session."""
    import onnxruntime

    onnxruntime.set_global_thread_pool_sizes(threads, 0)


def check(spec: RunSpec) -> None:
    """Raise if ONNX Runtime does not support a setting, or the value of an option."""
    errors.refuse_unknown_options("runtime onnxruntime", spec.options, OPTIONS)
    providers = _requested_providers(spec)
    for key in spec.options:
        owner, dot, _ = key.partition(".")
        if dot and owner not in providers:
            raise errors.UsageError(
                f"--opt {key} is a setting of {owner!r}, which is not asked for",
                facts={"execution providers": ", ".join(providers)},
                fix=f"--opt providers={','.join([owner, *providers])}; or leave --opt {key} out",
            )
    for key, choices in _CHOICES.items():
        if key in spec.options:
            errors.refuse_other_choice(key, spec.options[key], choices)
    if spec.protocol not in SERIAL or spec.cuda_graph == "on" or spec.streams != 1:
        raise errors.UsageError(
            "ONNX Runtime is measured one query at a time: one stream, no CUDA graph",
            facts={"protocol": spec.protocol, "streams": spec.streams, "graph": spec.cuda_graph},
            fix="leave out --cuda-graph and --streams"
            if spec.protocol in SERIAL
            else f"--protocol {SERIAL[0]}",
        )
    if spec.profile and _on_gpu(spec) and util.find_spec("cupti") is None:
        raise errors.UnavailableError(
            "ONNX Runtime's profiler times nodes on the CPU only; their kernels need CUPTI",
            fix="pip install 'trtbench[cupti]'; or trtbench build MODEL.onnx, then "
            "trtbench profile MODEL.engine",
        )
    if spec.precision is not None:
        raise errors.UsageError(
            "ONNX Runtime runs a model in the types of its file",
            fix=f"trtbench quantize {shlex.quote(spec.model.name)} --precision {spec.precision} "
            "makes a file of this precision; or leave out --precision",
        )
    if spec.spin_wait or (not spec.transfers and not uses_io_binding(spec)):
        flag = "--spin-wait" if spec.spin_wait else "--no-transfers"
        raise errors.UsageError(f"ONNX Runtime does not support {flag}", fix=f"leave out {flag}")


def uses_io_binding(spec: RunSpec) -> bool:
    """Return whether tensors are bound to the device instead of passed with each call."""
    return spec.options.get("io_binding", "off" if device(spec) == "cpu" else "on") == "on"


def open_session(spec: RunSpec) -> OrtSession:
    check(spec)
    try:
        import onnxruntime
    except ImportError as problem:
        message = "ONNX Runtime cannot be imported"
        fix = f"{sys.executable} -m pip install onnxruntime"
        raise errors.UnavailableError(message, facts={"reason": problem}, fix=fix) from None
    onnxruntime.set_default_logger_severity(3)
    on_gpu = _on_gpu(spec)
    options = _session_options(onnxruntime, spec, trace=on_gpu)
    if on_gpu:  # load CUDA, cuDNN and TensorRT from pip's packages, which the loader does not find
        if "tensorrt" in _requested_providers(spec):
            with suppress(ImportError, OSError):
                importlib.import_module("tensorrt_libs")
        if hasattr(onnxruntime, "preload_dlls"):
            with suppress(OSError, RuntimeError):
                onnxruntime.preload_dlls()
    known = {_short_name(name): name for name in onnxruntime.get_available_providers()}
    requested: list[Provider] = []
    for name in _requested_providers(spec):
        if name not in known:
            raise errors.UnavailableError(
                f"ONNX Runtime here has no execution provider {name!r}",
                facts={"available": ", ".join(known)},
                fix="pip install onnxruntime-gpu" if name in ON_GPU else None,
            )
        settings = _provider_settings(spec, name)
        requested.append((known[name], settings) if settings else known[name])
    make = partial(open_onnx, spec.model.path, providers=requested)
    try:
        with redirect_stdout(io.StringIO()) as printed:
            session = make(options, enable_fallback=0)
    except Exception as problem:  # ONNX Runtime's exceptions have no common base class
        _session.raise_if_out_of_memory(problem)
        _raise_if_provider_failed(onnxruntime, spec, str(problem))
        raise explain_load_failure(spec.model.path, str(problem)) from None
    # Some versions (1.17) print why a provider did not start, and go on without it.
    _raise_if_provider_failed(onnxruntime, spec, printed.getvalue().rpartition("EP Error ")[2])
    started = [_short_name(name) for name in session.get_providers()]
    for name in map(_short_name, requested):
        # A provider that is a plug-in may have a longer name than the requested one.
        if any(each.startswith(name) for each in started):
            continue
        # Load the library as ONNX Runtime did, to get the loader's message.
        folder, reason = Path(str(onnxruntime.__file__)).parent / "capi", "the log may say more"
        try:
            ctypes.CDLL(str(folder / f"libonnxruntime_providers_{name}.so"))
        except OSError as problem:
            reason = str(problem)
        raise _provider_error(onnxruntime, name, reason)
    # The profiler slows down every node, so it gets its own session.
    traced = partial(_session_options, onnxruntime, spec, trace=True)
    if not uses_io_binding(spec):
        opened = OrtSession(session, spec, profiling=lambda: make(traced()))
        with suppress(OSError, errors.InputError):
            nodes = outline_of(Path(spec.model.path)).nodes if sums_overflow() else ()
            if any(node.operator == "QLinearMatMul" for node in nodes):
                why = "on this processor, which has no VNNI"
                opened.notes += (f"sums of QLinearMatMul can overflow {why}",)
        return opened
    bound = BoundSession(onnxruntime, session, spec, profiling=lambda: make(traced()))
    with suppress(errors.InputError):  # the file may not contain its types
        held = outline_of(Path(spec.model.path)).held or frozenset({"fp32"})
        bound.conditions |= precision_conditions(session, requested, held, os.environ)
    return bound


bench = partial(bench_session, open_session)


def _session_options(onnxruntime: ModuleType, spec: RunSpec, *, trace: bool) -> SessionOptions:
    options = onnxruntime.SessionOptions()
    given = spec.options
    if trace:
        options.enable_profiling = True
        options.profile_file_prefix = f"{tempfile.mkdtemp(prefix=temporary_name().name)}/trace"
    if spec.threads:
        options.intra_op_num_threads = spec.threads
    if given.get("spinning") == "shared" and hasattr(onnxruntime, _SHARED_POOL):
        _make_shared_pool(spec.threads or 0)
        options.use_per_session_threads = False
    elif "spinning" in given:
        errors.refuse_other_choice("spinning", given["spinning"], _SPINNING)
        options.add_session_config_entry(*_SPINNING[given["spinning"]])
    level = _LEVELS[given.get("optimization", "all")]
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    return options


# Execution providers


def _short_name(provider: Provider) -> str:
    """Return ``cuda`` for ``CUDAExecutionProvider``, ``CUDA`` and ``cuda``."""
    word = provider if isinstance(provider, str) else provider[0]
    return word.strip().lower().removesuffix("executionprovider")


def _requested_providers(spec: RunSpec) -> list[str]:
    """Return the short names of the requested providers, in order of preference.

    The device alone selects a provider; if both are given, they must agree.
    """
    kind = None if spec.device is None else spec.device.split(":")[0]
    if kind not in (None, "cpu", "cuda", "gpu"):
        message = f"ONNX Runtime has no device {spec.device}"
        raise errors.UsageError(message, fix="--device cuda:0, or cpu")
    wants_gpu = kind in ("cuda", "gpu")
    given = spec.options.get("providers", "cuda" if wants_gpu else "cpu")
    names = [_short_name(word) for word in given.split(",")]
    if kind is not None and wants_gpu != any(name in ON_GPU for name in names):
        raise errors.UsageError(
            f"the device {spec.device} contradicts the execution providers {given}",
            fix="--opt providers=cuda --device cuda:0, or leave out both for the CPU",
        )
    return names


def _provider_settings(spec: RunSpec, name: str) -> dict[str, str]:
    """Return what is passed to a provider; with it, TensorRT does not read its environment."""
    own = f"{name}."
    found = {k.removeprefix(own): v for k, v in spec.options.items() if k.startswith(own)}
    if name in ON_GPU and (index := index_of(spec.device)):
        found.setdefault("device_id", str(index))
    return {**_tensorrt_settings(os.environ), **found} if found and name == "tensorrt" else found


def _tensorrt_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that TensorRT's provider has in the environment, as options."""
    begin = "ORT_TENSORRT_"
    found = {k.removeprefix(begin): v for k, v in environment.items() if k.startswith(begin)}
    named = {"CACHE_PATH": "engine_cache_path"}
    return {f"trt_{named.get(key, key.lower())}": value for key, value in found.items()}


def _on_gpu(spec: RunSpec) -> bool:
    return any(name in ON_GPU for name in _requested_providers(spec))


def _raise_if_provider_failed(onnxruntime: ModuleType, spec: RunSpec, problem: str) -> None:
    if _on_gpu(spec) and _NO_DEVICE.search(problem):
        name = next(name for name in _requested_providers(spec) if name in ON_GPU)
        raise _provider_error(onnxruntime, name, problem.strip().splitlines()[0]) from None
    if refused := _NO_SETTING.search(problem):
        fix = "correct or leave out that --opt PROVIDER.KEY"
        raise errors.UsageError(refused[0], fix=fix) from None


def _provider_error(onnxruntime: ModuleType, provider: str, reason: str) -> errors.UnavailableError:
    built = getattr(onnxruntime, "cuda_version", None) or None
    cause = re.search(r"CUDA failure \d+: [^;]*[^;\s]", reason)  # stands behind names of functions
    fix = 'pip install "onnxruntime-gpu[cuda,cudnn]"'
    if tensorrt := re.search(r"libnvinfer\w*\.so\.(\d+)", reason):
        fix = f'pip install "tensorrt-cu{(built or "12").split(".")[0]}=={tensorrt[1]}.*"'
    facts = {"reason": cause[0] if cause else reason}
    facts |= {"onnxruntime": getattr(onnxruntime, "__version__", "?")}
    return errors.UnavailableError(
        f"ONNX Runtime's execution provider {provider!r} does not start",
        facts=facts | ({"built for": f"CUDA {built}"} if built else {}),
        fix=fix if re.search(r"\.so\.\d", reason) else "trtbench doctor",
    )


def precision_conditions(
    session: InferenceSession, requested: Sequence[Provider], held: frozenset[str],
    environment: Mapping[str, str],
) -> dict[str, Fact]:  # fmt: skip
    """Return the precision of the first provider, if it can differ from the types of the file.

    TensorRT rounds FP32 to TF32 unless that is switched off, and so does CUDA.
    """
    facts: dict[str, Fact] = {}
    if _short_name(requested[0]) == "tensorrt":
        given = requested[0]
        settings = _tensorrt_settings(environment) if isinstance(given, str) else given[1]
        words = {x: settings.get(f"trt_{x}_enable", "") for x in ("fp16", "int8", "bf16")}
        # Switches in the format of ONNX Runtime: an integer other than 0 means on.
        allowed = {x for x in words if words[x].strip().lstrip("+-0").lower() not in ("", "false")}
        if allowed:
            return {"precision": Fact(value=name_from_types(held | allowed), source="implied")}
        facts["tf32"] = Fact(value=True, source="implied")
    if _short_name(requested[0]) == "cuda":
        name = requested[0] if isinstance(requested[0], str) else requested[0][0]
        switch = session.get_provider_options().get(name, {}).get("use_tf32")
        if switch is not None:
            facts["tf32"] = Fact(value=switch == "1")
    return facts if held <= {"fp32"} else {}


# Sessions


class OrtSession(_session.Session):
    """One ``InferenceSession``, whose inputs are passed with each call."""

    def __init__(
        self, session: InferenceSession, spec: RunSpec, *,
        profiling: Callable[[], InferenceSession] | None = None,
    ) -> None:  # fmt: skip
        self._session, self._model, self._profiling = session, spec.model, profiling
        self._feed: Arrays = {}
        self.inputs = tuple(_tensor(each) for each in session.get_inputs())
        found = [_tensor(each) for each in session.get_outputs()]
        if brain := [each.name for each in (*self.inputs, *found) if each.dtype == "bfloat16"]:
            raise errors.InputError(
                "ONNX Runtime cannot exchange BF16 with Python, because numpy has no such type",
                facts={"tensors": ", ".join(brain[:MOST_NAMED])},
                fix=f"{_BF16_ON_GPU}; trtbench quantize MODEL --precision bf16 --keep-io",
            )
        self.outputs = tuple(each for each in found if each.dtype not in NO_TENSORS)
        self.notes = notes_from_metadata(session.get_modelmeta().custom_metadata_map)
        self._names = [each.name for each in found]
        spinning = spec.options.get("spinning")
        if spinning == "run":
            self.notes += ("its thread pool stopped after every query",)
        threads = int(session.get_session_options().intra_op_num_threads) or None
        self.conditions = {
            "providers": Fact(value=",".join(session.get_providers())),
            "threads": Fact(value=threads, source="stated" if threads else "implied"),
            "spinning": Fact(value=spinning or "on", source="stated" if spinning else "implied"),
            "streams": Fact(value=1),
        }

    def bind(self, arrays: Arrays) -> None:
        self._feed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    def step(self) -> Callable[[], object]:
        """Return a function that calls ``run`` on the inputs, as a user would."""
        return partial(self._session.run, self._names, self._feed)

    def fetch(self) -> dict[str, NDArray[np.generic]]:
        names = [tensor.name for tensor in self.outputs]
        return dict(zip(names, self._session.run(names, self._feed), strict=True))

    def observe_after(self) -> dict[str, Scalar]:
        """Run once with a trace; returns the precision of nodes, if no weight has it."""
        if self._profiling is None:
            return {}
        try:
            held = outline_of(Path(self._model.path)).held
            # A larger model is not loaded a second time just to trace it.
            if not held or (self._model.size_bytes or 0) > 1 << 28:
                return {}
            session = self._profiling()
            session.run(self._names, self._feed)
            ran = types_of_trace(end_trace(session), held)
        except Exception:  # ONNX Runtime's exceptions have no common base class
            return {}
        return {"computes_in": name_from_types(ran)} if ran and not ran & held else {}

    def profile_layers(self) -> LayerProfile:
        """Time every node, in a second session with the profiler on."""
        if self._profiling is None:
            return super().profile_layers()
        session, until = self._profiling(), time.monotonic() + _session.ENOUGH_S
        # Runs in one trace, which ONNX Runtime keeps in memory, up to a million events.
        for number in range(1, _session.WARMUP + 100 + 1):
            session.run(self._names, self._feed)
            if number >= _session.WARMUP + _session.LEAST and time.monotonic() >= until:
                break
        return _session.profile_from_rows(rows_of_runs(end_trace(session))[_session.WARMUP :])


class BoundSession(OrtSession):
    """A session with tensors bound to the device; it counts the nodes that ran on the CPU."""

    def __init__(
        self, onnxruntime: ModuleType, session: InferenceSession, spec: RunSpec, *,
        profiling: Callable[[], InferenceSession],
    ) -> None:  # fmt: skip
        super().__init__(session, spec, profiling=profiling)
        self._again: Callable[[], BoundSession] = lambda: BoundSession(
            onnxruntime, profiling(), spec, profiling=profiling
        )
        self._traced = _on_gpu(spec)
        self._location = ("cuda", index_of(device(spec))) if self._traced else ("cpu", 0)
        self._make = onnxruntime.OrtValue.ortvalue_from_numpy
        self._binding = session.io_binding()
        self._values: list[OrtValue] = []
        self._transfers = spec.transfers
        self.evidence: dict[str, Scalar] = {}
        self._layer_times: dict[str, Scalar] = {}
        self.conditions |= {
            "transfers": Fact(value=spec.transfers),
            "memory": Fact(value="pageable"),
            "io_binding": Fact(value=True),
        }

    def bind(self, arrays: Arrays) -> None:
        """Copy the inputs to the device, and bind outputs there."""
        super().bind(arrays)
        self._values = [self._make(array, *self._location) for array in self._feed.values()]
        self._binding.clear_binding_inputs()
        self._binding.clear_binding_outputs()
        for name, value in zip(self._feed, self._values, strict=True):
            self._binding.bind_ortvalue_input(name, value)
        for tensor in self.outputs:
            self._binding.bind_output(tensor.name, *self._location)

    def first(self) -> None:
        """Run once with a trace, which shows the provider of each node."""
        self._bound_step(transfers=True)()
        if not self._traced:
            return
        self._traced = False
        placed = nodes_and_providers(end_trace(self._session))
        elsewhere = [node for node, provider in placed.items() if provider == CPU]
        self.evidence["fallback_nodes"] = len(elsewhere)
        if elsewhere:
            more = len(elsewhere) - MOST_NAMED
            others = f" and {more} more" if more > 0 else ""
            self.evidence["fallback_names"] = ", ".join(elsewhere[:MOST_NAMED]) + others
        counts = Counter(_short_name(provider) for provider in placed.values())
        placement = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        self.conditions["placement"] = Fact(value=placement or None)

    def profile_layers(self) -> LayerProfile:
        """Time nodes; on a GPU by the kernels that they start, in queries without a trace."""
        if self._location[0] == "cpu":
            return super().profile_layers()
        run, other = self._bound_step(transfers=False), self._again()
        other.bind(self._feed)
        traced = other._bound_step(transfers=False)

        def queries() -> None:
            until = time.monotonic() + _session.ENOUGH_S
            for number in range(1, _session.MOST + 1):
                run()
                if number >= _session.LEAST and time.monotonic() >= until:
                    break

        try:
            recorder = Recorder()
            for _ in range(_session.WARMUP):
                run()
                traced()
            work, _ = recorder.record(queries)
            profiled, calls = recorder.record(traced, calls=True)
            began = int(other._session.get_profiling_start_time_ns()) + recorder.ahead_ns()
            names, events = events_of_nodes(end_trace(other._session), calls, began_ns=began)
            found = profile_from_kernels(work, profiled, events, names, again=run)
        except Exception as problem:  # of a missing library, or a driver that refuses
            raise errors.UnavailableError(
                "the nodes cannot be timed by their kernels",
                facts={"reason": errors.first_line(problem)},
                fix="leave out --profile, or build an engine and profile that",
            ) from None
        profile, self._layer_times = found
        return profile

    def observe_after(self) -> dict[str, Scalar]:
        return self._layer_times or super().observe_after()

    def step(self) -> Callable[[], object]:
        return self._bound_step(transfers=self._transfers)

    def _bound_step(self, *, transfers: bool) -> Callable[[], object]:
        """Return a function that runs a query, with copies in and out or without."""
        run, binding = self._session.run_with_iobinding, self._binding
        pairs = list(zip(self._values, self._feed.values(), strict=True))
        fetch, wait = binding.copy_outputs_to_cpu, binding.synchronize_outputs

        def whole() -> object:
            for value, host in pairs:
                value.update_inplace(host)
            run(binding)
            return fetch()

        def bare() -> object:
            run(binding)
            return wait()

        return whole if transfers else bare

    def fetch(self) -> dict[str, NDArray[np.generic]]:
        self._bound_step(transfers=True)()
        values = self._binding.copy_outputs_to_cpu()
        return {tensor.name: each for tensor, each in zip(self.outputs, values, strict=True)}


def _tensor(value: NodeArg) -> TensorSpec:
    kind = _KINDS.get(value.type.partition("(")[0])
    if kind is not None:
        return TensorSpec(name=value.name, dtype=kind, shape=())
    if value.type not in _TYPES:
        message = f"the tensor {value.name!r} has an unsupported type"
        raise errors.InputError(message, facts={"type": value.type})
    return TensorSpec(name=value.name, dtype=_TYPES[value.type], shape=tuple(value.shape))


# Traces


def end_trace(session: InferenceSession) -> list[TraceEvent]:
    """Stop tracing; returns all events, and removes the trace file."""
    trace = Path(session.end_profiling())
    try:
        events: list[TraceEvent] = json.loads(read_text(trace, most=LARGEST_TRACE_BYTES))
        return events
    except (OSError, ValueError, errors.InputError):
        return []
    finally:
        with suppress(OSError):
            trace.unlink()
            trace.parent.rmdir()


def _kernels(events: Iterable[TraceEvent]) -> list[TraceEvent]:
    nodes = (each for each in events if each.get("cat") == "Node")
    return [each for each in nodes if str(each.get("name", "")).endswith(KERNEL)]


def rows_of_runs(events: list[TraceEvent]) -> list[list[_session.Row]]:
    """Return the node times of each run in a trace, each without those of nodes inside it."""
    whole = (x for x in events if x.get("cat") == "Session" and x.get("name") == "model_run")
    runs = sorted((float(each["ts"]), float(each["ts"]) + float(each["dur"])) for each in whole)
    rows: list[list[_session.Row]] = [[] for _ in runs]
    index, around = 0, defaultdict[object, list[tuple[float, int]]](list)  # by thread: end, row
    for node in sorted(_kernels(events), key=lambda each: (float(each["ts"]), -float(each["dur"]))):
        at, took = float(node["ts"]), float(node["dur"])
        while index < len(runs) and at > runs[index][1]:
            index += 1
        if index < len(runs) and at >= runs[index][0]:
            label = _label(node)
            outer = around[node.get("tid")]
            while outer and at >= outer[-1][0]:
                outer.pop()
            if outer:  # in the body of an `If`, `Loop` or `Scan`, whose own time is the rest
                body, own = rows[index][outer[-1][1]]
                rows[index][outer[-1][1]] = (body, max(own - took * 1e-6, 0.0))
            outer.append((at + took, len(rows[index])))
            rows[index].append((label, took * 1e-6))
    return rows


def _label(node: TraceEvent) -> str:
    name = str(node["name"]).removesuffix(KERNEL)
    operator = str(node.get("args", {}).get("op_name", ""))
    return f"{name} ({operator})" if name and operator else name or operator


def events_of_nodes(
    trace: list[TraceEvent], calls: Sequence[Call], *, began_ns: int
) -> tuple[list[str], list[int]]:
    """Return the nodes of the last run, and the number of the first call of each and after all.

    ``calls`` of CUDA, and when the trace began, are by one clock.
    """
    last = max(float(each["ts"]) for each in trace if each.get("name") == "model_run")
    found = [(float(each["ts"]), _label(each)) for each in _kernels(trace)]
    starts, names = zip(*sorted(each for each in found if each[0] >= last), strict=True)
    numbers, begins = np.array(sorted(calls, key=itemgetter(1))).T
    end = int(numbers.max()) + 1
    first = np.append(np.minimum.accumulate(numbers[::-1])[::-1], end)  # of all that begin later
    places = np.searchsorted(begins, began_ns + (np.array(starts) * 1000).astype(np.int64))
    return [*names], [*first[places].tolist(), end]


def types_of_trace(events: Iterable[TraceEvent], held: frozenset[str]) -> frozenset[str]:
    """Return the precisions in which nodes multiplied; for packed weights, those of the file."""
    found: set[str] = set()
    for event in _kernels(events):
        arguments = event.get("args", {})
        operator = str(arguments.get("op_name", ""))
        if packed := quantized_type(operator):
            found |= {packed} if packed in held else held
        elif _COMPUTES.search(operator):
            kinds = [kind for each in arguments.get("input_type_shape", ()) for kind in each]
            found |= {_PRECISIONS[kind] for kind in kinds if kind in _PRECISIONS}
    return frozenset(found)


def nodes_and_providers(events: Iterable[TraceEvent]) -> dict[str, str]:
    nodes = (x for x in events if x.get("cat") == "Node" and "provider" in x.get("args", {}))
    return {node["name"].removesuffix(KERNEL): node["args"]["provider"] for node in nodes}


# Why a file cannot be loaded


def explain_load_failure(path: str, reason: str) -> errors.InputError:
    """Return an error with the file and a fix for a message of ONNX Runtime."""
    with open(path, "rb") as file:
        head = file.read(64)
    text, pointer = head.decode("utf-8", "ignore"), head.startswith(b"version https://git-lfs.")
    printable = all(c.isprintable() or c.isspace() for c in text)
    if not _MODEL_BYTES.match(head) or (len(text.encode()) >= len(head) - 3 and printable):
        facts = {"file": path, "starts with": repr(head[:24])[2:-1]}
        fix = "git lfs pull" if pointer else "copy or export the model again"
        return errors.InputError(f"{Path(path).name} is not an ONNX file", facts=facts, fix=fix)
    every = data_rows("failures.txt")
    message, fix = next(row[1:] for row in every if any(x in reason for x in row[0].split(";")))
    outline = outline_of(Path(path)) if "Could not find" in reason else None
    if outline and outline.opset is not None and outline.opset < OLDEST_OPSET:
        message = f"the model has opset {outline.opset}; ONNX Runtime runs {OLDEST_OPSET} and later"
        fix = "export it again, or raise it with onnx.version_converter.convert_version in Python"
    elif outline and "bf16" in outline.held:
        message, fix = "ONNX Runtime does not compute this model in BF16 here", _BF16_ON_GPU
    first = reason.strip().partition("\n")[0] or "no reason given"
    message = message.format(name=Path(path).name)
    return errors.InputError(message, facts={"file": path, "reason": first}, fix=fix)
