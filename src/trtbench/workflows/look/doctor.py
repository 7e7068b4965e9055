"""What is installed, which runtimes work here, and what to type to get what is missing."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Protocol

from trtbench.boundary import at_home
from trtbench.domain.result import Gpu
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import Value
from trtbench.errors import TrtbenchError
from trtbench.extras import EXTRAS
from trtbench.host import nvml, programs, versions
from trtbench.host.environment import mps_settings
from trtbench.host.machine import container
from trtbench.runtimes import RUNTIMES
from trtbench.units import text_from_bytes
from trtbench.workflows.look.probe import probe

Status = Literal["ok", "missing", "broken", "info"]

WORKING = "runtimes"
NEEDED = ("numpy", "nvidia-ml-py")
OPTIONAL = (
    "onnx",
    "onnxruntime",
    "torch",
    "torchvision",
    "tensorrt",
    "tensorrt-rtx",
    "cuda-bindings",
)


class Check(Value, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str
    fix: str | None = None
    """What to type to get it."""
    origin: str | None = None
    """Where a setting came from; ``None`` for everything else."""


class CheckGroup(Value, frozen=True, kw_only=True):
    """Checks that belong together."""

    name: str
    checks: tuple[Check, ...]


class Diagnosis(ShortView, Value, frozen=True, kw_only=True):
    """All that was looked at, in groups."""

    groups: tuple[CheckGroup, ...]

    def group(self, name: str) -> CheckGroup:
        """Return one group by its name."""
        return next(group for group in self.groups if group.name == name)

    @property
    def working_runtimes(self) -> tuple[str, ...]:
        """The runtimes a benchmark can use here."""
        return tuple(c.name for c in self.group(WORKING).checks if c.status == "ok")


class Configured(Protocol):
    """The part of the configuration that can be shown."""

    @property
    def origins(self) -> dict[str, str]: ...

    def settings(self) -> dict[str, str]: ...


def diagnose(*, config: Configured | None = None) -> Diagnosis:
    """Look around without changing anything; the configuration is loaded unless one is given."""
    problem = None
    if config is None:
        config, problem = _loaded_config()
    settings = config.settings() if config is not None else {}
    gpus = nvml.gpus()
    named = {
        "Python and packages": _packages(gpus),
        WORKING: [_runtime(name, settings=settings) for name in RUNTIMES.names()],
        "GPU and driver": _gpus(gpus),
        "extras": _extras(),
        "tools": [_trtexec()],
        "code of other packages": _plug_ins(),
        "store": _store(settings),
        "configuration": [problem] if problem else _settings(config),
    }
    return Diagnosis(groups=tuple(CheckGroup(name=n, checks=tuple(c)) for n, c in named.items()))


def _loaded_config() -> tuple[Configured | None, Check | None]:
    from trtbench.workflows.request.config import load_config

    try:
        return load_config(), None
    except TrtbenchError as error:
        facts = "; ".join(f"{name} {value}" for name, value in error.facts.items())
        detail = f"{error.message} ({facts})" if facts else error.message
        return None, Check(name="trtbench.toml", status="broken", detail=detail, fix=error.fix)


def _packages(gpus: tuple[Gpu, ...]) -> Iterable[Check]:
    detail = f"{platform.python_version()}, {sys.executable}"
    yield Check(name="Python", status="ok", detail=detail)
    found = versions.library_versions(("trtbench", *NEEDED, *OPTIONAL))
    yield Check(name="trtbench", status="ok", detail=found.get("trtbench", "not installed"))
    for name in (*NEEDED, *OPTIONAL):
        provided = versions.distribution_versions(name)
        if provided:
            yield _package(name, provided)
        else:
            fix = f"pip install {_requirement(name, gpus)}"
            yield Check(name=name, status="missing", detail="not installed", fix=fix)


def _extras() -> Iterable[Check]:
    """Say what each extra adds, and which of them are whole here."""
    for name, extra in EXTRAS.items():
        missing = [each for each in extra.packages if importlib.util.find_spec(each) is None]
        yield Check(
            name=name,
            status="missing" if missing else "ok",
            detail=extra.adds,
            fix=f"pip install 'trtbench[{name}]'" if missing else None,
        )


def _package(name: str, provided: dict[str, str]) -> Check:
    telling, version = next(iter(provided.items()))
    if name == "onnxruntime" and len(provided) > 1:
        both = " and ".join(provided)
        return Check(
            name=name,
            status="broken",
            detail=f"{both} are both installed, and overwrite each other's files",
            fix=f"pip uninstall -y {' '.join(provided)} && pip install {list(provided)[-1]}",
        )
    detail = version if telling == name else f"{version} ({telling})"
    return Check(name=name, status="ok", detail=detail)


def _requirement(name: str, gpus: tuple[Gpu, ...]) -> str:
    """Say what to ask pip for: CUDA packages must not be newer than the driver's CUDA."""
    cuda = next((gpu.cuda for gpu in gpus if gpu.cuda), None)
    older = cuda is not None and int(cuda.partition(".")[0]) < 13
    if name == "cuda-bindings":
        return "'cuda-bindings==12.9.*'" if older else name
    if name == "tensorrt":
        return "tensorrt-cu12" if older else "tensorrt-cu13"
    if name == "tensorrt-rtx":
        return "tensorrt-rtx-cu12" if older else "tensorrt-rtx-cu13"
    return name


def _runtime(name: str, *, settings: dict[str, str]) -> Check:
    python = settings.get(f"runtimes.{name}.python") or sys.executable
    answer = probe(name, python=python)
    where, fix = "", answer.fix
    if python != sys.executable:
        where = f" ({python})"
        fix = f"{python} -m {fix}" if fix and fix.startswith("pip ") else fix
    if answer.problem is not None:
        return Check(name=name, status="broken", detail=f"{answer.problem}{where}", fix=fix)
    if answer.reason is not None:
        return Check(name=name, status="missing", detail=f"{answer.reason}{where}", fix=fix)
    return Check(name=name, status="ok", detail=f"works here{where}")


def _gpus(gpus: tuple[Gpu, ...]) -> Iterable[Check]:
    problem = nvml.nvml_problem()
    if problem is not None:
        yield Check(name="driver", status="missing", detail=problem, fix=_driver_fix())
        return
    driver, cuda = gpus[0].driver or "unknown version", gpus[0].cuda or "unknown"
    yield Check(name="driver", status="ok", detail=f"{driver}, CUDA {cuda}")
    for index, gpu in enumerate(gpus):
        yield from _gpu(index, gpu)
    yield from _mps()


def _gpu(index: int, gpu: Gpu) -> Iterable[Check]:
    """Show a GPU, and each MIG slice of it: CUDA opens these, not the whole."""
    parts, name = nvml.slices(index), f"GPU {index}"
    signs = nvml.sharing(gpu.uuid) if gpu.uuid else {}
    if not signs.get("mig"):
        said = ("shared by MPS" if signs.get("mps") else None,
                "takes one process at a time" if signs.get("exclusive") else None)  # fmt: skip
        yield Check(name=name, status="ok", detail=_gpu_text(gpu, *said))
        return
    if not parts:
        yield Check(
            name=name,
            status="broken",
            detail=f"{_gpu_text(gpu)}, in MIG mode without a slice: nothing can run on it",
            fix=f"sudo nvidia-smi mig -i {index} -lgip lists sizes, -cgi SIZE -C makes a slice; or "
            f"sudo nvidia-smi -i {index} -mig 0",
        )
        return
    yield Check(name=name, status="ok", detail=_gpu_text(gpu, f"{len(parts)} MIG slices"))
    for number, part in enumerate(parts):
        seen = f"CUDA_VISIBLE_DEVICES={part.uuid}" if part.uuid else None
        yield Check(name=f"{name} slice {number}", status="ok", detail=_gpu_text(part, seen))


def _mps() -> Iterable[Check]:
    """Say whether programs that are started from here go through MPS, and with what share."""
    settings = mps_settings()
    words = {
        "mps_daemon": "its daemon's pipes are in {}",
        "mps_thread_percentage": "{} % of the SMs (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE)",
        "mps_memory_limit": "memory up to {} (CUDA_MPS_PINNED_DEVICE_MEM_LIMIT)",
    }
    said = [words[name].format(value) for name, value in settings.items()]
    if said:
        yield Check(name="MPS", status="info", detail=", ".join(said))


def _driver_fix() -> str:
    if container(root=Path("/")):
        return "start the container with --gpus all (needs the NVIDIA container toolkit)"
    return "install the driver: sudo ubuntu-drivers install, or https://www.nvidia.com/drivers"


def _gpu_text(gpu: Gpu, *further: str | None) -> str:
    capability = f"compute capability {gpu.compute_capability}" if gpu.compute_capability else None
    memory = text_from_bytes(gpu.memory_bytes) if gpu.memory_bytes else None
    limit = f"power limit {gpu.power_limit_w:.0f} W" if gpu.power_limit_w else None
    others = nvml.processes(gpu.uuid) if gpu.uuid else None
    count = len(others or ())
    use = f"in use by {count} {'process' if count == 1 else 'processes'}" if count else None
    return ", ".join(filter(None, (gpu.name, capability, memory, limit, use, *further)))


def _trtexec() -> Check:
    found = programs.find_trtexec()
    if found is not None:
        return Check(name="trtexec", status="ok", detail=str(found))
    looked = " or ".join(["PATH", *map(str, programs.TRTEXEC_FOLDERS)])
    return Check(
        name="trtexec",
        status="missing",
        detail=f"not on {looked}",
        fix="sudo apt install libnvinfer-bin, or put trtexec on PATH",
    )


def _plug_ins() -> Iterable[Check]:
    """List who adds code to this program: it is run whenever a plug-in is listed or chosen."""
    from trtbench.registry import foreign_plug_ins

    for found in foreign_plug_ins():
        detail = f"{found.value}, of {found.package} {found.version} in {found.folder}"
        yield Check(name=f"{found.noun} {found.name}", status="info", detail=detail)


def _store(settings: dict[str, str]) -> Iterable[Check]:
    location = settings.get("store")
    if location is None:
        yield Check(name="store", status="info", detail="not known without a configuration")
        return
    if "://" in location:
        yield Check(name="store", status="info", detail=f"{location}, not tried")
        return
    path = at_home(location)
    existing = next(p for p in (path, *path.absolute().parents) if os.path.lexists(p))
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        yield Check(
            name="store",
            status="broken",
            detail=f"{path} cannot be written",
            fix=f"chmod u+rwx {existing}, or set another one: export TRTBENCH_STORE=DIR",
        )
        return
    free = f"{text_from_bytes(shutil.disk_usage(existing).free)} free"
    if existing == path:
        yield Check(name="store", status="ok", detail=f"{path}, {free}")
    else:
        yield Check(name="store", status="info", detail=f"{path}, made by the first run, {free}")


def _settings(config: Configured | None) -> Iterable[Check]:
    if config is None:
        return
    for name, value in sorted(config.settings().items()):
        origin = config.origins.get(name)
        yield Check(name=name, status="info", detail=value, origin=origin)
