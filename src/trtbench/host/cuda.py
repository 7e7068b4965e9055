"""CUDA: memory, streams, events, copies and graphs of one device.

Uses ``cuda.bindings.runtime``; does not know what is computed. Every return code is checked, and
everything that was created is freed at the end. Calls for a timed loop are bound beforehand, so
that the loop only makes the call and checks its return code.
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
from trtbench.host.early_context import DRIVER

INSTALL = "pip install 'cuda-bindings==12.9.*' (or 13.* if the driver supports CUDA 13)"

SPIN, BLOCKING_EVENT = 1, 1  # cudaDeviceScheduleSpin, else as CUDA chooses; BlockingSync
FLAGS_ARE_VALID = 1  # cudaInitDeviceFlagsAreValid
NON_BLOCKING = 1  # cudaStreamNonBlocking: no implicit waiting for the default stream
Call = Callable[[], None]


class CudaError(JobError):
    """A CUDA call failed; the process should not continue."""


class CaptureError(CudaError):
    """The enqueued work could not be captured as a CUDA graph."""


class DeviceFacts(Value, frozen=True, kw_only=True):
    """What CUDA reports about a device."""

    name: str
    compute_capability: str
    l2_bytes: int


class Cuda:
    """One device and everything created on it, until it is closed."""

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
                facts["driver"] = f"supports CUDA {driver // 1000}.{driver % 1000 // 10}"
                fix = "install a newer NVIDIA driver, or older cuda-bindings (12.9.*)"
            raise UnavailableError(_start_error(int(code), facts["CUDA"]), facts=facts, fix=fix)
        if device >= count:
            raise UnavailableError(
                f"there is no device cuda:{device}",
                facts={"devices": ", ".join(f"cuda:{index}" for index in range(count)) or "none"},
                fix="--device cuda:0" if count else None,
            )
        # How the host waits must be set before the context is created.
        self.call("cudaInitDevice", device, SPIN if spin else 0, FLAGS_ARE_VALID)
        self.call("cudaSetDevice", device)

    def close(self) -> None:
        """Free everything in reverse order; errors of a broken device are ignored."""
        with suppress(CudaError):
            self.call("cudaDeviceSynchronize")
        while self._free:
            with suppress(CudaError):
                self._free.pop()()

    def call(self, name: str, *arguments: object) -> Any:
        """Call a function of the runtime once; returns its results without the return code."""
        code, *answers = getattr(self._api, name)(*arguments)
        if code:
            self._fail(name, code)
        return answers[0] if len(answers) == 1 else tuple(answers)

    def bind(self, name: str, *arguments: object) -> Call:
        """Return a function that makes this call and checks its code, for a timed loop."""
        function = partial(getattr(self._api, name), *arguments)
        fail = partial(self._fail, name)

        def call() -> None:
            code = function()[0]
            if code:
                fail(code)

        return call

    def _create(self, free: str, create: str, *arguments: object) -> Any:
        """Create something that is freed when the device is closed."""
        created = self.call(create, *arguments)
        self._free.append(self.bind(free, created))
        return created

    def malloc(self, size: int) -> int:
        try:
            return int(self._create("cudaFree", "cudaMalloc", size))
        except CudaError:
            self._api.cudaGetLastError()  # clears it: a later call would return it, too
            free, total = self.memory()
            raise no_memory(size, free=free, total=total) from None

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """Allocate page-locked host memory, as bytes."""
        address = self._create("cudaFreeHost", "cudaMallocHost", size)
        block = (ctypes.c_uint8 * size).from_address(int(address))
        return np.frombuffer(memoryview(block), np.uint8)

    def stream(self) -> SupportsInt:
        """Create a stream that does not wait for the default one."""
        create = "cudaStreamCreateWithFlags"
        stream: SupportsInt = self._create("cudaStreamDestroy", create, NON_BLOCKING)
        return stream

    def event(self) -> object:
        """Create an event with timing; waiting for it spins if ``spin`` is set, else blocks."""
        flags = 0 if self.spin else BLOCKING_EVENT
        return self._create("cudaEventDestroy", "cudaEventCreateWithFlags", flags)

    def record(self, event: object, stream: object) -> Call:
        return self.bind("cudaEventRecord", event, stream)

    def wait(self, event: object) -> Call:
        return self.bind("cudaEventSynchronize", event)

    def stream_wait(self, stream: object, event: object) -> Call:
        return self.bind("cudaStreamWaitEvent", stream, event, 0)

    def synchronize(self, stream: object) -> None:
        self.call("cudaStreamSynchronize", stream)

    def copy(self, device: int, host: NDArray[np.uint8], stream: object, *, out: bool) -> Call:
        kinds, address = self._api.cudaMemcpyKind, host.ctypes.data
        kind = kinds.cudaMemcpyDeviceToHost if out else kinds.cudaMemcpyHostToDevice
        ends = (address, device) if out else (device, address)
        return self.bind("cudaMemcpyAsync", *ends, host.nbytes, kind, stream)

    def flush(self, stream: object) -> Call:
        """Return a call that flushes the L2 cache, by writing twice its size."""
        size = 2 * self.facts().l2_bytes
        return self.bind("cudaMemsetAsync", self.malloc(size), 0, size, stream)

    def span(self, begin: object, end: object) -> Callable[[], float]:
        """Return a function that reads the seconds between two completed events."""
        function = partial(self._api.cudaEventElapsedTime, begin, end)
        fail = partial(self._fail, "cudaEventElapsedTime")

        def read() -> float:
            code, milliseconds = function()
            if code:
                fail(code)
            return float(milliseconds) * 1e-3

        return read

    def capture(self, stream: object, enqueue: Callable[[], object]) -> Call:
        """Capture the work of ``enqueue`` as a graph; returns a call that launches the graph."""
        mode = self._api.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self.call("cudaStreamBeginCapture", stream, mode)
        try:
            refused = enqueue() is False
        finally:
            code, graph = self._api.cudaStreamEndCapture(stream)
        if code or refused:
            self._api.cudaGetLastError()  # as in malloc
            raise CaptureError(
                "the work cannot be captured in a CUDA graph",
                facts={"reason": self._text(code) if code else "the work could not be enqueued"},
            )
        try:
            instance = self._create("cudaGraphExecDestroy", "cudaGraphInstantiate", graph, 0)
        except CudaError as problem:
            self._api.cudaGetLastError()
            raise CaptureError("the CUDA graph cannot be made", facts=problem.facts) from None
        finally:
            self.call("cudaGraphDestroy", graph)
        return self.bind("cudaGraphLaunch", instance, stream)

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
        )

    def _fail(self, name: str, code: SupportsInt) -> NoReturn:
        raise CudaError(
            f"CUDA failed: {self._text(code)}",
            facts={"call": name, "error": f"{getattr(code, 'name', 'cudaError')} ({int(code)})"},
        )

    def _text(self, code: SupportsInt) -> str:
        failed, text = self._api.cudaGetErrorString(code)
        if failed or text is None:
            return f"error {int(code)}"
        return text.decode() if isinstance(text, bytes) else str(text)


def open_cuda(device: str | None = None, *, spin: bool = False) -> Cuda:
    """Open a device by its name (``cuda:0``); the error of a failure says how to fix it."""
    return Cuda(runtime_module(), device=index_of(device), spin=spin)


def runtime_module() -> ModuleType:
    """Import the CUDA bindings."""
    try:
        return importlib.import_module("cuda.bindings.runtime")
    except ModuleNotFoundError:
        reason = "not installed"
    except Exception as problem:  # a broken native library raises various exceptions
        reason = str(problem)
    raise UnavailableError(
        "CUDA cannot be used from Python here", facts={"cuda-bindings": reason}, fix=cuda_fix()
    )


def cuda_fix() -> str:
    """Return what to install for CUDA: the bindings are of no use without a driver."""
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return "install an NVIDIA driver, or use a machine with an NVIDIA GPU"
    return INSTALL


def index_of(device: str | None) -> int:
    """Return the number in ``cuda:1``; 0 if no device is named."""
    name, _, number = (device or "cuda:0").partition(":")
    if name not in ("cuda", "gpu") or not (number or "0").isdecimal():
        raise UnavailableError(f"{device} is not a CUDA device", fix="--device cuda:0")
    return int(number or 0)


def cuda_problem(*, api: ModuleType | None = None) -> str | None:
    """Return why no CUDA device can be used, in a few words; ``None`` if one can."""
    try:
        module = api or runtime_module()
        code, count = module.cudaGetDeviceCount()
    except UnavailableError as problem:
        return problem.message
    if code:
        return _start_error(int(code), "")
    return None if count else "there is no CUDA device"


def no_memory(needed: int, *, free: int, total: int) -> UnavailableError:
    """Return the error for work that does not fit into the device's memory."""
    return UnavailableError(
        "not enough GPU memory",
        facts={
            "needed": f"{needed / 2**20:.1f} MiB",
            "free": f"{free / 2**20:.1f} MiB of {total / 2**20:.0f} MiB",
        },
        fix="use a smaller --batch or fewer --streams; nvidia-smi shows other users of the memory",
    )


def _start_error(code: int, text: str) -> str:
    known = {35: "no NVIDIA driver, or one too old for this CUDA", 100: "there is no CUDA device"}
    return known.get(code, f"CUDA does not start: {text or f'error {code}'}")
