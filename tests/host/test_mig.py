"""A MIG slice is a device of its own: its lock, its identity, its name."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvml_standin import NVMLError, StandIn, through, using

from trtbench.core.run import Gpu
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.host import nvml, telemetry
from trtbench.host import nvml as gpu_names
from trtbench.host.machine import read_environment
from trtbench.measure.watch import watch_device
from trtbench.workflows import doctor

FIRST, SECOND = "MIG-11111111-aaaa", "MIG-22222222-bbbb"
MEMORY = 10 * 2**30
FREE = {FIRST: 3 * 2**30, SECOND: 9 * 2**30}
RUNNING = {FIRST: [11, 12], SECOND: [13]}  # processes of each slice; of the whole, all


class Divided(StandIn):
    """A GPU with slices at two of its three places."""

    SLICES = {0: FIRST, 2: SECOND}

    def _answers(self) -> dict[str, Any]:
        answers = super()._answers()
        named = answers["nvmlDeviceGetName"]
        return {
            **answers,
            "nvmlDeviceGetMigMode": self._mode,
            "nvmlDeviceGetHandleByUUID": lambda uuid: uuid if uuid in self.ids() else "handle 0",
            "nvmlDeviceGetComputeRunningProcesses": self._running,
            "nvmlDeviceGetGraphicsRunningProcesses": [],
            "nvmlDeviceGetMaxMigDeviceCount": 3,
            "nvmlDeviceGetMigDeviceHandleByIndex": self._slice,
            "nvmlDeviceGetName": lambda h: f"{named} MIG 1g.10gb" if h in self.ids() else named,
            "nvmlDeviceGetUUID": lambda h: h if h in self.ids() else self.UUID,
            "nvmlDeviceGetMemoryInfo": lambda h: SimpleNamespace(
                total=MEMORY if h in self.ids() else 2 * MEMORY,
                free=FREE.get(h, 2 * MEMORY),
                used=MEMORY - FREE.get(h, 0),
            ),
        }

    def _mode(self, handle: str) -> list[int]:
        if handle in self.ids():  # it is the mode of the whole
            raise NVMLError("invalid argument")
        return [1, 1]

    def _running(self, handle: str) -> list[SimpleNamespace]:
        pids = RUNNING.get(handle, [pid for each in RUNNING.values() for pid in each])
        return [SimpleNamespace(pid=pid, usedGpuMemory=2**20) for pid in pids]

    def ids(self) -> tuple[str, ...]:
        return tuple(self.SLICES.values())

    def _slice(self, handle: str, place: int) -> str:
        if place not in self.SLICES:
            raise NVMLError("not found")
        return self.SLICES[place]


@pytest.mark.parametrize(
    ("visible", "uuid"),
    [(None, FIRST), ("0", FIRST), (SECOND, SECOND), ("MIG-2222", SECOND), (FIRST, FIRST)],
)
def test_each_slice_has_a_lock_an_identity_and_a_name(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, uuid: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    door: Any = Divided()
    assert through(door, gpu_names.lock_name, "cuda:0") == uuid
    assert through(door, gpu_names.gpu_uuid, "cuda:0") == uuid
    where = through(door, read_environment, command=None, folder=Path.cwd())
    assert where.gpus[0].uuid == uuid
    assert where.gpus[0].name.endswith("MIG 1g.10gb")
    assert where.gpus[0].memory_bytes == MEMORY
    assert where.gpus[0].compute_capability == "8.9"  # of the whole
    assert where.extra["gpu0_mig"] is True
    assert where.extra["gpu0_processes"] == len(RUNNING[uuid]), "others' slices are not this one"
    with using(door), telemetry.source_of(0) as source:
        look = source.sample(0.0)
    assert look.memory_used_bytes == MEMORY - FREE[uuid]
    assert look.sm_clock_hz is not None, "told of the whole alone"


def test_memory_before_a_run_is_that_of_the_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", SECOND)
    monkeypatch.setitem(sys.modules, "pynvml", Divided())
    spec = RunSpec(model=ModelRef(path="m.engine", format="engine"), runtime="tensorrt")
    with watch_device(spec, "cuda:0") as watch:
        assert watch.free() == FREE[SECOND]


def gpu_checks(monkeypatch: pytest.MonkeyPatch, door: type[StandIn]) -> dict[str, doctor.Check]:
    monkeypatch.setitem(sys.modules, "pynvml", door())
    return {each.name: each for each in doctor._check_gpus(nvml.gpus())}


def test_doctor_lists_slices_as_devices_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found = gpu_checks(monkeypatch, Divided)
    assert found["GPU 0"].detail.endswith("2 MIG slices")
    for number, uuid in enumerate((FIRST, SECOND)):
        told = found[f"GPU 0 slice {number}"]
        assert told.status == "ok"
        assert "MIG 1g.10gb, 10.0 GiB" in told.detail
        assert f"in use by {len(RUNNING[uuid])} process" in told.detail
        assert told.detail.endswith(f"CUDA_VISIBLE_DEVICES={uuid}")


def test_the_device_of_inspect_is_the_one_that_cuda_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not NVML's first: others may be hidden, reordered, or divided."""
    names = ("first", "second", "third")
    cards = tuple(Gpu(name=each, uuid=f"GPU-{each}") for each in names)
    monkeypatch.setattr(gpu_names, "gpus", lambda: cards)
    monkeypatch.setattr(gpu_names, "slices", lambda index: ())
    for listed, name in (
        (None, "first"), ("2,0", "third"), ("GPU-second", "second"), ("", None), ("7", None),
    ):  # fmt: skip
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if listed is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
        found = gpu_names.gpu_in_use()
        assert (found.name if found else None) == name


def test_mps_is_part_of_the_environment_before_it_has_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door: Any = StandIn()
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")
    monkeypatch.setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=2G")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    for running in (False, True):
        where = through(door, read_environment, command=None, folder=Path.cwd())
        assert where.extra["mps_thread_percentage"] == "50"
        assert where.extra["mps_memory_limit"] == "0=2G"
        assert where.extra.get("mps_daemon") == (str(tmp_path) if running else None)
        assert where.extra["gpu0_mps"] is running
        (tmp_path / "control").touch()
