"""Checks what is installed and which runtimes work, with fixes for what is missing."""

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from trtbench.core.errors import TrtbenchError
from trtbench.core.plugins import EXTRAS, foreign_plug_ins
from trtbench.core.results import ShortView
from trtbench.core.run import Gpu
from trtbench.core.safety import expand_home
from trtbench.core.spec import Value
from trtbench.core.units import counted, text_from_bytes
from trtbench.host import machine as versions
from trtbench.host import nvml
from trtbench.host import process as programs
from trtbench.host.files import temporary_folder
from trtbench.host.machine import container, mps_settings
from trtbench.host.process import module_command, run_process, tail
from trtbench.host.workers import WORKER_NEEDS, worker_environment
from trtbench.runtimes import RUNTIMES

Status = Literal["ok", "missing", "broken", "info"]

WORKING = "runtimes"
LIBRARIES = (
    "numpy", "nvidia-ml-py", "onnx", "onnxruntime", "torch", "torchvision", "tensorrt",
    "tensorrt-rtx", "cuda-bindings",
)  # fmt: skip


class Check(Value, frozen=True):
    name: str
    status: Status
    detail: str
    fix: str | None = None
    origin: str | None = None  # where a setting was set


class CheckGroup(Value, frozen=True, kw_only=True):
    name: str
    checks: tuple[Check, ...]


class Diagnosis(ShortView, Value, frozen=True, kw_only=True):
    """All checks of a machine, in groups."""

    groups: tuple[CheckGroup, ...]

    def group(self, name: str) -> CheckGroup:
        return next(group for group in self.groups if group.name == name)

    @property
    def working_runtimes(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.group(WORKING).checks if c.status == "ok")


def diagnose(say: Callable[[str], None] = lambda line: None) -> Diagnosis:
    """Check this machine and its settings, without changing anything."""
    from trtbench.requests.settings import load_config

    settings: dict[str, str] = {}
    try:
        config = load_config()
        for line in config.unseen:  # before anything that the settings name is started
            say(f"{line} (shown once)")
        settings = config.settings()
        origins, known = config.origins, sorted(settings.items())
        shown = [Check(name, "info", value, origin=origins.get(name)) for name, value in known]
    except TrtbenchError as error:
        facts = "; ".join(f"{name} {value}" for name, value in error.facts.items())
        detail = f"{error.message} ({facts})" if facts else error.message
        shown = [Check("trtbench.toml", "broken", detail, error.fix)]
    extras = []
    for name, (packages, adds) in EXTRAS.items():
        whole = all(map(importlib.util.find_spec, packages))
        fix = None if whole else f"pip install 'trtbench[{name}]'"
        extras.append(Check(name, "ok" if whole else "missing", adds, fix))
    trtexec = programs.find_trtexec()
    tool = Check("trtexec", "ok", str(trtexec))
    if trtexec is None:
        places = " or ".join(["PATH", *map(str, programs.TRTEXEC_FOLDERS)])
        fix = "sudo apt install libnvinfer-bin, or put trtexec on PATH"
        tool = Check("trtexec", "missing", f"not on {places}", fix)
    gpus = nvml.gpus()
    named: dict[str, Iterable[Check]] = {
        "Python and packages": _check_packages(gpus),
        WORKING: [_check_runtime(name, settings=settings) for name in RUNTIMES.names()],
        "GPU and driver": _check_gpus(gpus),
        "extras": extras,
        "tools": [tool],
        # Listed because code of plug-ins runs whenever they are listed or used.
        "code of other packages": [
            Check(name, "info", place) for name, place in foreign_plug_ins()
        ],
        "store": [_check_store(settings.get("store"))],
        "configuration": shown,
    }  # fmt: skip
    return Diagnosis(groups=tuple(CheckGroup(name=n, checks=tuple(c)) for n, c in named.items()))


def _check_packages(gpus: tuple[Gpu, ...]) -> Iterable[Check]:
    yield Check("Python", "ok", f"{platform.python_version()}, {sys.executable}")
    found = versions.library_versions(("trtbench", *LIBRARIES))
    yield Check("trtbench", "ok", found.get("trtbench", "not installed"))
    if sys.dont_write_bytecode and not Path(importlib.util.cache_from_source(__file__)).exists():
        detail = "not kept: every command compiles its modules first, for a second or two"
        yield Check("bytecode", "missing", detail, "unset PYTHONDONTWRITEBYTECODE")
    # CUDA packages must not be newer than the driver's CUDA.
    cuda = next((gpu.cuda for gpu in gpus if gpu.cuda), None)
    older = cuda is not None and int(cuda.partition(".")[0]) < 13
    requirements = {
        "cuda-bindings": "'cuda-bindings==12.9.*'" if older else "cuda-bindings",
        "tensorrt": f"tensorrt-cu{12 if older else 13}",
        "tensorrt-rtx": f"tensorrt-rtx-cu{12 if older else 13}",
    }
    for name in LIBRARIES:
        provided = versions.distribution_versions(name)
        if not provided:
            fix = f"pip install {requirements.get(name, name)}"
            if not gpus and name in ("cuda-bindings", "tensorrt"):
                fix = f"with an NVIDIA GPU and its driver: {fix}"
            yield Check(name, "missing", "not installed", fix)
        elif name == "onnxruntime" and len(provided) > 1:
            both = " and ".join(provided)
            detail = f"{both} are both installed and overwrite each other's files"
            fix = f"pip uninstall -y {' '.join(provided)} && pip install {list(provided)[-1]}"
            yield Check(name, "broken", detail, fix)
        else:
            package, version = next(iter(provided.items()))
            yield Check(name, "ok", version if package == name else f"{version} ({package})")


def _check_runtime(name: str, *, settings: dict[str, str]) -> Check:
    python = settings.get(f"runtimes.{name}.python") or sys.executable
    answer = probe(name, python=python)
    where, fix = "", answer.get("fix")
    if python != sys.executable:
        where = f" ({python})"
        fix = f"{python} -m {fix}" if fix and fix.startswith("pip ") else fix
    if problem := answer.get("problem"):
        return Check(name, "broken", f"{problem}{where}", fix)
    if reason := answer.get("reason"):
        return Check(name, "missing", f"{reason}{where}", fix)
    return Check(name, "ok", f"works here{where}")


def _check_gpus(gpus: tuple[Gpu, ...]) -> Iterable[Check]:
    problem = nvml.nvml_problem()
    if problem is not None:
        fix = "install the driver: sudo ubuntu-drivers install, or https://www.nvidia.com/drivers"
        if container(root=Path("/")):
            fix = "start the container with --gpus all (needs the NVIDIA container toolkit)"
        yield Check("driver", "missing", problem, fix)
        return
    driver, cuda = gpus[0].driver or "unknown version", gpus[0].cuda or "unknown"
    yield Check("driver", "ok", f"{driver}, CUDA {cuda}")
    for index, gpu in enumerate(gpus):
        parts, name = nvml.slices(index), f"GPU {index}"
        signs = nvml.sharing_signs(gpu.uuid) if gpu.uuid else {}
        if not signs.get("mig"):
            shared = "shared by MPS" if signs.get("mps") else None
            exclusive = "one process at a time" if signs.get("exclusive") else None
            yield Check(name, "ok", _gpu_text(gpu, shared, exclusive))
        elif not parts:
            detail = f"{_gpu_text(gpu)}, in MIG mode without a slice: it cannot be used"
            fix = f"sudo nvidia-smi mig -i {index} -lgip lists sizes, -cgi SIZE -C makes a slice"
            yield Check(name, "broken", detail, f"{fix}; or sudo nvidia-smi -i {index} -mig 0")
        else:  # CUDA uses slices, not the whole GPU
            yield Check(name, "ok", _gpu_text(gpu, f"{len(parts)} MIG slices"))
            for number, part in enumerate(parts):
                seen = f"CUDA_VISIBLE_DEVICES={part.uuid}" if part.uuid else None
                yield Check(f"{name} slice {number}", "ok", _gpu_text(part, seen))
    words = {
        "mps_daemon": "pipes of the daemon in {}",
        "mps_thread_percentage": "{} % of the SMs (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE)",
        "mps_memory_limit": "memory up to {} (CUDA_MPS_PINNED_DEVICE_MEM_LIMIT)",
    }
    # Settings of MPS for processes started from here.
    if mps := [words[name].format(value) for name, value in mps_settings().items()]:
        yield Check("MPS", "info", ", ".join(mps))


def _gpu_text(gpu: Gpu, *further: str | None) -> str:
    capability = f"compute capability {gpu.compute_capability}" if gpu.compute_capability else None
    memory = text_from_bytes(gpu.memory_bytes) if gpu.memory_bytes else None
    limit = f"power limit {gpu.power_limit_w:.0f} W" if gpu.power_limit_w else None
    count = nvml.sharing_signs(gpu.uuid).get("processes") if gpu.uuid else None
    use = f"in use by {counted(int(count), 'process', 'processes')}" if count else None
    return ", ".join(filter(None, (gpu.name, capability, memory, limit, use, *further)))


def _check_store(location: str | None) -> Check:
    if location is None:
        return Check("store", "info", "unknown without a configuration")
    if "://" in location:
        return Check("store", "info", f"{location}, not checked")
    path = expand_home(location)
    existing = next(p for p in (path, *path.absolute().parents) if os.path.lexists(p))
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        fix = f"chmod u+rwx {existing}, or use another store: export TRTBENCH_STORE=DIR"
        return Check("store", "broken", f"{path} cannot be written", fix)
    free = f"{text_from_bytes(shutil.disk_usage(existing).free)} free"
    if existing == path:
        return Check("store", "ok", f"{path}, {free}")
    return Check("store", "info", f"{path}, created by the first run, {free}")


TIMEOUT_S = 60.0  # importing a large library from a cold disk takes up to half a minute

Answer = dict[str, str | None]


def probe(name: str, *, python: str = sys.executable, timeout_s: float = TIMEOUT_S) -> Answer:
    """Check a runtime in a new process of the interpreter that would run it.

    Keys: ``reason`` why it does not work, ``problem`` of checking it, and ``fix``.
    """
    heard: Answer = {}
    with temporary_folder() as folder:
        log = folder / "log.txt"
        try:
            end = run_process(
                [*module_command("trtbench.workflows.doctor", python=python), name, "{events}"],
                log=log,
                timeout_s=timeout_s,
                env=worker_environment(python),
                on_line=lambda line: heard.update(msgspec.json.decode(line)),
            )
        except OSError as problem:
            return {"problem": f"the interpreter {python} does not start: {problem.strerror}"}
        last = next(reversed(tail(log)), "no output")
    if "reason" in heard or "problem" in heard:
        return heard
    if end.timed_out:
        return heard | {"problem": f"no answer within {end.seconds:.0f} s"}
    if end.signal:
        return heard | {"problem": f"its process crashed ({end.signal})"}
    if last.startswith("ModuleNotFoundError"):
        heard["fix"] = f"{python} -m pip install {' '.join(WORKER_NEEDS)}"
    return heard | {"problem": f"its process ended with status {end.status}: {last}"}


def report_runtime(name: str, *, events: int) -> None:
    """Report from the child process: first the fix, then whether the runtime works."""

    def send(**parts: str | None) -> None:
        os.write(events, msgspec.json.encode(parts) + b"\n")

    try:
        module = RUNTIMES.load(name)
        send(fix=module.fix())
        send(reason=module.available())
    except TrtbenchError as problem:
        reason = problem.facts.get("reason")
        send(problem=f"{problem.message}: {reason}" if reason else problem.message)
    except (Exception, SystemExit) as problem:
        line = str(problem).partition("\n")[0]
        send(problem=f"{type(problem).__name__}: {line}".removesuffix(": "))


if __name__ == "__main__":
    report_runtime(sys.argv[1], events=int(sys.argv[2]))
