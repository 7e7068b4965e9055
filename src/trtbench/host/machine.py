"""The environment of a run: processor, memory, system, libraries, GPUs, and their other users.

It is read from files of the kernel and package metadata; values that cannot be read are ``None`` or
absent, and no function raises. Functions take the root of the file system, so that tests can pass
another machine.
"""

import os
import platform
import re
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from trtbench.core.properties import text_from_variables
from trtbench.core.run import Environment, Scalar
from trtbench.host import nvml
from trtbench.host.files import fields_of, integer_from_text, number_of, text_of
from trtbench.host.process import program_output
from trtbench.version import __version__

ROOT = Path("/")
CPUS = Path("/sys/devices/system/cpu")
_ARM_PARTS = {
    ("0x41", "0xd07"): "ARM Cortex-A57",
    ("0x41", "0xd08"): "ARM Cortex-A72",
    ("0x41", "0xd0b"): "ARM Cortex-A76",
    ("0x41", "0xd0c"): "ARM Neoverse N1",
    ("0x41", "0xd40"): "ARM Neoverse V1",
    ("0x41", "0xd42"): "ARM Cortex-A78AE",
    ("0x41", "0xd49"): "ARM Neoverse N2",
    ("0x41", "0xd4f"): "ARM Neoverse V2",
    ("0x41", "0xd83"): "ARM Neoverse V3AE",
    ("0x4e", "0x004"): "NVIDIA Carmel",
}
"""Names of ARM cores, for which kernels report only numbers: Jetson, Grace, cloud machines."""
_VIRTUAL = re.compile(
    r"kvm|qemu|vmware|virtualbox|innotek|xen|bochs|parallels|dummy-virt|virtual machine"
    r"|google compute engine|amazon ec2|openstack|firecracker|bhyve",
    re.IGNORECASE,
)
DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "onnxruntime": tuple(
        f"onnxruntime{kind}" for kind in ("", "-gpu", "-training", "-openvino", "-directml")
    ),
    "tensorrt": tuple(
        f"tensorrt{cuda}{part}"
        for part in ("", "-bindings", "-libs", "-lean", "-dispatch")
        for cuda in ("", "-cu13", "-cu12", "-cu11")
    ),
    "tensorrt-rtx": ("tensorrt-rtx", "tensorrt-rtx-cu13", "tensorrt-rtx-cu12"),
    "cuda-bindings": ("cuda-bindings", "cuda-python"),
}
"""Libraries that several distributions provide, the most informative name first."""
LIBRARIES = (
    "trtbench", "numpy", "scipy", "onnx", "onnxruntime", "torch", "torchvision", "tensorrt",
    "tensorrt-rtx", "cuda-bindings", "nvidia-ml-py",
)  # fmt: skip
"""Libraries on which a measurement may depend."""


def read_environment(
    *, command: str | None, folder: Path, label: str | None = None, root: Path = ROOT
) -> Environment:
    """Read the environment of a run, before it starts; takes about 10 ms without a GPU."""
    mps = mps_settings()
    shared: dict[str, Scalar] = {}  # signs that a GPU is shared: gpu0_processes, gpu0_mig, ...
    with nvml.keep_open():
        gpus = nvml.gpus_in_use()
        for index, (gpu, whole) in enumerate(zip(gpus, nvml.gpus(), strict=True)):
            signs = nvml.sharing_signs(whole.uuid) if whole.uuid else {}
            if gpu.uuid and gpu.uuid != whole.uuid:  # processes are those of the slice in use
                signs["processes"] = nvml.sharing_signs(gpu.uuid).get("processes")
            if "mps_daemon" in mps:  # the next program will use it
                signs["mps"] = True
            shared |= {f"gpu{index}_{sign}": value for sign, value in signs.items()}
    info = fields_of(root / "proc/cpuinfo", separator=":")
    name, arm = info.get("model name"), (info.get("CPU implementer", ""), info.get("CPU part", ""))
    if not name and not all(arm):
        name = info.get("cpu model") or info.get("Hardware")
    elif not name:
        name = _ARM_PARTS.get(arm, f"ARM implementer {arm[0]} part {arm[1]}")
    board = {
        "board": text_of(root / "proc/device-tree/model"),
        "l4t": text_of(root / "etc/nv_tegra_release"),
        "nvpmodel": text_of(root / "var/lib/nvpmodel/status"),
    }
    load = None
    with suppress(AttributeError, OSError):
        load = os.getloadavg()
    cpu = root / "sys/devices/system/cpu"
    smt, no_turbo = number_of(cpu / "smt/active"), number_of(cpu / "intel_pstate/no_turbo")
    boost = number_of(cpu / "cpufreq/boost") if no_turbo is None else int(no_turbo == 0)
    facts: dict[str, Scalar] = {
        "python_path": sys.executable or None,
        "turbo": None if boost is None else boost != 0,
        "smt": None if smt is None else smt == 1,
        "container": container(root=root),
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        **mps,
        "variables": text_from_variables(os.environ),
        **{key: text.splitlines()[0] for key, text in board.items() if text},
    }
    release = fields_of(root / "etc/os-release", separator="=")
    release = release or fields_of(root / "usr/lib/os-release", separator="=")
    system = release.get("PRETTY_NAME", "").strip("\"'")
    kernel = f"{platform.system()} {platform.release()} {platform.machine()}"
    return Environment(
        host=platform.node() or "unknown",
        os=f"{system}, {kernel}" if system else kernel,
        python=platform.python_version(),
        cpu=name,
        cpu_cores=os.cpu_count(),
        cpu_physical_cores=len(set(_per_cpu(root, "topology/thread_siblings_list"))) or None,
        cpu_governor=", ".join(sorted(set(_per_cpu(root, "cpufreq/scaling_governor")))) or None,
        virtual_machine=_virtual_machine(info, root),
        load_before=load,
        memory_bytes=memory_bytes("MemTotal", root=root),
        memory_available_bytes=memory_bytes("MemAvailable", root=root),
        gpus=gpus,
        versions=library_versions(),
        git_commit=commit_of(folder),
        command=command,
        machine=label,
        extra=_without_none({**facts, **shared}),
    )


def _without_none(facts: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {name: value for name, value in facts.items() if value is not None}


def _per_cpu(root: Path, name: str) -> list[str]:
    try:
        # Not glob, which raises if a folder is not accessible.
        entries = list((root / "sys/devices/system/cpu").iterdir())
    except OSError:
        return []
    folders = [entry for entry in entries if re.fullmatch(r"cpu\d+", entry.name)]
    return [text for folder in folders if (text := text_of(folder / name))]


def _virtual_machine(info: Mapping[str, str], root: Path) -> bool | None:
    if "flags" in info:
        return "hypervisor" in info["flags"].split()
    dmi = "sys/class/dmi/id"
    places = ("sys/hypervisor/type", f"{dmi}/sys_vendor", f"{dmi}/product_name",
              "proc/device-tree/compatible")  # fmt: skip
    signs = [text for place in places if (text := text_of(root / place))]
    if any(_VIRTUAL.search(sign) for sign in signs):
        return True
    return False if signs else None


def container(*, root: Path) -> bool | None:
    marks = (".dockerenv", "run/.containerenv", "run/systemd/container")
    # Up to Python 3.11, Path.exists raises if a folder is not accessible.
    if any(os.path.exists(root / mark) for mark in marks):  # noqa: PTH110
        return True
    group = text_of(root / "proc/1/cgroup") or ""
    if re.search(r"docker|kubepods|containerd|libpod|lxc", group):
        return True
    return False if text_of(root / "proc/1/comm") in ("systemd", "init", "launchd") else None


def memory_bytes(key: str, *, root: Path) -> int | None:
    """Return an entry of ``/proc/meminfo`` in bytes: ``MemTotal``, ``MemAvailable``."""
    words = fields_of(root / "proc/meminfo", separator=":").get(key, "").split()
    return int(words[0]) * 1024 if words and words[0].isdecimal() else None


def fastest_core(allowed: Collection[int], *, root: Path = CPUS) -> int:
    """Return the first of the fastest cores; the first of all if their speed is unknown."""

    def speed(core: int) -> int:
        # The capacity, known on chips with small and large cores, else the clock.
        names = ("cpu_capacity", "cpufreq/cpuinfo_max_freq")
        found = (number_of(root / f"cpu{core}" / name) for name in names)
        return next((each for each in found if each is not None), 0)

    return min(allowed, key=lambda core: (-speed(core), core))


def still_runs(process: int, *, root: Path = ROOT) -> bool:
    """Return whether a process still runs; a zombie does not."""
    try:
        state = (root / f"proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


def mps_settings() -> dict[str, Scalar]:
    """Return whether programs started from here use MPS, and the limits that are set for it."""
    pipes = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps")
    # Up to Python 3.11, Path.exists raises if a folder is not accessible.
    runs = os.path.exists(pipes / "control")  # noqa: PTH110
    return _without_none(
        {
            "mps_daemon": str(pipes) if runs else None,
            "mps_thread_percentage": os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
            "mps_memory_limit": os.environ.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"),
        }
    )


CpuCounters = Mapping[str, float]


def read_counters(*, root: Path = ROOT) -> CpuCounters:
    """Read the counters of the machine that exist; takes less than a millisecond.

    ``at_s`` is the time on the monotonic clock, ``pressure_us`` time in which some task waited for
    a processor, ``throttled_us`` time in which a quota stopped this control group or a parent.
    """
    # User, nice, system, idle, iowait, irq, softirq and steal; the following guest times are
    # already included in user and nice.
    line = (text_of(root / "proc/stat") or "").partition("\n")[0].split()[:9]
    known = len(line) == 9 and line[0] == "cpu" and all(value.isdecimal() for value in line[1:])
    ticks = [int(value) for value in line[1:]] if known else []
    waited = re.search(r"^some .*?\btotal=(\d+)", text_of(root / "proc/pressure/cpu") or "", re.M)
    # The control group of this process and its parents, in version 2 of the hierarchy. In a
    # container the path may be that of the host, which does not exist here; its parent folders
    # do, and they have the limits of the container.
    path = fields_of(root / "proc/self/cgroup", separator="::").get("0", "")
    parts = [part for part in path.split("/") if part and part != ".."]
    groups = [root.joinpath("sys/fs/cgroup", *parts[:n]) for n in range(len(parts), -1, -1)]
    stats = [fields_of(group / "cpu.stat").get("throttled_usec") for group in groups if path]
    throttled = [number for stat in stats if (number := integer_from_text(stat)) is not None]
    return {
        "at_s": time.monotonic(),
        **({"cpu_total_ticks": sum(ticks), "cpu_steal_ticks": ticks[7]} if ticks else {}),
        **({"pressure_us": int(waited[1])} if waited else {}),
        **({"throttled_us": sum(throttled)} if throttled else {}),
    }


def growth_of(before: CpuCounters, after: CpuCounters) -> dict[str, float]:
    """Subtract two readings of counters, without those that decreased because they were reset."""
    shared = ((name, after[name] - value) for name, value in before.items() if name in after)
    return {name: grown for name, grown in shared if grown >= 0}


def counters_between(before: CpuCounters, after: CpuCounters) -> dict[str, Scalar]:
    """Return the changes between two readings; values that either lacks are absent.

    Keys: ``cpu_steal_fraction`` of the time of all processors; ``pressure_fraction`` of the elapsed
    time in which some task waited; ``throttled_s``.
    """
    grown = growth_of(before, after)
    found: dict[str, Scalar] = {}
    if "cpu_steal_ticks" in grown and grown.get("cpu_total_ticks"):
        found["cpu_steal_fraction"] = grown["cpu_steal_ticks"] / grown["cpu_total_ticks"]
    if "pressure_us" in grown and grown.get("at_s"):
        found["pressure_fraction"] = grown["pressure_us"] / (grown["at_s"] * 1e6)
    if "throttled_us" in grown:
        found["throttled_s"] = grown["throttled_us"] * 1e-6
    return found


def library_versions(names: Iterable[str] = LIBRARIES) -> dict[str, str]:
    """Return the versions of installed libraries, from their metadata, without importing them.

    Another distribution that provides one (``onnxruntime-gpu``) is listed too, by its own name.
    """
    found: dict[str, str] = {}
    for name in names:
        provided = distribution_versions(name)
        if provided:
            found[name] = next(iter(provided.values()))
        for distribution, version in provided.items():
            found.setdefault(distribution, version)
    return found


def distribution_versions(library: str) -> dict[str, str]:
    """Return the versions of distributions that provide a library, the most informative first."""
    plain = re.sub(r"[-_.]+", "-", library).lower()  # the spelling of package indexes
    if plain == "trtbench":  # the running code, which may differ from the installed package
        return {plain: __version__}
    found = {}
    for name in DISTRIBUTIONS.get(plain, (plain,)):
        with suppress(metadata.PackageNotFoundError, KeyError, OSError, ValueError):
            found[name] = metadata.version(name)
    # Partly removed packages have no version: None, or KeyError in newer Pythons.
    return {name: version for name, version in found.items() if version}


def version_elsewhere(library: str, python: str) -> str | None:
    """Return the version of a library in another interpreter, if it answers."""
    names = repr(DISTRIBUTIONS.get(library, (library,)))
    every = f"(d.version for d in m.distributions() if d.name.replace('_', '-').lower() in {names})"
    code = f"import importlib.metadata as m; print('\\nversion', *{every})"
    found = re.search(r"^version (\S+)", program_output(python, "-c", code), re.MULTILINE)
    return found and found[1]


def commit_of(folder: Path) -> str | None:
    """Return the commit that is checked out in a folder's Git repository, if there is one."""
    found = [path for up in (folder, *folder.parents) if (path := up / ".git").exists()]
    names = ("HEAD", "config", "packed-refs", "commondir") if found and found[0].is_dir() else ("",)
    files = [found[0] / name for name in names if (found[0] / name).exists()] if found else []
    if not files or not all(map(Path.is_file, files)):
        return None  # git would wait for a writer of a pipe
    value = program_output("git", "-C", str(folder), "rev-parse", "--verify", "-q", "HEAD").strip()
    return value if re.fullmatch(r"[0-9a-f]{40,64}", value) else None
