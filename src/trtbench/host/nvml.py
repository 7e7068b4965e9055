"""The one door to NVML: which GPUs there are, and who uses them.

Does not know what is measured on them. Every metric is probed by itself: on a Jetson NVML starts
and then supports almost nothing, so a metric that is refused is absent and the rest stands.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType
from typing import Any, Literal, NamedTuple

from trtbench.domain.result import Gpu, Scalar
from trtbench.domain.spec import Value

MHZ = 1e6


class GpuProcess(Value, frozen=True, kw_only=True):
    """One process that holds a context on a GPU."""

    pid: int
    kind: Literal["compute", "graphics", "mps"]
    memory_bytes: int | None = None
    name: str | None = None


class _NoNvml(Exception):
    """NVML cannot be used here; the text says why."""


@contextmanager
def kept_open(*, nvml: ModuleType | None = None) -> Iterator[None]:
    """Keep NVML started, so that several questions pay for the start once; harmless without it."""
    with ExitStack() as stack:
        with suppress(_NoNvml):
            stack.enter_context(_session(nvml))
        yield


def nvml_problem(*, nvml: ModuleType | None = None) -> str | None:
    """Say why no GPU can be seen; ``None`` when at least one can."""
    try:
        with _session(nvml) as door:
            count = _call(door, "nvmlDeviceGetCount")
    except _NoNvml as problem:
        return str(problem)
    return None if count else "the NVIDIA driver answers, and lists no GPU"


def gpus(*, nvml: ModuleType | None = None) -> tuple[Gpu, ...]:
    """Return the GPUs NVML lists, in its order; empty when there is none (see `nvml_problem`)."""
    try:
        with _session(nvml) as door:
            count = _call(door, "nvmlDeviceGetCount") or 0
            return tuple(_gpu(door, index) for index in range(count))
    except _NoNvml:
        return ()


def slices(index: int, *, nvml: ModuleType | None = None) -> tuple[Gpu, ...]:
    """Return the MIG slices of a GPU, in NVML's order; empty where it is not divided."""
    try:
        with _session(nvml) as door:
            handle = _call(door, "nvmlDeviceGetHandleByIndex", index)
            if not _first(_call(door, "nvmlDeviceGetMigMode", handle)):
                return ()
            most = _call(door, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0
            found = [
                _call(door, "nvmlDeviceGetMigDeviceHandleByIndex", handle, n) for n in range(most)
            ]
            return tuple(_slice(_asker(door, each)) for each in found if each is not None)
    except _NoNvml:
        return ()


def _slice(ask: Callable[..., Any]) -> Gpu:
    memory = ask("nvmlDeviceGetMemoryInfo")
    return Gpu(
        name=_text(ask("nvmlDeviceGetName")) or "MIG slice",
        uuid=_text(ask("nvmlDeviceGetUUID")),
        memory_bytes=None if memory is None else int(memory.total),
    )


def processes(uuid: str, *, nvml: ModuleType | None = None) -> tuple[GpuProcess, ...] | None:
    """Return the processes on a GPU, this one included; ``None`` when NVML does not tell."""
    try:
        with _session(nvml) as door:
            handle = _call(door, "nvmlDeviceGetHandleByUUID", uuid)
            return None if handle is None else _processes(door, handle)
    except _NoNvml:
        return None


def sharing(uuid: str, *, nvml: ModuleType | None = None) -> dict[str, Scalar]:
    """Return signs that a GPU is not ours alone; what NVML does not tell is absent.

    Keys: ``processes`` (a count), ``utilisation`` (a fraction), ``display``, ``mig``, ``mps``,
    ``exclusive`` (compute mode allows one process).
    """
    try:
        with _session(nvml) as door:
            handle = _call(door, "nvmlDeviceGetHandleByUUID", uuid)
            return {} if handle is None else _sharing(door, handle)
    except _NoNvml:
        return {}


class Refusal(NamedTuple):
    """Why a device did not do what it was told."""

    reason: str
    needs_root: bool = False


class Device:
    """One GPU with NVML kept open; a question that is refused once is not asked again."""

    def __init__(self, door: ModuleType, handle: object, part: object = None) -> None:
        self._door, self._handle = door, handle
        self._part = handle if part is None else part
        self._refused: set[tuple[object, ...]] = set()

    def ask(self, name: str, *arguments: object) -> Any:
        """Ask by the name of a function; ``None`` when the device does not tell."""
        key = (name, *(argument for argument in arguments if isinstance(argument, int)))
        if key in self._refused:
            return None
        answer = _call(self._door, name, self._handle, *arguments)
        if answer is None:
            self._refused.add(key)
        return answer

    def ask_part(self, name: str) -> Any:
        """Ask of the slice in use what slices have of their own: memory, processes."""
        return _call(self._door, name, self._part)

    def command(self, name: str, *arguments: object) -> Refusal | None:
        """Tell the device to do something; gives the reason when it is not done."""
        function = getattr(self._door, name, None)
        if function is None:
            return Refusal(f"nvidia-ml-py has no {name}")
        try:
            function(self._handle, *arguments)
        except Exception as problem:  # NVML has a class for each refusal
            return Refusal(str(problem), needs_root="NoPermission" in type(problem).__name__)
        return None

    def sm_clock_hz(self) -> float | None:
        """Ask for the SM clock of this moment."""
        return _scaled(self.ask("nvmlDeviceGetClockInfo", _clock(self._door, "SM")), MHZ)

    def number(self, name: str, default: int) -> int:
        """Look up a constant of NVML's by its name."""
        return int(getattr(self._door, name, default))


@contextmanager
def opened(
    index: int, *, part: str | None = None, nvml: ModuleType | None = None
) -> Iterator[Device | None]:
    """Keep one GPU at hand, with a MIG slice of it by its UUID; ``None`` where NVML lacks it."""
    with ExitStack() as stack:
        found = None
        with suppress(_NoNvml):
            door = stack.enter_context(_session(nvml))
            handle = _call(door, "nvmlDeviceGetHandleByIndex", index)
            own = None if part is None else _call(door, "nvmlDeviceGetHandleByUUID", part)
            found = None if handle is None else Device(door, handle, own)
        yield found


def _sharing(door: ModuleType, handle: object) -> dict[str, Scalar]:
    ask = _asker(door, handle)
    others = _processes(door, handle)
    rates = ask("nvmlDeviceGetUtilizationRates")
    mig = _first(ask("nvmlDeviceGetMigMode"))
    mode = ask("nvmlDeviceGetComputeMode")
    exclusive = getattr(door, "NVML_COMPUTEMODE_EXCLUSIVE_PROCESS", 3)
    signs: dict[str, Scalar] = {
        "processes": None if others is None else len(others),
        "utilisation": None if rates is None else rates.gpu / 100,
        "display": _flag(ask("nvmlDeviceGetDisplayActive")),
        "mig": _flag(mig),
        "mps": bool(ask("nvmlDeviceGetMPSComputeRunningProcesses")),
        "exclusive": None if mode is None else mode == exclusive,
    }
    return {name: value for name, value in signs.items() if value is not None}


def _gpu(door: ModuleType, index: int) -> Gpu:
    handle = _call(door, "nvmlDeviceGetHandleByIndex", index)
    driver = _text(_call(door, "nvmlSystemGetDriverVersion"))
    cuda = _cuda_text(_call(door, "nvmlSystemGetCudaDriverVersion_v2"))
    unnamed = f"GPU {index}"
    if handle is None:
        return Gpu(name=unnamed, driver=driver, cuda=cuda)
    ask = _asker(door, handle)
    capability = ask("nvmlDeviceGetCudaComputeCapability")
    memory = ask("nvmlDeviceGetMemoryInfo")
    return Gpu(
        name=_text(ask("nvmlDeviceGetName")) or unnamed,
        uuid=_text(ask("nvmlDeviceGetUUID")),
        driver=driver,
        cuda=cuda,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        memory_bytes=None if memory is None else int(memory.total),
        sm_clock_hz=_scaled(ask("nvmlDeviceGetClockInfo", _clock(door, "SM")), MHZ),
        sm_clock_max_hz=_scaled(ask("nvmlDeviceGetMaxClockInfo", _clock(door, "SM")), MHZ),
        memory_clock_hz=_scaled(ask("nvmlDeviceGetClockInfo", _clock(door, "MEM")), MHZ),
        power_limit_w=_scaled(ask("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
        temperature_c=_scaled(ask("nvmlDeviceGetTemperature", _sensor(door)), 1.0),
        persistence=_flag(ask("nvmlDeviceGetPersistenceMode")),
        ecc=_flag(_first(ask("nvmlDeviceGetEccMode"))),
    )


def _processes(door: ModuleType, handle: object) -> tuple[GpuProcess, ...] | None:
    ask = _asker(door, handle)
    lists: dict[Literal["compute", "graphics", "mps"], Any] = {
        "compute": ask("nvmlDeviceGetComputeRunningProcesses"),
        "graphics": ask("nvmlDeviceGetGraphicsRunningProcesses"),
        "mps": ask("nvmlDeviceGetMPSComputeRunningProcesses"),
    }
    if all(listed is None for listed in lists.values()):
        return None
    found: dict[int, GpuProcess] = {}
    for kind, listed in lists.items():
        for item in listed or ():
            # One process can be in several lists; the first tells what it is.
            found.setdefault(item.pid, _process(door, item, kind=kind))
    return tuple(found.values())


def _process(
    door: ModuleType, item: Any, *, kind: Literal["compute", "graphics", "mps"]
) -> GpuProcess:
    return GpuProcess(
        pid=item.pid,
        kind=kind,
        memory_bytes=item.usedGpuMemory,
        name=_text(_call(door, "nvmlSystemGetProcessName", item.pid)),
    )


@contextmanager
def _session(nvml: ModuleType | None) -> Iterator[ModuleType]:
    door = nvml if nvml is not None else _pynvml()
    try:
        door.nvmlInit()
    except Exception as problem:
        raise _NoNvml(_reason(problem)) from None
    try:
        yield door
    finally:
        _call(door, "nvmlShutdown")


def _pynvml() -> ModuleType:
    try:
        return importlib.import_module("pynvml")
    except Exception as problem:
        raise _NoNvml(f"nvidia-ml-py cannot be imported: {problem}") from None


def _reason(problem: Exception) -> str:
    """Put NVML's refusal in words; its classes carry the code in their name."""
    reasons = {
        "NVMLError_LibraryNotFound": "no NVIDIA driver is installed (libnvidia-ml is not found)",
        "NVMLError_DriverNotLoaded": "the NVIDIA driver is installed but not loaded",
        "NVMLError_NoPermission": "this user may not talk to the NVIDIA driver",
        "NVMLError_LibRmVersionMismatch": (
            "the NVIDIA driver was updated and the old one is still loaded: reboot"
        ),
    }
    name = type(problem).__name__
    return reasons.get(name, f"NVML does not start: {problem} ({name})")


def _asker(door: ModuleType, handle: object) -> Callable[..., Any]:
    return lambda name, *arguments: _call(door, name, handle, *arguments)


def _call(door: ModuleType, name: str, *arguments: object) -> Any:
    """Call a function by name; an older nvidia-ml-py may lack it."""
    function = getattr(door, name, None)
    return None if function is None else _probe(function, *arguments)


def _probe(function: Callable[..., Any], *arguments: object) -> Any:
    """Call and turn any refusal into ``None``: NVML has a dozen ways to say it does not know."""
    try:
        return function(*arguments)
    except Exception:
        return None


def _clock(door: ModuleType, kind: Literal["SM", "MEM"]) -> int:
    return int(getattr(door, f"NVML_CLOCK_{kind}", {"SM": 1, "MEM": 2}[kind]))


def _sensor(door: ModuleType) -> int:
    return int(getattr(door, "NVML_TEMPERATURE_GPU", 0))


def _text(value: str | bytes | None) -> str | None:
    """Decode what older bindings answer in bytes."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value or None


def _cuda_text(version: int | None) -> str | None:
    """Write 12040 as 12.4."""
    return f"{version // 1000}.{version % 1000 // 10}" if version else None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _first(pair: Sequence[int] | None) -> int | None:
    """Take the present setting, where NVML answers with the pending one too."""
    return None if pair is None else pair[0]
