"""What a run tells of its machine: processors, GPUs, libraries under all of their names."""

import os
from pathlib import Path

import pytest
from nvml_standin import Refusing, using

from trtbench import __version__
from trtbench.core.run import Environment
from trtbench.host import machine as machines
from trtbench.host.machine import library_versions
from waiting import printed

X86_CORE = """\
processor\t: {cpu}
model name\t: Imaginary Xeon 9000 @ 2.00GHz
physical id\t: {socket}
core id\t\t: {core}
flags\t\t: fpu sse2 avx512f{more}
"""
NO_GPU = Refusing(OSError("none"))


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def per_cpu(name: str, texts: list[str]) -> dict[str, str]:
    return {f"sys/devices/system/cpu/cpu{i}/{name}": text for i, text in enumerate(texts)}


def read(root: Path, **named) -> Environment:
    with using(named.pop("door", NO_GPU)):
        return machines.read_environment(**{"command": None, "folder": root, "root": root, **named})


@pytest.fixture
def server(tmp_path):
    """Two sockets of two cores with two threads each, bare metal."""
    cores = [X86_CORE.format(cpu=i, socket=i % 2, core=i // 2 % 2, more="") for i in range(8)]
    return machine(
        tmp_path,
        {
            "etc/os-release": 'ID=ubuntu\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\n',
            "proc/cpuinfo": "\n".join(cores),
            "proc/meminfo": "MemTotal:       1024 kB\nMemFree: 1 kB\nMemAvailable:    512 kB\n",
            "proc/stat": "cpu  600 0 200 1000 100 0 50 50 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n",
            "proc/pressure/cpu": (
                "some avg10=12.50 avg60=1.00 avg300=0.10 total=4000000\n"
                "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
            ),
            "proc/1/comm": "systemd\n",
            "proc/1/cgroup": "0::/init.scope\n",
            "proc/self/cgroup": "0::/user.slice/job.scope\n",
            "sys/fs/cgroup/cpu.stat": "usage_usec 5\n",
            "sys/fs/cgroup/user.slice/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/user.slice/cpu.stat": "nr_throttled 1\nthrottled_usec 500\n",
            "sys/fs/cgroup/user.slice/job.scope/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user.slice/job.scope/cpu.stat": "throttled_usec 2500\n",
            "sys/fs/cgroup/user.slice/job.scope/memory.max": "1048576\n",
            "sys/devices/system/cpu/intel_pstate/no_turbo": "0\n",
            "sys/devices/system/cpu/smt/active": "1\n",
            **per_cpu("cpufreq/scaling_governor", ["performance\n"] * 8),
            **per_cpu("topology/thread_siblings_list", [f"{i},{i + 4}\n" for i in range(4)] * 2),
        },
    )


def test_a_server_is_described(server):
    found = read(server, command="trtbench bench m.onnx")
    assert found.os.startswith("Ubuntu 22.04.4 LTS, ")
    assert os.uname().release in found.os
    assert found.cpu == "Imaginary Xeon 9000 @ 2.00GHz"
    assert found.cpu_physical_cores == 4
    assert found.cpu_governor == "performance"
    assert found.virtual_machine is False
    assert (found.memory_bytes, found.memory_available_bytes) == (1024 * 1024, 512 * 1024)
    assert found.command == "trtbench bench m.onnx"
    assert found.gpus == ()
    assert found.versions["numpy"]
    assert [found.extra[sign] for sign in ("turbo", "smt", "container")] == [True, True, False]


def test_a_jetson_names_its_board_and_its_arm_cores(tmp_path):
    machine(
        tmp_path,
        {
            "proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd42\n",
            "proc/device-tree/model": "NVIDIA Jetson Orin\0",
            "proc/device-tree/compatible": "nvidia,p3737\0nvidia,tegra234\0",
            "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3\nmore\n",
            "var/lib/nvpmodel/status": "pmode:0000\n",
            **per_cpu("topology/thread_siblings_list", [f"{i}\n" for i in range(6)]),
        },
    )
    found = read(tmp_path)
    assert found.cpu == "ARM Cortex-A78AE"
    assert found.cpu_physical_cores == 6
    assert found.virtual_machine is False
    assert found.extra["board"] == "NVIDIA Jetson Orin"
    assert found.extra["nvpmodel"] == "pmode:0000"


def test_a_machine_that_tells_nothing_is_unknown_not_zero(tmp_path):
    found = read(tmp_path)
    assert found.host
    assert found.os
    for field in ("cpu", "cpu_physical_cores", "cpu_governor", "virtual_machine", "memory_bytes"):
        assert getattr(found, field) is None, field
    assert {"turbo", "smt", "container"}.isdisjoint(found.extra)
    assert [*machines.read_counters(root=tmp_path)] == ["at_s"]


def test_rubbish_in_every_file_does_no_harm(server):
    for path in server.rglob("*"):
        if path.is_file():
            path.write_bytes(b"\xff\xfe: rubbish = \0\n-1 -1 cpu a b c d e f g h\n\n:::\n")
    read(server)
    assert "cpu_total_ticks" not in machines.read_counters(root=server)


def test_counters_are_differenced(server):
    before = machines.read_counters(root=server)
    machine(
        server,
        {
            "proc/stat": "cpu  700 0 200 1060 120 0 50 70 0 0\n",
            "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=4250000\n",
            "sys/fs/cgroup/user.slice/job.scope/cpu.stat": "throttled_usec 12500\n",
        },
    )
    after = {**machines.read_counters(root=server), "at_s": before["at_s"] + 0.5}
    grown = {"cpu_steal_fraction": 20 / 200, "pressure_fraction": 0.5, "throttled_s": 0.01}
    assert machines.counters_between(before, after) == pytest.approx(grown)
    # A counter that went back or is unknown is absent.
    before = {"at_s": 1.0, "throttled_us": 500, "pressure_us": 5}
    after = {"at_s": 2.0, "throttled_us": 20}
    assert machines.counters_between(before, after) == {}


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    return printed(["git", *identity, *arguments], cwd=folder).strip()


def test_commit_on_a_branch_packed_detached_and_of_a_worktree_from_a_folder_below(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    try:
        git(repository, "init", "-q", "-b", "trunk")
    except FileNotFoundError:
        pytest.skip("git is not installed")
    git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    below = repository / "a" / "b"
    below.mkdir(parents=True)
    head = git(repository, "rev-parse", "HEAD")
    assert machines.commit_of(below) == head
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/trunk").exists()
    assert machines.commit_of(below) == head
    git(repository, "checkout", "-q", "--detach")
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    assert machines.commit_of(below) == git(repository, "rev-parse", "HEAD") != head
    tree = tmp_path / "tree"
    git(repository, "worktree", "add", "-q", "-b", "side", str(tree))
    git(tree, "commit", "-q", "--allow-empty", "-m", "on the side")
    assert machines.commit_of(tree) == git(tree, "rev-parse", "HEAD")
    assert machines.commit_of(tree) != machines.commit_of(repository)


def test_a_large_core_is_taken_before_a_small_one(tmp_path: Path) -> None:
    for core, capacity in ((0, 420), (1, 420), (4, 1024), (5, 1024)):
        (tmp_path / f"cpu{core}").mkdir()
        (tmp_path / f"cpu{core}" / "cpu_capacity").write_text(f"{capacity}\n")
    assert machines.fastest_core({0, 1, 4, 5}, root=tmp_path) == 4
    assert machines.fastest_core({0, 1}, root=tmp_path) == 0


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Make a distribution visible without any code behind it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name: str, version: str | None) -> None:
        folder = tmp_path / f"{name.replace('-', '_')}-{version or 0}.dist-info"
        folder.mkdir()
        line = f"Version: {version}\n" if version else ""
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\n{line}")

    return install


@pytest.mark.parametrize(
    ("asked", "distribution"),
    [
        ("tensorrt", "tensorrt-cu12"), ("tensorrt", "tensorrt_cu13_bindings"),
        ("tensorrt", "tensorrt_bindings"), ("tensorrt", "tensorrt-lean"),
        ("tensorrt_rtx", "tensorrt_rtx_cu13"), ("tensorrt-rtx", "tensorrt_rtx_cu13"),
    ],
)  # fmt: skip
def test_a_library_is_found_under_every_name_it_is_sold_by(install, asked, distribution):
    install(distribution, "77.1.2")
    found = library_versions([asked])
    assert found[asked] == found[distribution.replace("_", "-")] == "77.1.2"


def test_the_trtbench_that_runs_is_told_and_not_the_one_that_is_installed(install):
    """A machine of a fleet is lent this package; it may have another, or none."""
    install("trtbench", "0.0.1")
    assert library_versions(["trtbench"]) == {"trtbench": __version__}
