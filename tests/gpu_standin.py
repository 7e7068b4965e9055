"""A CUDA runtime and a TensorRT made of Python, with a clock that runs as on a GPU.

Streams know when they will be free and events when they happened; waiting takes real time. What is
copied and computed is really copied and computed, on memory of this process.
"""

from __future__ import annotations

import ctypes
import enum
import json
import os
import re
import signal
import sys
import time
import weakref
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from trtbench.host.machine import still_runs

COPY_S, GPU_S, ENQUEUE_S = 300e-6, 3e-3, 50e-6
GPU_TIME = re.compile(rb"gpu_s=([0-9.e-]+);")
"""In the bytes of an engine: how long its queries take, instead of the usual."""
NO_GRAPH = b"no_graph;"  # in the bytes of an engine: its work cannot be captured
WEIGHTS = re.compile(rb"weights=(\w+);")
"""In the bytes of an engine: the type of its layers' weights, as the inspector words it."""
FROZEN = b"frozen;"
"""In the bytes of an engine: a graph of it computes with the inputs it was captured with."""
BYTE_S = 0.25e-9  # to fill one byte of memory


class Stream:
    def __init__(self, handle: int) -> None:
        self.handle, self.free_at, self.capturing = handle, 0.0, None

    def __int__(self) -> int:
        return self.handle

    def busy(self, seconds: float) -> None:
        self.free_at = max(self.free_at, time.perf_counter()) + seconds


class Code(enum.IntEnum):
    success = 0
    no_memory = 2
    too_old = 35
    no_device = 100
    illegal_address = 700
    not_capturable = 900


class Cudart:
    """The functions of ``cuda.bindings.runtime`` that the door uses."""

    cudaMemcpyKind = SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2)
    cudaStreamCaptureMode = SimpleNamespace(cudaStreamCaptureModeThreadLocal=1)

    def __init__(self, *, devices: int = 1, memory: int = 1 << 30, driver: int = 12080) -> None:
        self.devices, self.memory, self.driver = devices, memory, driver
        self.live: dict[Any, Any] = {}
        self.calls: list[str] = []
        self.fail: dict[str, Code] = {}
        self.fail_after: dict[str, int] = {}
        self.start_code = Code.success
        self.flags: tuple[int, int] | None = None
        self.streams: dict[int, Stream] = {}
        self.capturable = True
        self._next = 0x1000

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("cuda") or name in ("cudaMemcpyKind", "cudaStreamCaptureMode"):
            return super().__getattribute__(name)
        function = super().__getattribute__(name)
        return lambda *arguments: self._called(name, function, arguments)

    def _called(self, name: str, function: Any, arguments: tuple[Any, ...]) -> Any:
        self.calls.append(name)
        left = self.fail_after.get(name, 0)
        if name in self.fail and left <= 0:
            return (self.fail[name], None)
        self.fail_after[name] = left - 1
        return function(*arguments) or (Code.success,)

    def _new(self, thing: Any) -> int:
        self._next += 0x1000
        self.live[self._next] = thing
        return self._next

    def used(self) -> int:
        return sum(len(each) for each in self.live.values() if isinstance(each, bytearray))

    def cudaGetDeviceCount(self):
        return (self.start_code, None) if self.start_code else (Code.success, self.devices)

    def cudaDriverGetVersion(self):
        return Code.success, self.driver

    def cudaGetErrorString(self, code):
        return Code.success, {700: b"an illegal memory access was encountered"}.get(
            int(code), f"error {int(code)}".encode()
        )

    def _nothing(self, *_):
        pass

    cudaGetLastError = cudaSetDevice = cudaDeviceSynchronize = cudaGraphDestroy = _nothing

    def cudaInitDevice(self, device, flags, valid):
        self.flags = (flags, valid)

    def cudaGetDeviceProperties(self, device):
        return Code.success, SimpleNamespace(
            name=b"Stand-in GPU\0",
            major=9,
            minor=0,
            multiProcessorCount=4,
            totalGlobalMem=self.memory,
            l2CacheSize=1 << 20,
        )

    def cudaMemGetInfo(self):
        return Code.success, self.memory - self.used(), self.memory

    def cudaMalloc(self, size):
        if self.used() + size > self.memory:
            return Code.no_memory, None
        return Code.success, self._new(bytearray(size))

    def cudaMallocHost(self, size):
        block = (ctypes.c_uint8 * size)()
        address = ctypes.addressof(block)
        self.live[address] = block
        return Code.success, address

    def cudaFree(self, address):
        del self.live[address]

    cudaFreeHost = cudaFree

    def cudaStreamCreateWithFlags(self, flags):
        stream = Stream(self._new("stream"))
        self.streams[stream.handle] = stream
        return Code.success, stream

    def cudaStreamDestroy(self, stream):
        del self.live[stream.handle]

    def cudaStreamSynchronize(self, stream):
        _until(stream.free_at)

    def cudaEventCreateWithFlags(self, flags):
        event = SimpleNamespace(at=0.0, blocking=bool(flags))
        self.live[id(event)] = event
        return Code.success, event

    def cudaEventDestroy(self, event):
        del self.live[id(event)]

    def cudaEventRecord(self, event, stream):
        stream.busy(0.0)
        event.at = stream.free_at

    def cudaEventSynchronize(self, event):
        _until(event.at)

    def cudaStreamWaitEvent(self, stream, event, flags):
        stream.free_at = max(stream.free_at, event.at)

    def cudaEventElapsedTime(self, begin, end):
        _note_moment("run")
        return Code.success, float(np.float32((end.at - begin.at) * 1e3))

    def cudaMemcpyAsync(self, target, source, size, kind, stream):
        stream.busy(COPY_S)
        if kind == 1:
            self.live[target][:size] = ctypes.string_at(source, size)
        else:
            ctypes.memmove(target, bytes(self.live[source][:size]), size)

    def cudaMemsetAsync(self, target, value, size, stream):
        self.live[target][:size] = bytes([value]) * size
        stream.busy(size * BYTE_S)

    def cudaStreamBeginCapture(self, stream, mode):
        stream.capturing = []

    def cudaStreamEndCapture(self, stream):
        work, stream.capturing = stream.capturing, None
        if not self.capturable:
            return Code.not_capturable, None
        return Code.success, work

    def cudaGraphInstantiate(self, graph, flags):
        launched = SimpleNamespace(work=graph)
        self.live[id(launched)] = launched
        return Code.success, launched

    def cudaGraphExecDestroy(self, launched):
        del self.live[id(launched)]

    def cudaGraphLaunch(self, launched, stream):
        for work in launched.work:
            work(stream)


class Clock:
    """Time that passes only as somebody looks or waits, so that a busy machine changes nothing."""

    LOOK_NS = 100

    def __init__(self) -> None:
        self._now = 10**9

    def nanoseconds(self) -> int:
        self._now += self.LOOK_NS
        return self._now

    def seconds(self) -> float:
        return self.nanoseconds() * 1e-9

    def sleep(self, seconds: float) -> None:
        self._now += int(seconds * 1e9)

    def wait_until(self, moment: float) -> None:
        self._now = max(self._now, int(moment * 1e9))

    def install(self, monkeypatch: Any) -> None:
        """Take the place of the host's clock."""
        monkeypatch.setattr(sys.modules[__name__], "CLOCK", self)
        monkeypatch.setattr(time, "perf_counter", self.seconds)
        monkeypatch.setattr(time, "perf_counter_ns", self.nanoseconds)
        monkeypatch.setattr(time, "sleep", self.sleep)


CLOCK: Clock | None = None


def _until(moment: float) -> None:
    if CLOCK is not None:
        CLOCK.wait_until(moment)
    while time.perf_counter() < moment:
        pass


class TensorIOMode(enum.Enum):
    NONE, INPUT, OUTPUT = range(3)


class TensorLocation(enum.Enum):
    DEVICE, HOST = range(2)


class DataType(enum.Enum):
    FLOAT, HALF, INT8, INT32, BOOL, UINT8, FP8, BF16 = range(8)


class Trt:
    """As much of the module ``tensorrt`` as a session uses: y = 2 x + 1 on one input."""

    __version__ = "8.6.0"
    TensorIOMode, TensorLocation, DataType = TensorIOMode, TensorLocation, DataType
    LayerInformationFormat = SimpleNamespace(JSON=1)

    class ILogger:
        pass

    class IProfiler:
        pass

    class IOutputAllocator:
        pass

    def __init__(self, cuda: Cudart, *, shape=(-1, 8), dtype=DataType.FLOAT) -> None:
        self.cuda, self.shape, self.dtype = cuda, shape, dtype
        self.refuse: str | None = None
        self.activation = 4096
        self.largest_profile: int | None = None
        self.replay_wrong = self.replay_frozen = False
        self.finds = False  # whether outputs are those rows alone that begin with more than a half
        self.unsteady = False  # whether outputs differ from run to run
        self.written = 1.0
        """Which part of its outputs an engine writes, as one that finds few objects."""
        self.weights: str | None = None
        self.gpu_s = GPU_S
        self.shares_profiles = True
        self.profiles = [((1, 8), (4, 8), (16, 8)), ((1, 8), (32, 8), (64, 8))]
        self.contexts: list[Context] = []
        self.engine = self.logger = None

    def init_libnvinfer_plugins(self, logger, namespace):
        return True

    def Runtime(self, logger):
        self.logger = self.logger or weakref.ref(logger)

        def deserialize(data):
            if self.logger() is None:  # TensorRT goes on using the first one of a process
                os.kill(os.getpid(), signal.SIGSEGV)
            if self.refuse:
                logger.log(SimpleNamespace(name="ERROR"), self.refuse)
                return None
            if log := os.environ.get("STANDIN_GPU_ENGINES"):
                with open(log, "a") as file:
                    file.write(f"{os.getpid()}\n")
            _note_moment("load")
            if (once := os.environ.get("STANDIN_GPU_CRASHES_ONCE")) and _is_first(once):
                os.kill(os.getpid(), signal.SIGSEGV)
            if (once := os.environ.get("STANDIN_GPU_CRASHES_AT_END")) and _is_first(once):
                crash = partial(os.kill, os.getpid(), signal.SIGSEGV)
                os._exit = lambda _: crash()  # type: ignore[assignment]
                self.cuda.cudaDeviceSynchronize = crash  # which begins to free what was made
            if told := os.environ.get("STANDIN_GPU_MOST_ENGINES"):
                path, _, most = told.rpartition(":")
                if _loaded(path) > int(most):
                    logger.log(SimpleNamespace(name="ERROR"), "out of memory")
                    return None
            if told := GPU_TIME.search(bytes(data)):
                self.gpu_s = float(told[1])
            if path := os.environ.get("STANDIN_GPU_PLACES"):
                self.gpu_s *= PLACES[(_loaded(path) - 1) % len(PLACES)]
            if told := WEIGHTS.search(bytes(data)):
                self.weights = told[1].decode()
            if NO_GRAPH in bytes(data):
                self.cuda.capturable = False
            if FROZEN in bytes(data):
                self.replay_frozen = True
            if self.engine is not None and self.engine() is not None:
                self.gpu_s *= 1.05  # slower beside another engine of its process
            self.engine = weakref.ref(engine := Engine(self))
            return engine

        self.runtime = SimpleNamespace(deserialize_cuda_engine=deserialize)
        return self.runtime


class Engine(SimpleNamespace):
    def __init__(self, trt: Trt) -> None:
        super().__init__(
            _trt=trt,
            num_io_tensors=2,
            num_optimization_profiles=len(trt.profiles),
            get_tensor_name=lambda index: ("x", "y")[index],
            get_tensor_mode=lambda name: TensorIOMode.INPUT if name == "x" else TensorIOMode.OUTPUT,
            get_tensor_dtype=lambda name: trt.dtype,
            get_tensor_location=lambda name: TensorLocation.DEVICE,
            get_tensor_vectorized_dim=lambda name: -1,
            get_tensor_components_per_element=lambda name: 1,
            get_tensor_profile_shape=lambda name, profile: trt.profiles[profile],
            create_runtime_config=SimpleNamespace,
        )
        if trt.largest_profile:  # as from TensorRT 10.3 on
            self.device_memory_size_v2 = trt.largest_profile
        else:
            self.device_memory_size = trt.activation

    def get_tensor_shape(self, name):
        return self._trt.shape

    def create_execution_context(self, config=None):
        context = Context(self._trt)
        if self._trt.contexts and not self._trt.shares_profiles:
            context.active_optimization_profile = -1
        self._trt.contexts.append(context)
        return context

    def create_engine_inspector(self):
        layers = [{"Name": "scale"}, {"Name": "shift"}]
        if (kept := self._trt.weights) is not None:
            weights = {"Type": kept, "Count": 4}
            layers = [{**each, "LayerType": "Convolution", "Weights": weights} for each in layers]
        text = json.dumps({"Layers": layers, "Bindings": ["x", "y"]})
        return SimpleNamespace(get_engine_information=lambda kind: text)


class Context:
    profiler: Any = None
    enqueue_emits_profile = True

    def __init__(self, trt: Trt) -> None:
        self._trt, self._shape = trt, trt.shape
        self.addresses: dict[str, int] = {}
        self.active_optimization_profile = 0
        self.plain = 0

    def set_optimization_profile_async(self, index, handle):
        if not self._trt.shares_profiles and len(self._trt.contexts) > 1:
            return False
        self.active_optimization_profile = index
        self._shape = self._trt.shape
        return True

    def set_input_shape(self, name, shape):
        low, _, high = self._trt.profiles[self.active_optimization_profile]
        if not low[0] <= shape[0] <= high[0]:
            return False
        self._shape = tuple(shape)
        return True

    def get_tensor_shape(self, name):
        return (-1, *self._shape[1:]) if name == "y" and self._trt.finds else self._shape

    def get_max_output_size(self, name):
        return int(np.prod(self._shape)) * 4

    def set_output_allocator(self, name, allocator):
        self._room = allocator
        return True

    def infer_shapes(self):
        return []

    def set_tensor_address(self, name, address):
        self.addresses[name] = address
        return True

    def execute_async_v3(self, handle):
        stream = self._trt.cuda.streams[handle]
        _until(time.perf_counter() + ENQUEUE_S)
        if stream.capturing is not None:
            kept = self._input() if self._trt.replay_frozen else None
            stream.capturing.append(lambda stream: self._replay(stream, kept))
            return True
        self.plain += 1
        rows = self._compute(stream)
        if self._trt.finds:  # told when a query is enqueued, never by a graph
            assert self._room.reallocate_output("y", None, rows * 32, 256) == self.addresses["y"]
            self._room.notify_shape("y", (rows, *self._shape[1:]))
        return True

    def report_to_profiler(self):
        for name in ("scale", "shift"):
            self.profiler.report_layer_time(name, 0.2)

    def _replay(self, stream, kept):
        if not self._trt.replay_wrong:
            self._compute(stream, kept)

    def _input(self):
        size = int(np.prod(self._shape)) * 4
        memory = self._trt.cuda.live[self.addresses["x"]]
        return np.frombuffer(bytes(memory[:size]), np.float32)

    def _compute(self, stream, kept=None):
        stream.busy(self._trt.gpu_s)
        x = self._input() if kept is None else kept
        y = (2 * x + 1).astype(np.float32)
        if self._trt.finds:
            y = y.reshape(self._shape)[x.reshape(self._shape)[:, 0] > 0.5].reshape(-1)
        if self._trt.unsteady:
            y *= 1 + np.random.default_rng().random(y.size, np.float32)
        part = y[: int(len(y) * self._trt.written)].tobytes()
        self._trt.cuda.live[self.addresses["y"]][: len(part)] = part
        return len(y) // self._shape[-1]


def plan_bytes(
    version: tuple[int, int, int, int] = (8, 6, 0, 12),
    magic: bytes = b"ftrt",
    *,
    gpu_s: float = GPU_S,
) -> bytes:
    """An engine file as far as its header goes, with the time its queries take."""
    return magic + bytes(20) + bytes(version) + bytes(64) + f"gpu_s={gpu_s};".encode()


def _note_moment(word: str) -> None:
    """Write when it was, for the launch and side of this process's job."""
    if log := os.environ.get("STANDIN_GPU_MOMENTS"):
        job = json.loads(Path(sys.argv[1]).read_bytes())
        with open(log, "a") as file:
            file.write(f"{job.get('launch', 0)} {job.get('mine')} {word} {time.monotonic()}\n")


def _is_first(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


PLACES = (1.0, 1.008, 0.996, 1.003, 1.011, 0.993)
"""What an engine's place in memory does to its time, by how many have loaded before it."""


def _loaded(path: str) -> int:
    """How many processes have engines, this one too; their numbers are kept in a file."""
    with open(path, "a+") as file:
        file.write(f"{os.getpid()}\n")
        file.flush()
        file.seek(0)
        known = {int(line) for line in file}
    return sum(map(still_runs, known))


def _told_to() -> Cudart:
    """A device that fails as the environment says: ``STANDIN_GPU_FAIL=call:code:after``."""
    device = Cudart()
    told = os.environ.get("STANDIN_GPU_FAIL")
    if told:
        name, code, after = told.split(":")
        device.fail[name], device.fail_after[name] = Code(int(code)), int(after)
    return device


CUDA = _told_to()
"""The device of a child process in which modules of ``standin_gpu`` take the place of real ones."""


def _shaped() -> Trt:
    """A library whose engines take what the environment says: ``STANDIN_GPU_SHAPE=-1,1,16,16``."""
    library = Trt(CUDA)
    if told := os.environ.get("STANDIN_GPU_SHAPE"):
        shape = library.shape = tuple(int(dim) for dim in told.split(","))
        library.profiles = [tuple((batch, *shape[1:]) for batch in (1, 4, 16))]
    return library


TRT = _shaped()
