"""Parts of a build with TensorRT that live on their own: a GPU, INT8 scales, a timing cache.

The scales of a calibration cache are valid only for the same model, data, batch and algorithm.
These are kept beside the cache in ``<cache>.json``, and a cache made from something else is not
used. Whether there is a GPU is asked of the CUDA driver alone: TensorRT may crash instead of
raising where the driver is missing.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from trtbench.core.codec import json_from_value
from trtbench.core.errors import UnavailableError, UsageError
from trtbench.core.run import Scalar
from trtbench.core.samples import AnyArray
from trtbench.core.spec import ModelRef, Value
from trtbench.host.files import write_whole
from trtbench.host.tensorrt import Abilities, version_numbers

if TYPE_CHECKING:
    from tensorrt import IBuilderConfig, IHostMemory, IInt8Calibrator

DRIVER = "libcuda.so.1"
BASES = {"entropy2": "IInt8EntropyCalibrator2", "minmax": "IInt8MinMaxCalibrator"}
MAGIC = b"ptrt"
"""How the timing caches of TensorRT 8.6 begin."""
_HEADER = struct.Struct("<4sIQQ")
"""Magic, two numbers, and the bytes that follow."""


def driver_problem(*, library: str = DRIVER) -> str | None:
    """Why nothing can be built on a GPU here; ``None`` when there is one."""
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return "there is no NVIDIA driver (libcuda.so.1 is not found)"
    if status := driver.cuInit(0):
        return f"the NVIDIA driver does not start: {_error_name(driver, status)}"
    count = ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "the NVIDIA driver lists no GPU"
    return None


def _error_name(driver: ctypes.CDLL, status: int) -> str:
    text = ctypes.c_char_p()
    if driver.cuGetErrorName(status, ctypes.byref(text)) or not text.value:
        return f"error {status}"
    return text.value.decode("ascii", "replace")


class DeviceArray:
    """Memory on the GPU that holds one numpy array."""

    def __init__(self, size_bytes: int) -> None:
        self._driver = ctypes.CDLL(DRIVER)
        self._use_context()
        pointer = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size_bytes))
        self.pointer = int(pointer.value)
        self.size_bytes = size_bytes

    def fill(self, values: AnyArray) -> None:
        """Copy an array of the same size from the host."""
        values = np.ascontiguousarray(values)
        if values.nbytes != self.size_bytes:
            raise ValueError(f"{values.nbytes} bytes do not fill {self.size_bytes}")
        source = values.ctypes.data_as(ctypes.c_void_p)
        target, size = ctypes.c_uint64(self.pointer), ctypes.c_size_t(values.nbytes)
        self._use_context()
        self._call("cuMemcpyHtoD_v2", target, source, size)

    def _use_context(self) -> None:
        """Use the primary context, which TensorRT uses as well; callers may be any thread."""
        self._call("cuInit", 0)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: object) -> None:
        if status := getattr(self._driver, name)(*arguments):
            raise UnavailableError(
                "memory on the GPU cannot be used",
                facts={"call": name, "reason": _error_name(self._driver, status)},
            )


class CacheKey(Value, frozen=True, kw_only=True):
    """What scales depend on."""

    model: str
    """sha256 of the ONNX file."""
    data: str
    """sha256 of the arrays as they are fed."""
    batch: int
    algorithm: str
    tensorrt: str
    prepared: dict[str, Scalar] = {}
    """How a task prepared the images that the arrays were made of."""


class ScaleCache:
    """A file of scales that is used only when its key is the one of this build."""

    def __init__(self, path: Path, *, key: CacheKey | None) -> None:
        self.path, self.key = path, key
        self.used = False
        self._beside = path.with_name(f"{path.name}.json")

    def read(self) -> bytes | None:
        """The scales; ``None`` when they were made from something else, or of unknown origin."""
        if not self.path.is_file() or (self.key is not None and self.made_from() != self.key):
            return None
        self.used = True
        return self.path.read_bytes()

    def made_from(self) -> CacheKey | None:
        try:
            return msgspec.json.decode(self._beside.read_bytes(), type=CacheKey)
        except (OSError, msgspec.MsgspecError):
            return None

    def write(self, data: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, data)
        write_whole(self._beside, json_from_value(self.key))


def preparation_of_scales(path: Path, model: ModelRef) -> dict[str, Scalar]:
    """How the images were prepared that a cache comes from; another model's is refused.

    A cache of unknown origin is taken as it is, and says nothing.
    """
    made = ScaleCache(path, key=None).made_from()
    if made is not None and model.sha256 is not None and made.model != model.sha256:
        raise UsageError(
            f"the scales in {path.name} were made for another model",
            facts={"made for": f"sha256 {made.model[:12]}",
                   model.name: f"sha256 {model.sha256[:12]}"},
            fix="--calibration DATA.npz makes new ones",
        )  # fmt: skip
    return made.prepared if made is not None else {}


def make_calibrator(
    trt: ModuleType,
    *,
    algorithm: str,
    cache: ScaleCache,
    feeds: Sequence[Mapping[str, AnyArray]],
    report: Callable[[int, int], None],
) -> IInt8Calibrator:
    """Make a calibrator of TensorRT's own kind; without batches it only hands out the cache."""
    base = getattr(trt, BASES[algorithm])
    arrays: dict[str, DeviceArray] = {}

    class Calibrator(base):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            base.__init__(self)
            self.next = 0
            self.problem: Exception | None = None
            """What went wrong in a call from native code, which must not see an exception."""

        def get_batch_size(self) -> int:
            return len(next(iter(feeds[0].values()))) if feeds else 1

        def get_batch(self, names: list[str], *_: object) -> list[int] | None:
            if self.next >= len(feeds):
                return None
            try:
                feed = feeds[self.next]
                report(self.next, len(feeds))
                self.next += 1
                for name in names:
                    if name not in arrays:
                        arrays[name] = DeviceArray(feed[name].nbytes)
                    arrays[name].fill(feed[name])
                return [arrays[name].pointer for name in names]
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
    "new": "made new, every kernel was timed",
    "hit": "reused, nothing had to be timed",
    "partial": "reused and added to",
    "refused": "of another TensorRT or GPU: every kernel was timed, the old one is kept",
}


class TimingCache:
    """The timing cache of one build, attached to its configuration."""

    def __init__(self, config: IBuilderConfig, *, path: Path, abilities: Abilities) -> None:
        self._config, self._path, self._abilities = config, path, abilities
        data = path.read_bytes() if path.is_file() else b""
        self._before = len(data) if data else None
        self._refused = not (self._of_here(data) and self._attach(data))
        if self._refused:
            self._attach(b"")

    def _of_here(self, data: bytes) -> bool:
        """Check the first bytes before TensorRT does, which may not survive what it cannot read.

        Later versions may begin otherwise; what they do not know is theirs to refuse.
        """
        if not data or not data.startswith(MAGIC):
            return not data or version_numbers(self._abilities.version) >= (10,)
        if len(data) < _HEADER.size:
            return False
        return int(_HEADER.unpack_from(data)[3]) == len(data) - _HEADER.size

    def _attach(self, data: bytes) -> bool:
        cache = self._config.create_timing_cache(data)
        if cache is None:
            return False
        self._cache = cache
        if data:
            nothing = self._config.create_timing_cache(b"")
            empty = bytes(nothing.serialize()) if nothing is not None else b""
            if bytes(cache.serialize()) == empty != data:
                return False  # taken without a word, and nothing of it kept
        return bool(self._config.set_timing_cache(cache, False))

    def save(self) -> tuple[CacheUse, dict[str, Scalar]]:
        """Write the cache and return what it was worth; one that did not fit becomes ``.old``."""
        data = bytes(self._cache.serialize())
        if self._refused:
            self._path.replace(self._path.with_name(f"{self._path.name}.old"))
        write_whole(self._path, data)
        use: CacheUse = "hit" if len(data) <= (self._before or 0) else "partial"
        if self._refused or self._before is None:
            use = "refused" if self._refused else "new"
        facts: dict[str, Scalar] = {
            "timing_cache": use,
            "timing_cache_before_bytes": self._before,
            "timing_cache_after_bytes": len(data),
        }
        return use, facts
