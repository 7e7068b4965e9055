"""The processor, the memory and the operating system, read from the kernel's files.

Every function takes the root of the file system, so that a test can show another machine.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Collection
from pathlib import Path

from trtbench.domain.result import Scalar
from trtbench.host.files import fields_of, number_of, text_of

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
"""ARM kernels give numbers and no name: Jetson boards, Grace and the usual cloud machines."""

_VIRTUAL = re.compile(
    r"kvm|qemu|vmware|virtualbox|innotek|xen|bochs|parallels|dummy-virt|virtual machine"
    r"|google compute engine|amazon ec2|openstack|firecracker|bhyve",
    re.IGNORECASE,
)
_CONTAINER = re.compile(r"docker|kubepods|containerd|libpod|lxc")
_PLAIN_FIRST_PROCESSES = {"systemd", "init", "launchd"}
CPUS = Path("/sys/devices/system/cpu")


def os_name(*, root: Path) -> str:
    """Return the distribution and the kernel: ``Ubuntu 22.04.4 LTS, Linux 5.15.0 aarch64``."""
    release: dict[str, str] = {}
    for place in ("etc/os-release", "usr/lib/os-release"):
        release = release or fields_of(root / place, separator="=")
    kernel = f"{platform.system()} {platform.release()} {platform.machine()}"
    name = release.get("PRETTY_NAME", "").strip("\"'")
    return f"{name}, {kernel}" if name else kernel


def cpu_model(*, root: Path) -> str | None:
    """Return the processor's name as the kernel or its part number tells it."""
    info = fields_of(root / "proc/cpuinfo", separator=":")
    if info.get("model name"):
        return info["model name"]
    implementer, part = info.get("CPU implementer"), info.get("CPU part")
    if implementer is None or part is None:
        return info.get("cpu model") or info.get("Hardware")
    return _ARM_PARTS.get((implementer, part), f"ARM implementer {implementer} part {part}")


def physical_cores(*, root: Path) -> int | None:
    """Count cores, not hardware threads."""
    siblings = _per_cpu(root, "topology/thread_siblings_list")
    if siblings:
        return len(set(siblings))
    cores = {
        (_field(block, "physical id"), _field(block, "core id"))
        for block in (text_of(root / "proc/cpuinfo") or "").split("\n\n")
    }
    known = {core for core in cores if core[1] is not None}
    return len(known) or None


def governor(*, root: Path) -> str | None:
    """Return the frequency governor; several, when processors differ."""
    found = sorted(set(_per_cpu(root, "cpufreq/scaling_governor")))
    return ", ".join(found) or None


def turbo(*, root: Path) -> bool | None:
    """Say whether the processor may exceed its base clock."""
    cpu = root / "sys/devices/system/cpu"
    off = number_of(cpu / "intel_pstate/no_turbo")
    if off is not None:
        return off == 0
    on = number_of(cpu / "cpufreq/boost")
    return None if on is None else on != 0


def threads_share_cores(*, root: Path) -> bool | None:
    """Say whether simultaneous multithreading is on."""
    active = number_of(root / "sys/devices/system/cpu/smt/active")
    return None if active is None else active == 1


def virtual_machine(*, root: Path) -> bool | None:
    """Say whether a hypervisor is below; without a sign either way it is unknown."""
    info = fields_of(root / "proc/cpuinfo", separator=":")
    if "flags" in info:
        return "hypervisor" in info["flags"].split()
    places = (
        "sys/hypervisor/type",
        "sys/class/dmi/id/sys_vendor",
        "sys/class/dmi/id/product_name",
        "proc/device-tree/compatible",
    )
    signs = [text for place in places if (text := text_of(root / place))]
    if any(_VIRTUAL.search(sign) for sign in signs):
        return True
    return False if signs else None


def container(*, root: Path) -> bool | None:
    """Say whether this is inside a container; without a sign either way it is unknown."""
    marks = (".dockerenv", "run/.containerenv", "run/systemd/container")
    # Path.exists raises where a folder may not be entered, up to Python 3.11.
    if any(os.path.exists(root / mark) for mark in marks):  # noqa: PTH110
        return True
    if _CONTAINER.search(text_of(root / "proc/1/cgroup") or ""):
        return True
    return False if text_of(root / "proc/1/comm") in _PLAIN_FIRST_PROCESSES else None


def memory_bytes(key: str, *, root: Path) -> int | None:
    """Return one line of the kernel's memory table: ``MemTotal``, ``MemAvailable``."""
    words = fields_of(root / "proc/meminfo", separator=":").get(key, "").split()
    return int(words[0]) * 1024 if words and words[0].isdecimal() else None


def board(*, root: Path) -> dict[str, Scalar]:
    """Return what an embedded board tells of itself: model, L4T release, power mode."""
    found = {
        "board": text_of(root / "proc/device-tree/model"),
        "l4t": text_of(root / "etc/nv_tegra_release"),
        "nvpmodel": text_of(root / "var/lib/nvpmodel/status"),
    }
    return {name: text.splitlines()[0] for name, text in found.items() if text}


def allowed_cpus() -> str | None:
    """Return the processors this process may use, as ``0-3,8``."""
    try:
        cpus = sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return None
    return ",".join(_range_text(first, last) for first, last in _ranges(cpus))


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def _range_text(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _per_cpu(root: Path, name: str) -> list[str]:
    cpus = root / "sys/devices/system/cpu"
    try:
        # Not glob: it raises where a folder may not be entered.
        folders = [entry for entry in cpus.iterdir() if re.fullmatch(r"cpu\d+", entry.name)]
    except OSError:
        return []
    return [text for folder in folders if (text := text_of(folder / name))]


def _field(block: str, name: str) -> str | None:
    match = re.search(rf"^{re.escape(name)}\s*:\s*(.*)$", block, re.MULTILINE)
    return match.group(1) if match else None


def fastest_core(allowed: Collection[int], *, root: Path = CPUS) -> int:
    """Choose a core as fast as any, the first of several; where nobody tells, the first."""
    return min(allowed, key=lambda core: (-_speed(root / f"cpu{core}"), core))


def _speed(folder: Path) -> int:
    """Read a core's capacity, which small and large cores of one chip have, else its clock."""
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        try:
            return int((folder / name).read_text())
        except (OSError, ValueError):
            continue
    return 0


def still_runs(process: int, *, root: Path = Path("/")) -> bool:
    """Say whether a process has not ended; one that its parent has not seen yet has."""
    try:
        state = (root / f"proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")
