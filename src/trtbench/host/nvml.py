"""NVML: lists GPUs, their numbers in CUDA, and their users. No other module imports NVML.

Every metric is queried separately: on a Jetson, NVML starts but supports almost nothing, so an
unsupported metric is absent and the others are kept.
"""

import importlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType
from typing import Any

from trtbench.core.run import Gpu, Scalar

MHZ = 1e6
CLOCK_SM, CLOCK_MEMORY, TEMPERATURE_GPU, EXCLUSIVE_PROCESS = 1, 2, 0, 3
"""NVML's constants for two clocks, a sensor and a compute mode, equal in all its versions."""
SLOT_VARIABLE = "TRTBENCH_CPU_SLOT"
"""Set if several CPU runs share this machine on purpose: each slot has its own lock."""

_RUNNING = ("Compute", "Graphics", "MPSCompute")
_REASONS = {
    "NVMLError_LibraryNotFound": "no NVIDIA driver is installed (libnvidia-ml is not found)",
    "NVMLError_DriverNotLoaded": "the NVIDIA driver is installed but not loaded",
    "NVMLError_NoPermission": "this user has no permission to use the NVIDIA driver",
    "NVMLError_LibRmVersionMismatch": (
        "the NVIDIA driver was updated and the old one is still loaded: reboot"
    ),
}


class _NoNvml(Exception):
    """NVML cannot be used here; the text says why."""


@contextmanager
def _session() -> Iterator[ModuleType]:
    try:
        library = importlib.import_module("pynvml")
    except Exception as problem:
        raise _NoNvml(f"nvidia-ml-py cannot be imported: {problem}") from None
    try:
        library.nvmlInit()
    except Exception as problem:  # NVML's exception classes are named after the error code
        name = type(problem).__name__
        raise _NoNvml(_REASONS.get(name, f"NVML does not start: {problem} ({name})")) from None
    try:
        yield library
    finally:
        _call(library, "nvmlShutdown")


def _call(library: ModuleType, name: str, *arguments: object) -> Any:
    """Call a function by name; returns ``None`` if it fails, or nvidia-ml-py lacks it."""
    try:
        return getattr(library, name)(*arguments)
    except Exception:
        return None


@contextmanager
def keep_open() -> Iterator[None]:
    """Keep NVML initialized during the block, which speeds up several queries."""
    with ExitStack() as stack:
        with suppress(_NoNvml):
            stack.enter_context(_session())
        yield


def nvml_problem() -> str | None:
    """Return why NVML shows no GPU; ``None`` if it shows at least one."""
    try:
        with _session() as library:
            count = _call(library, "nvmlDeviceGetCount")
    except _NoNvml as problem:
        return str(problem)
    return None if count else "the NVIDIA driver works, but lists no GPU"


def gpus() -> tuple[Gpu, ...]:
    """Return the GPUs in NVML's order; empty if there are none (see `nvml_problem`)."""
    found = []
    with suppress(_NoNvml), _session() as library:
        driver = _text(_call(library, "nvmlSystemGetDriverVersion"))
        version = _call(library, "nvmlSystemGetCudaDriverVersion_v2")  # 12040 for 12.4
        cuda = f"{version // 1000}.{version % 1000 // 10}" if version else None
        for index in range(_call(library, "nvmlDeviceGetCount") or 0):
            ask = Device(library, _call(library, "nvmlDeviceGetHandleByIndex", index)).ask
            capability = ask("nvmlDeviceGetCudaComputeCapability")
            found.append(
                Gpu(
                    name=_text(ask("nvmlDeviceGetName")) or f"GPU {index}",
                    uuid=_text(ask("nvmlDeviceGetUUID")),
                    driver=driver,
                    cuda=cuda,
                    compute_capability=".".join(map(str, capability)) if capability else None,
                    memory_bytes=_memory(ask),
                    sm_clock_hz=scaled(ask("nvmlDeviceGetClockInfo", CLOCK_SM), MHZ),
                    sm_clock_max_hz=scaled(ask("nvmlDeviceGetMaxClockInfo", CLOCK_SM), MHZ),
                    memory_clock_hz=scaled(ask("nvmlDeviceGetClockInfo", CLOCK_MEMORY), MHZ),
                    power_limit_w=scaled(ask("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
                    temperature_c=scaled(ask("nvmlDeviceGetTemperature", TEMPERATURE_GPU), 1.0),
                    persistence=_flag(ask("nvmlDeviceGetPersistenceMode")),
                    ecc=_flag(_first(ask("nvmlDeviceGetEccMode"))),
                )
            )
    return tuple(found)


def slices(index: int) -> tuple[Gpu, ...]:
    """Return the MIG slices of a GPU in NVML's order; empty if it is not divided."""
    found = []
    with suppress(_NoNvml), _session() as library:
        handle = _call(library, "nvmlDeviceGetHandleByIndex", index)
        if not _first(_call(library, "nvmlDeviceGetMigMode", handle)):
            return ()
        for number in range(_call(library, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            part = _call(library, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
            if part is not None:
                ask = Device(library, part).ask
                name = _text(ask("nvmlDeviceGetName")) or "MIG slice"
                uuid = _text(ask("nvmlDeviceGetUUID"))
                found.append(Gpu(name=name, uuid=uuid, memory_bytes=_memory(ask)))
    return tuple(found)


def sharing_signs(uuid: str) -> dict[str, Scalar]:
    """Return signs that a GPU is shared; values that NVML does not report are absent.

    Keys: ``processes`` (a count, including this one), ``utilisation`` (a fraction), ``display``,
    ``mig``, ``mps``, ``exclusive`` (compute mode allows one process).
    """
    with suppress(_NoNvml), _session() as library:
        handle = _call(library, "nvmlDeviceGetHandleByUUID", uuid)
        if handle is None:
            return {}
        ask = Device(library, handle).ask
        rates = ask("nvmlDeviceGetUtilizationRates")
        mode = ask("nvmlDeviceGetComputeMode")
        lists = [ask(f"nvmlDeviceGet{kind}RunningProcesses") for kind in _RUNNING]
        running = {item.pid for listed in lists for item in listed or ()}
        signs: dict[str, Scalar] = {
            "processes": len(running) if any(each is not None for each in lists) else None,
            "utilisation": None if rates is None else rates.gpu / 100,
            "display": _flag(ask("nvmlDeviceGetDisplayActive")),
            "mig": _flag(_first(ask("nvmlDeviceGetMigMode"))),
            "mps": bool(lists[-1]),
            "exclusive": None if mode is None else mode == EXCLUSIVE_PROCESS,
        }
        return {name: value for name, value in signs.items() if value is not None}
    return {}


class Device:
    """One GPU with NVML kept open; a query that fails once is not repeated."""

    def __init__(self, library: ModuleType, handle: object, part: object = None) -> None:
        self._library, self._handle = library, handle
        self._part = handle if part is None else part
        self._refused: set[tuple[object, ...]] = set()

    def ask(self, name: str, *arguments: object) -> Any:
        """Call a function of NVML by its name; returns ``None`` if it is not supported."""
        key = (name, *(argument for argument in arguments if isinstance(argument, int)))
        if key in self._refused or self._handle is None:
            return None
        answer = _call(self._library, name, self._handle, *arguments)
        if answer is None:
            self._refused.add(key)
        return answer

    def ask_part(self, name: str) -> Any:
        """Query the MIG slice in use, for values that belong to a slice: memory, processes."""
        return _call(self._library, name, self._part)

    def command(self, name: str, *arguments: object) -> Exception | None:
        """Send the device a command; returns the exception if it was rejected, else ``None``."""
        try:
            getattr(self._library, name)(self._handle, *arguments)
        except Exception as problem:  # NVML has an exception class for each error
            return problem
        return None

    def sm_clock_hz(self) -> float | None:
        return scaled(self.ask("nvmlDeviceGetClockInfo", CLOCK_SM), MHZ)


@contextmanager
def opened(index: int, *, part: str | None = None) -> Iterator[Device | None]:
    """Open a GPU for the block, with its MIG slice of a UUID; yields ``None`` if NVML lacks it."""
    with ExitStack() as stack:
        found = None
        with suppress(_NoNvml):
            library = stack.enter_context(_session())
            handle = _call(library, "nvmlDeviceGetHandleByIndex", index)
            own = None if part is None else _call(library, "nvmlDeviceGetHandleByUUID", part)
            found = None if handle is None else Device(library, handle, own)
        yield found


def _memory(ask: Callable[..., Any]) -> int | None:
    memory = ask("nvmlDeviceGetMemoryInfo")
    return None if memory is None else int(memory.total)


def _text(value: str | bytes | None) -> str | None:
    """Decode text that older bindings return as bytes."""
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else value) or None


def scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _first(pair: Sequence[int] | None) -> int | None:
    """Return the current setting of a pair of current and pending ones."""
    return None if pair is None else pair[0]


def lock_name(device: str) -> str:
    """Return a name of a device that is the same in all processes of the machine."""
    if device == "cpu":
        slot = os.environ.get(SLOT_VARIABLE, "0")
        return device if slot == "0" else f"cpu-{slot}"
    seen = _visible(device)
    return gpu_uuid(device) or (f"cuda:{seen[0]}" if seen else device)


def gpu_uuid(device: str) -> str | None:
    """Return the UUID of a CUDA device; ``None`` if NVML does not know it."""
    seen = _visible(device)
    if seen is None:
        return None
    name, _, gpu = seen
    if gpu is None:  # a UUID may be one that NVML does not list
        return None if name.isdecimal() else name
    return gpu.uuid


def _visible(device: str) -> tuple[str, int | None, Gpu | None] | None:
    match, visible = re.fullmatch(r"cuda(?::(\d+))?", device), _visible_devices()
    number = int(match[1] or 0) if match else len(visible)
    return visible[number] if number < len(visible) else None


def _visible_devices() -> list[tuple[str, int | None, Gpu | None]]:
    """List the devices that CUDA shows to this process: name, NVML's number, and GPU.

    CUDA accepts an index, a UUID or the start of one; of a divided GPU it uses the first slice.
    """
    known = devices()
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    words = map(str, range(len(known))) if listed is None else map(str.strip, listed.split(","))
    found: list[tuple[str, int | None, Gpu | None]] = []
    for name in filter(None, words):
        if name.isdecimal():
            number = int(name)
            found.append((name, number, known[number][1][0] if number < len(known) else None))
            continue
        fits = (
            (name, number, parts[0] if each is whole else each)
            for number, (whole, parts) in enumerate(known)
            for each in (whole, *parts)
            if (each.uuid or "").startswith(name)
        )
        found.append(next(fits, (name, None, None)))
    return found


def devices() -> list[tuple[Gpu, tuple[Gpu, ...]]]:
    """Return each GPU with the devices that CUDA can open on it: itself, or its MIG slices."""
    return [(gpu, slices(index) or (gpu,)) for index, gpu in enumerate(gpus())]


def gpus_in_use() -> tuple[Gpu, ...]:
    """Return the GPUs in NVML's order; a divided one is shown as its slice that is visible here."""
    seen = {index: gpu for _, index, gpu in reversed(_visible_devices()) if gpu}
    pairs = [(whole, seen.get(n, parts[0])) for n, (whole, parts) in enumerate(devices())]
    return tuple(
        whole.having(name=part.name, uuid=part.uuid, memory_bytes=part.memory_bytes)
        for whole, part in pairs
    )


def gpu_in_use() -> Gpu | None:
    """Return the GPU, or the MIG slice, that is ``cuda:0`` in this process."""
    used, index = gpus_in_use() if _visible_devices() else (), visible_index(0)
    return used[index] if index < len(used) else None


def slice_in_use(index: int) -> str | None:
    """Return the UUID of a GPU's MIG slice that is visible here; ``None`` if it is not divided."""
    used = gpus_in_use()
    uuid = used[index].uuid if index < len(used) else None
    return uuid if uuid and uuid.startswith("MIG-") else None


def visible_index(index: int) -> int:
    """Return NVML's number of a CUDA device: CUDA counts only GPUs in ``CUDA_VISIBLE_DEVICES``."""
    visible = _visible_devices()
    number = visible[index][1] if index < len(visible) else None
    return index if number is None else number
