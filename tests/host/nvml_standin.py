"""A stand-in for nvidia-ml-py: a GPU host, a Jetson, or a machine without a driver."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

T = TypeVar("T")


class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):
    pass


class NVMLError_LibraryNotFound(NVMLError):
    pass


class NVMLError_DriverNotLoaded(NVMLError):
    pass


class StandIn:
    """Answers like a host with one GPU; names in ``refused`` raise NotSupported."""

    UUID = "GPU-00000000-1111-2222-3333-444444444444"

    def __init__(self, *, refused: set[str] | None = None, as_bytes: bool = False) -> None:
        self.refused = refused or set()
        self.as_bytes = as_bytes
        self.sessions = 0
        self.compute = [SimpleNamespace(pid=71, usedGpuMemory=3 * 2**30)]
        self.graphics = [
            SimpleNamespace(pid=71, usedGpuMemory=3 * 2**30),
            SimpleNamespace(pid=9, usedGpuMemory=None),
        ]

    def nvmlInit(self) -> None:
        self.sessions += 1

    def nvmlShutdown(self) -> None:
        self.sessions -= 1

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        answers = self._answers()
        if name not in answers:
            raise AttributeError(name)

        def function(*arguments: Any) -> Any:
            if self.sessions < 1:
                raise NVMLError("used outside a session")
            if name in self.refused or "everything" in self.refused:
                raise NVMLError_NotSupported(name)
            answer = answers[name]
            return answer(*arguments) if callable(answer) else answer

        return function

    def _text(self, text: str) -> str | bytes:
        return text.encode() if self.as_bytes else text

    def _answers(self) -> dict[str, Any]:
        return {
            "nvmlSystemGetDriverVersion": self._text("550.54.15"),
            "nvmlSystemGetCudaDriverVersion_v2": 12040,
            "nvmlDeviceGetHandleByIndex": lambda index: f"handle {index}",
            "nvmlDeviceGetHandleByUUID": self._handle,
            "nvmlDeviceGetName": self._text("NVIDIA Test 4000"),
            "nvmlDeviceGetUUID": self._text(self.UUID),
            "nvmlDeviceGetCudaComputeCapability": (8, 9),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=20 * 2**30, free=18 * 2**30),
            "nvmlDeviceGetClockInfo": lambda handle, kind: {1: 1980, 2: 9001}[kind],
            "nvmlDeviceGetMaxClockInfo": lambda handle, kind: {1: 2100, 2: 9001}[kind],
            "nvmlDeviceGetEnforcedPowerLimit": 130000,
            "nvmlDeviceGetTemperature": lambda handle, sensor: 41,
            "nvmlDeviceGetPersistenceMode": 1,
            "nvmlDeviceGetEccMode": [0, 1],
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=12, memory=3),
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetDisplayActive": 1,
            "nvmlDeviceGetComputeMode": 0,
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: self.compute,
            "nvmlDeviceGetGraphicsRunningProcesses": lambda handle: self.graphics,
        }

    def _handle(self, uuid: str) -> str:
        if uuid != self.UUID:
            raise NVMLError("not found")
        return "handle 0"


class Refusing:
    """A module whose NVML does not start."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    def nvmlInit(self) -> None:
        raise self.problem


@contextmanager
def using(door: object) -> Iterator[None]:
    """Put a stand-in in the place of nvidia-ml-py for the length of the block."""
    with patch.dict("sys.modules", pynvml=door):
        yield


def through(door: object, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Call a function with a stand-in in the place of nvidia-ml-py."""
    with using(door):
        return call(*arguments, **named)
