"""CUDA: memory, streams, events, copies and graphs of one device.

Speaks to ``cuda.bindings.runtime``; does not know what is computed. Every return code is looked at,
and whatever was made is freed at the end. Calls for a timed loop are bound beforehand: what is left
for the loop is the call itself and the look at its answer.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any, NoReturn, SupportsInt

import numpy as np
from numpy.typing import NDArray

from trtbench.core.errors import JobError, UnavailableError
from trtbench.core.spec import Value

MODULES = ("cuda.bindings.runtime", "cuda.cudart")  # the second is the name before cuda-python 13

INSTALL = "pip install 'cuda-bindings==12.9.*' (or 13.* where the driver speaks CUDA 13)"

SPIN, BLOCKING_EVENT = 1, 1  # cudaDeviceScheduleSpin, cudaEventBlockingSync
SCHEDULE = 7  # cudaDeviceScheduleMask: the flags that say how the host waits
FLAGS_ARE_VALID = 1  # cudaInitDeviceFlagsAreValid
NON_BLOCKING = 1  # cudaStreamNonBlocking: no hidden waiting for the default stream
Call = Callable[[], None]


class CudaError(JobError):
    """A CUDA call failed; the process cannot be trusted to go on."""


class CaptureError(CudaError):
    """A CUDA graph could not be made of what was enqueued."""


class DeviceFacts(Value, frozen=True, kw_only=True):
    """What CUDA reports about a device."""

    name: str
    compute_capability: str
    l2_bytes: int
    integrated: bool


class Cuda:
    """One device with all that was made on it; close it, or use it as a context."""

    def __init__(self, api: ModuleType, *, device: int = 0, spin: bool = False) -> None:
        self._api = api
        self._free: list[Call] = []
        self.device = device
        self.spin = spin
        code, count = api.cudaGetDeviceCount()
        if code:
            facts, fix = {"CUDA": self._text(code)}, "install an NVIDIA driver"
            failed, driver = api.cudaDriverGetVersion()
            if driver and not failed:
                facts["driver"] = f"speaks CUDA {driver // 1000}.{driver % 1000 // 10}"
                fix = "install a newer NVIDIA driver, or older cuda-bindings (12.9.*)"
            raise UnavailableError(_words(int(code), facts["CUDA"]), facts=facts, fix=fix)
        if device >= count:
            raise UnavailableError(
                f"there is no device cuda:{device}",
                facts={"devices": ", ".join(f"cuda:{index}" for index in range(count)) or "none"},
                fix="--device cuda:0" if count else None,
            )
        # How the host waits is set before the context exists, which is then made.
        flags = schedule_flags(spin=spin)
        if hasattr(api, "cudaInitDevice"):
            self.call("cudaInitDevice", device, flags, FLAGS_ARE_VALID)
            self.call("cudaSetDevice", device)
            return
        self.call("cudaSetDevice", device)
        if int(self.call("cudaGetDeviceFlags")) & SCHEDULE != flags:  # else refused if it exists
            self.call("cudaSetDeviceFlags", flags)

    def __enter__(self) -> Cuda:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free everything, last made first; a device that is broken already cannot be helped."""
        with suppress(CudaError):
            self.call("cudaDeviceSynchronize")
        while self._free:
            with suppress(CudaError):
                self._free.pop()()

    def call(self, name: str, *arguments: object) -> Any:
        """Call a function of the runtime once; returns what it answers beside its code."""
        code, *answers = getattr(self._api, name)(*arguments)
        if code:
            self._fail(name, code)
        return answers[0] if len(answers) == 1 else tuple(answers)

    def prepared(self, name: str, *arguments: object) -> Call:
        """Bind a call for the loop."""
        function = partial(getattr(self._api, name), *arguments)
        fail = partial(self._fail, name)

        def call() -> None:
            code = function()[0]
            if code:
                fail(code)

        return call

    def _made(self, free: str, make: str, *arguments: object) -> Any:
        """Make something that is freed when the device is closed."""
        made = self.call(make, *arguments)
        self._free.append(self.prepared(free, made))
        return made

    def malloc(self, size: int) -> int:
        """Allocate device memory."""
        try:
            return int(self._made("cudaFree", "cudaMalloc", size))
        except CudaError:
            self._forget_error()
            free, total = self.memory()
            raise no_memory(size, free=free, total=total) from None

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """Allocate page-locked host memory, as bytes."""
        address = self._made("cudaFreeHost", "cudaMallocHost", size)
        block = (ctypes.c_uint8 * size).from_address(int(address))
        return np.frombuffer(memoryview(block), np.uint8)

    def stream(self) -> SupportsInt:
        """Make a stream that does not wait for the default one."""
        make = "cudaStreamCreateWithFlags"
        stream: SupportsInt = self._made("cudaStreamDestroy", make, NON_BLOCKING)
        return stream

    def event(self) -> object:
        """Make an event with a time; waiting for it spins or blocks as the device was opened."""
        flags = 0 if self.spin else BLOCKING_EVENT
        return self._made("cudaEventDestroy", "cudaEventCreateWithFlags", flags)

    def record(self, event: object, stream: object) -> Call:
        return self.prepared("cudaEventRecord", event, stream)

    def wait(self, event: object) -> Call:
        """Let the host wait for an event."""
        return self.prepared("cudaEventSynchronize", event)

    def hold_back(self, stream: object, event: object) -> Call:
        """Let a stream wait for an event of another."""
        return self.prepared("cudaStreamWaitEvent", stream, event, 0)

    def synchronize(self, stream: object) -> None:
        self.call("cudaStreamSynchronize", stream)

    def copy_in(self, device: int, host: NDArray[np.uint8], stream: object) -> Call:
        kind = self._api.cudaMemcpyKind.cudaMemcpyHostToDevice
        address, size = host.ctypes.data, host.nbytes
        return self.prepared("cudaMemcpyAsync", device, address, size, kind, stream)

    def copy_out(self, host: NDArray[np.uint8], device: int, stream: object) -> Call:
        kind = self._api.cudaMemcpyKind.cudaMemcpyDeviceToHost
        address, size = host.ctypes.data, host.nbytes
        return self.prepared("cudaMemcpyAsync", address, device, size, kind, stream)

    def clear(self, device: int, size: int, stream: object, *, value: int = 0) -> None:
        """Fill device memory with one byte."""
        self.call("cudaMemsetAsync", device, value, size, stream)

    def flush(self, stream: object) -> Call:
        """Bind the emptying of the L2 cache: twice its size is written through it."""
        size = 2 * self.facts().l2_bytes
        return self.prepared("cudaMemsetAsync", self.malloc(size), 0, size, stream)

    def span(self, begin: object, end: object) -> Callable[[], float]:
        """Bind the reading of the seconds between two events that have happened."""
        function = partial(self._api.cudaEventElapsedTime, begin, end)
        fail = partial(self._fail, "cudaEventElapsedTime")

        def read() -> float:
            code, milliseconds = function()
            if code:
                fail(code)
            return float(milliseconds) * 1e-3

        return read

    def capture(self, stream: object, enqueue: Callable[[], object]) -> Call:
        """Record what is enqueued as a graph; gives its launch."""
        mode = self._api.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self.call("cudaStreamBeginCapture", stream, mode)
        try:
            refused = enqueue() is False
        finally:
            code, graph = self._api.cudaStreamEndCapture(stream)
        if code or refused:
            self._forget_error()
            raise CaptureError(
                "the work cannot be captured in a CUDA graph",
                facts={"reason": self._text(code) if code else "enqueuing was refused"},
            )
        launched = self._made("cudaGraphExecDestroy", "cudaGraphInstantiate", graph, 0)
        self.call("cudaGraphDestroy", graph)
        return self.prepared("cudaGraphLaunch", launched, stream)

    def memory(self) -> tuple[int, int]:
        """Return free and total bytes of the device."""
        free, total = self.call("cudaMemGetInfo")
        return int(free), int(total)

    def facts(self) -> DeviceFacts:
        found = self.call("cudaGetDeviceProperties", self.device)
        name = found.name.decode() if isinstance(found.name, bytes) else str(found.name)
        return DeviceFacts(
            name=name.rstrip("\0"),
            compute_capability=f"{found.major}.{found.minor}",
            l2_bytes=int(found.l2CacheSize),
            integrated=bool(found.integrated),
        )

    def _fail(self, name: str, code: SupportsInt) -> NoReturn:
        raise CudaError(
            f"CUDA failed: {self._text(code)}",
            facts={"call": name, "error": f"{getattr(code, 'name', 'cudaError')} ({int(code)})"},
        )

    def _forget_error(self) -> None:
        """Clear the error that CUDA keeps for the next call."""
        self._api.cudaGetLastError()

    def _text(self, code: SupportsInt) -> str:
        failed, text = self._api.cudaGetErrorString(code)
        if failed or text is None:
            return f"error {int(code)}"
        return text.decode() if isinstance(text, bytes) else str(text)


def open_cuda(
    device: str | None = None, *, spin: bool = False, api: ModuleType | None = None
) -> Cuda:
    """Open a device by its name (``cuda:0``); says in words why that cannot be."""
    return Cuda(api or runtime_module(), device=index_of(device), spin=spin)


def runtime_module() -> ModuleType:
    """Import the bindings, by the name they have here."""
    reason = "not installed"
    for name in MODULES:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        except Exception as problem:  # a broken library behind it fails in many ways
            reason = str(problem)
    raise UnavailableError(
        "CUDA cannot be used from Python here", facts={"cuda-bindings": reason}, fix=INSTALL
    )


def schedule_flags(*, spin: bool) -> int:
    """Return how the host waits for the device: by looking, or as CUDA chooses."""
    return SPIN if spin else 0


def index_of(device: str | None) -> int:
    """Read the number of ``cuda:1``; the first device when none is named."""
    name, _, number = (device or "cuda:0").partition(":")
    if name not in ("cuda", "gpu") or not (number or "0").isdecimal():
        raise UnavailableError(f"{device} is not a CUDA device", fix="--device cuda:0")
    return int(number or 0)


def cuda_problem(*, api: ModuleType | None = None) -> str | None:
    """Return in a few words why no CUDA device can be used; ``None`` when one can."""
    try:
        module = api or runtime_module()
        code, count = module.cudaGetDeviceCount()
    except UnavailableError as problem:
        return problem.message
    if code:
        return _words(int(code), "")
    return None if count else "there is no CUDA device"


def no_memory(needed: int, *, free: int, total: int) -> UnavailableError:
    """Make the error for work that does not fit on the device."""
    return UnavailableError(
        "not enough GPU memory",
        facts={
            "needed": f"{needed / 2**20:.1f} MiB",
            "free": f"{free / 2**20:.1f} MiB of {total / 2**20:.0f} MiB",
        },
        fix="a smaller --batch or fewer --streams; nvidia-smi shows who else holds memory",
    )


def _words(code: int, text: str) -> str:
    known = {35: "no NVIDIA driver, or one too old for this CUDA", 100: "there is no CUDA device"}
    return known.get(code, f"CUDA does not start: {text or f'error {code}'}")
