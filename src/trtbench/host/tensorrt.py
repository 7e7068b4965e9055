"""TensorRT and TensorRT-RTX: abilities of the installed version, loggers, calibrators, caches.

Abilities are looked up by name in the module; the table of versions is for versions that are not
installed (a plan for another machine). TensorRT calls objects of classes derived from its own,
created for the module in use; they never raise, because an exception would pass through native
code. There is no error recorder: one written in Python crashes TensorRT-RTX 1.7.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.errors import InputError, UnavailableError, UsageError
from trtbench.core.run import Scalar
from trtbench.core.safety import read_bytes
from trtbench.core.samples import AnyArray
from trtbench.core.spec import ModelRef, Value
from trtbench.data import data_rows
from trtbench.host.cuda import open_cuda
from trtbench.host.early_context import DRIVER
from trtbench.host.files import make_folder, write_whole

if TYPE_CHECKING:
    from tensorrt import (
        IBuilderConfig,
        ICudaEngine,
        IHostMemory,
        IInt8Calibrator,
        ILogger,
        IProgressMonitor,
    )

Flavour = Literal["tensorrt", "tensorrt_rtx"]
Version = tuple[int, ...]

TITLES: dict[Flavour, str] = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}
INSTALL: dict[Flavour, str] = {
    "tensorrt": "pip install tensorrt-cu13 (tensorrt-cu12 with a driver of CUDA 12), "
    "or --python PATH of an interpreter that has it",
    "tensorrt_rtx": "pip install 'trtbench[rtx]', or --python PATH of an interpreter that has it",
}

TYPES = {
    "FLOAT": ("float32", 32),
    "HALF": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "INT8": ("int8", 8),
    "UINT8": ("uint8", 8),
    "INT32": ("int32", 32),
    "INT64": ("int64", 64),
    "BOOL": ("bool", 8),
    "FP8": ("float8_e4m3fn", 8),
    "E8M0": ("float8_e8m0fnu", 8),
    "INT4": ("int4", 4),
    "FP4": ("float4_e2m1fn", 4),
}
"""For TensorRT's name of a type: its name in numpy or ONNX, and its bits."""

VersionSpan = tuple[Version | None, Version | None]


def _versions_of(words: str) -> VersionSpan:
    """Return the first and the last version with a name; ``None`` for none."""
    found = [tuple(map(int, word.split("."))) for word in words.split() if word != "-"]
    return found[0] if found else None, found[1] if len(found) > 1 else None


NAME_VERSIONS: dict[str, tuple[VersionSpan, VersionSpan]] = {
    name: (_versions_of(usual), _versions_of(rtx)) for name, usual, rtx in data_rows("names.txt")
}
"""Names that not every version has, with their versions of TensorRT and of TensorRT-RTX."""

OPSETS: tuple[tuple[Version, int], ...] = (
    ((8, 0), 13),
    ((8, 5), 17),
    ((9, 2), 19),
    ((10, 0), 20),
    ((10, 15), 24),
)
"""Highest ONNX opset that the parser supports from a version on (onnx-tensorrt operators.md)."""


class Abilities(Value, frozen=True, kw_only=True):
    """The features of one version of TensorRT or TensorRT-RTX."""

    flavour: Flavour
    version: str
    names: frozenset[str]  # the names in `NAME_VERSIONS` that it has

    def has(self, name: str) -> bool:
        if name not in NAME_VERSIONS:
            raise KeyError(name)
        return name in self.names

    @property
    def title(self) -> str:
        return f"{TITLES[self.flavour]} {self.version}"

    @property
    def supports_weakly_typed(self) -> bool:
        """Whether the builder can choose precisions itself, among those that flags allow."""
        return self.has("BuilderFlag.FP16")

    @property
    def supports_strongly_typed(self) -> bool:
        """Whether the builder can be told to keep the types of the model."""
        return self.has("NetworkDefinitionCreationFlag.STRONGLY_TYPED")

    @property
    def supports_calibration(self) -> bool:
        return self.has("IBuilderConfig.int8_calibrator")

    @property
    def builds_for_other_gpus(self) -> bool:
        """Whether it can build for other GPUs than the installed one, and without a GPU."""
        return self.has("IBuilderConfig.set_compute_capability")

    @property
    def needs_profile_sharing_flag(self) -> bool:
        """Whether several contexts can use one profile only if a builder flag allows it."""
        has = self.has("PreviewFeature.PROFILE_SHARING_0806")
        return has and version_numbers(self.version) < (10,)

    @property
    def max_opset(self) -> int | None:
        number = version_numbers(self.version)
        known = [limit for first, limit in OPSETS if first <= number]
        return None if self.flavour == "tensorrt_rtx" or not known else known[-1]


def load(flavour: Flavour) -> tuple[ModuleType, Abilities]:
    """Import TensorRT or TensorRT-RTX; returns the module and its abilities."""
    title = TITLES[flavour]
    try:
        trt = importlib.import_module(flavour)
    except Exception as problem:  # mismatched libraries raise various exceptions
        if isinstance(problem, ModuleNotFoundError) and problem.name == flavour:
            raise UnavailableError(f"{title} is not installed here", fix=INSTALL[flavour]) from None
        raise UnavailableError(
            f"{title} is installed but cannot be loaded",
            facts={"reason": f"{type(problem).__name__}: {problem}"},
            fix="put the folder of libnvinfer on LD_LIBRARY_PATH, or reinstall it",
        ) from None
    return trt, abilities_of(trt, flavour=flavour)


def abilities_of(trt: ModuleType, *, flavour: Flavour) -> Abilities:
    names = set()
    for name in NAME_VERSIONS:
        found: object = trt
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None:
            names.add(name)
    return Abilities(flavour=flavour, version=str(trt.__version__), names=frozenset(names))


def abilities_of_version(version: str, *, flavour: Flavour) -> Abilities:
    number = version_numbers(version)
    names = set()
    for name, spans in NAME_VERSIONS.items():
        first, last = spans[flavour == "tensorrt_rtx"]
        if first is not None and first <= number and (last is None or number <= last):
            names.add(name)
    return Abilities(flavour=flavour, version=version, names=frozenset(names))


def version_numbers(version: str) -> Version:
    """Parse a version like ``10.13.3.9`` into a tuple of numbers."""
    parts = tuple(map(int, takewhile(str.isdecimal, version.split(".")[:4])))
    if not parts:
        raise UsageError(f"{version!r} is not a TensorRT version", fix="use a form like 10.9")
    return parts


_KEPT: list[object] = []


def keep_until_exit(*objects: object) -> None:
    """Keep objects of TensorRT alive until the worker ends, which exits without freeing them.

    TensorRT 8.6 crashed on an H200 after a finished build, when Python freed builder, network and
    configuration in the order of their names.
    """
    _KEPT.extend(objects)


def inspect_engine(
    trt: ModuleType, logger: ILogger, data: IHostMemory, *, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[str, dict[str, Scalar]] | None:
    """Load an engine; returns its layers as JSON and facts, or ``None`` if it does not load."""
    runtime = trt.Runtime(logger)
    runtime.engine_host_code_allowed = True  # safe: it was just built here
    engine = runtime.deserialize_cuda_engine(data)
    if engine is None:
        return None
    inspector = engine.create_engine_inspector()
    context = engine.create_execution_context() if shapes else None
    keep_until_exit(runtime, engine, inspector, context)
    if context is not None:
        # Without inferred shapes, formats of a dynamic engine are reported as "N/A due to dynamic
        # shapes".
        for name, shape in shapes.items():
            context.set_input_shape(name, shape)
        context.infer_shapes()
        inspector.execution_context = context
    text = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    return text, {
        "activation_bytes": activation_bytes(engine),
        "engine_layers": int(engine.num_layers),
    }


def load_plugins(trt: ModuleType, libraries: Iterable[str]) -> None:
    """Load plugin libraries: the registry takes those that export creators, others add their own.

    TensorRT 10 asks for ``getCreators``, earlier versions for ``getPluginCreators``.
    """
    for path in libraries:
        if os.sep in path and not Path(path).is_file():
            raise InputError(f"there is no plugin library {path}")
        try:
            library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as problem:
            facts = {"reason": str(problem)}
            raise InputError(f"the plugin library {path} cannot be loaded", facts=facts) from None
        exports = any(hasattr(library, name) for name in ("getCreators", "getPluginCreators"))
        if exports and trt.get_plugin_registry().load_library(path) is None:
            raise InputError(f"TensorRT takes no plugin from {path}")


def activation_bytes(engine: ICudaEngine) -> int | None:
    """Return the device memory of an execution context, for the largest profile."""
    for name in ("device_memory_size_v2", "device_memory_size"):
        if hasattr(engine, name):
            return int(getattr(engine, name))
    return None


LETTERS = {"INTERNAL_ERROR": "F", "ERROR": "E", "WARNING": "W", "INFO": "I", "VERBOSE": "V"}
NOISE = ("cudaError 35", "catchCudaError", "CUDA initialization failure with error: 35")
"""Errors that follow others on machines without a driver, and are hardly ever the cause."""
MOST_KEPT = 200  # errors in memory; the log has them all


@dataclass
class LoggedErrors:
    errors: list[str] = field(default_factory=list)

    def cause(self) -> str | None:
        """Return the first error that is not in ``NOISE``, else the first error."""
        causes = [text for text in self.errors if not any(word in text for word in NOISE)]
        return next(iter(causes or self.errors), None)


def make_logger(trt: ModuleType, *, path: Path, logged: LoggedErrors, verbose: bool) -> ILogger:
    """Return a logger that writes a file in the format of trtexec's log."""
    file = open(path, "a", encoding="utf-8", errors="replace", buffering=1)  # noqa: SIM115

    class Logger(trt.ILogger):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: object, text: str) -> None:
            letter = LETTERS.get(getattr(severity, "name", ""), "I")
            if letter == "V" and not verbose:
                return
            if letter in "FE" and len(logged.errors) < MOST_KEPT:
                logged.errors.append(text)
            try:
                stamp = time.strftime("%m/%d/%Y-%H:%M:%S")
                file.write(f"[{stamp}] [{letter}] [TRT] {text}\n")
            except (OSError, ValueError):  # a full disk, or a file closed at exit
                return

    return Logger()


def make_monitor(
    trt: ModuleType, *, report: Callable[[float, str], None], cancelled: Callable[[], bool]
) -> IProgressMonitor:
    """Return a monitor, which can cancel the build; its one progress of all phases never falls."""

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            self._phases: dict[str, tuple[float, float]] = {}  # steps done and all, outermost first
            self._reached = 0.0

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            self._phases[phase_name] = 0.0, float(max(num_steps, 1))

        def step_complete(self, phase_name: str, step: int) -> bool:
            steps = self._phases.get(phase_name, (0.0, step + 1.0))[1]
            self._phases[phase_name] = min(step + 1.0, steps), steps
            self._report(phase_name)
            return not cancelled()

        def phase_finish(self, phase_name: str) -> None:
            self._phases.pop(phase_name, None)
            self._report(phase_name)

        def _report(self, phase_name: str) -> None:
            part = 0.0 if self._phases else 1.0
            for done, steps in reversed([*self._phases.values()]):
                part = (done + part * (done < steps)) / steps
            self._reached = max(self._reached, part)
            with suppress(Exception):
                report(self._reached, phase_name)

    return Monitor()


def make_output_allocator(trt: ModuleType, *, address: int, size_bytes: int) -> OutputAllocator:
    """Return an allocator for an output whose shape depends on the data; it records the shape."""

    class Allocator(trt.IOutputAllocator):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)
            self.shape: tuple[int, ...] | None = None

        def reallocate_output(self, name: str, memory: object, size: int, alignment: int) -> int:
            return address if size <= size_bytes else 0

        def reallocate_output_async(
            self, name: str, memory: object, size: int, alignment: int, stream: object
        ) -> int:  # from TensorRT 10 on
            return self.reallocate_output(name, memory, size, alignment)

        def notify_shape(self, name: str, shape: Iterable[int]) -> None:
            self.shape = tuple(int(dim) for dim in shape)

    return Allocator()


class OutputAllocator(Protocol):
    """Memory of an output, and the shape that the last query gave it."""

    shape: tuple[int, ...] | None


BASES = {"entropy2": "IInt8EntropyCalibrator2", "minmax": "IInt8MinMaxCalibrator"}
_HEADER = struct.Struct("<4sIQQ")
"""Header of timing caches of TensorRT 8.6: ``ptrt``, two numbers, and the size of the rest."""


def driver_problem() -> str | None:
    """Return why no GPU can be used to build; ``None`` if there is one."""
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return "there is no NVIDIA driver (libcuda.so.1 is not found)"
    if status := driver.cuInit(0):
        text = ctypes.c_char_p()
        driver.cuGetErrorName(status, ctypes.byref(text))
        reason = (text.value or b"error %d" % status).decode("ascii", "replace")
        return f"the NVIDIA driver does not start: {reason}"
    count = ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "the NVIDIA driver lists no GPU"
    return None


class CacheKey(Value, frozen=True, kw_only=True):
    """Everything that calibration scales depend on."""

    model: str  # sha256 of the ONNX file
    data: str  # sha256 of the calibration arrays
    batch: int
    algorithm: str
    tensorrt: str
    prepared: dict[str, Scalar] = {}  # how a task prepared the images of the arrays


class ScaleCache:
    """A file of calibration scales, which is used only if its key matches."""

    def __init__(self, path: Path, *, key: CacheKey | None) -> None:
        self.path, self.key = path, key
        self.used = False
        self._key_path = path.with_name(f"{path.name}.json")

    def read(self) -> bytes | None:
        """Return the scales; ``None`` if there are none, or their key does not match."""
        if not self.path.is_file() or (self.key is not None and self.stored_key() != self.key):
            return None
        self.used = True
        return self.path.read_bytes()

    def stored_key(self) -> CacheKey | None:
        try:
            return value_from_json(read_bytes(self._key_path), CacheKey, where="")
        except (OSError, InputError):
            return None

    def write(self, data: bytes) -> None:
        make_folder(self.path.parent)
        write_whole(self.path, data)
        write_whole(self._key_path, json_from_value(self.key))


def preparation_of_scales(path: Path, model: ModelRef) -> dict[str, Scalar]:
    """Return how the images of a calibration cache were prepared; raises for another model's."""
    key = ScaleCache(path, key=None).stored_key()
    if key is not None and model.sha256 is not None and key.model != model.sha256:
        raise UsageError(
            f"the scales in {path.name} were made for another model",
            facts={"made for": f"sha256 {key.model[:12]}",
                   model.name: f"sha256 {model.sha256[:12]}"},
            fix="to make new ones: --data DATA.npz",
        )  # fmt: skip
    return key.prepared if key is not None else {}


def make_calibrator(
    trt: ModuleType,
    *,
    algorithm: str,
    cache: ScaleCache,
    feeds: Sequence[Mapping[str, AnyArray]],
    report: Callable[[int, int], None],
) -> IInt8Calibrator:
    """Return a calibrator for TensorRT; without feeds, it only provides the cached scales."""
    base = getattr(trt, BASES[algorithm])
    cuda = open_cuda() if feeds else None
    arrays: dict[str, int] = {}  # addresses on the device

    class Calibrator(base):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            base.__init__(self)
            self.next = 0
            self.problem: Exception | None = None
            """The exception in a call from native code, which must not raise."""

        def get_batch_size(self) -> int:
            return len(next(iter(feeds[0].values()))) if feeds else 1

        def get_batch(self, names: list[str], *_: object) -> list[int] | None:
            if cuda is None or self.next >= len(feeds):
                return None
            try:
                feed = feeds[self.next]
                report(self.next, len(feeds))
                self.next += 1
                for name in names:
                    raw = np.ascontiguousarray(feed[name]).reshape(-1).view(np.uint8)
                    if name not in arrays:
                        arrays[name] = cuda.malloc(raw.nbytes)
                    cuda.copy(arrays[name], raw, 0, out=False)()
                    cuda.synchronize(0)
                return [arrays[name] for name in names]
            except Exception as problem:
                self.problem = problem
                return None

        def read_calibration_cache(self, *_: object) -> bytes | None:
            return cache.read()

        def write_calibration_cache(self, scales: IHostMemory, *_: object) -> None:
            try:
                cache.write(bytes(scales))
            except OSError as problem:
                self.problem = problem

    return Calibrator()


CacheUse = Literal["new", "hit", "partial", "refused"]
USES: Mapping[CacheUse, str] = {
    "new": "new, every kernel was timed",
    "hit": "reused, no kernel had to be timed",
    "partial": "reused and extended",
    "refused": "made by another TensorRT or GPU: every kernel was timed, the old file is kept",
}


class TimingCache:
    """The timing cache of one build, attached to its configuration."""

    def __init__(self, config: IBuilderConfig, *, path: Path, abilities: Abilities) -> None:
        self._config, self._path = config, path
        data = path.read_bytes() if path.is_file() else b""
        self._before = len(data) if data else None
        # The header is checked here, because TensorRT 8.6 may crash on a cache that it cannot
        # read. Other versions may have other headers, and refuse caches themselves.
        fits = not data or version_numbers(abilities.version) >= (10,)
        if data.startswith(b"ptrt"):
            size = len(data) - _HEADER.size
            fits = size >= 0 and int(_HEADER.unpack_from(data)[3]) == size
        self._refused = not (fits and self._attach(data))
        if self._refused:
            self._attach(b"")

    def _attach(self, data: bytes) -> bool:
        cache = self._config.create_timing_cache(data)
        if cache is None:
            return False
        self._cache = cache
        if data:
            nothing = self._config.create_timing_cache(b"")
            empty = bytes(nothing.serialize()) if nothing is not None else b""
            if bytes(cache.serialize()) == empty != data:
                return False  # accepted silently, but with no entry used
        return bool(self._config.set_timing_cache(cache, False))

    def save(self) -> tuple[CacheUse, dict[str, Scalar]]:
        """Write the cache and return how it was used; an old cache that does not fit is renamed."""
        data = bytes(self._cache.serialize())
        if self._refused:
            self._path.replace(self._path.with_name(f"{self._path.name}.old"))
        write_whole(self._path, data)
        use: CacheUse = "hit" if len(data) <= (self._before or 0) else "partial"
        if self._refused or self._before is None:
            use = "refused" if self._refused else "new"
        sizes = {"before": self._before, "after": len(data)}
        facts: dict[str, Scalar] = {f"timing_cache_{k}_bytes": size for k, size in sizes.items()}
        return use, {"timing_cache": use, **facts}
