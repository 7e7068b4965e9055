"""A MIG slice is a device of its own: its lock, its identity, its name."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvml_standin import NVMLError, StandIn

from trtbench.host import gpu_names, nvml, telemetry
from trtbench.host.environment import read_environment

FIRST, SECOND = "MIG-11111111-aaaa", "MIG-22222222-bbbb"
MEMORY = 10 * 2**30


class Divided(StandIn):
    """A GPU with slices at two of its three places."""

    SLICES = {0: FIRST, 2: SECOND}

    def _answers(self) -> dict[str, Any]:
        answers = super()._answers()
        named = answers["nvmlDeviceGetName"]
        return {
            **answers,
            "nvmlDeviceGetMigMode": [1, 1],
            "nvmlDeviceGetMaxMigDeviceCount": 3,
            "nvmlDeviceGetMigDeviceHandleByIndex": self._slice,
            "nvmlDeviceGetName": lambda h: f"{named} MIG 1g.10gb" if h in self.ids() else named,
            "nvmlDeviceGetUUID": lambda h: h if h in self.ids() else self.UUID,
            "nvmlDeviceGetMemoryInfo": lambda h: SimpleNamespace(
                total=MEMORY if h in self.ids() else 2 * MEMORY, free=MEMORY
            ),
        }

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
    assert gpu_names.lock_name("cuda:0", nvml=door) == uuid
    assert gpu_names.gpu_uuid("cuda:0", nvml=door) == uuid
    where = read_environment(command=None, folder=Path.cwd(), nvml_module=door)
    assert where.gpus[0].uuid == uuid
    assert where.gpus[0].name.endswith("MIG 1g.10gb")
    assert where.gpus[0].memory_bytes == MEMORY
    assert where.gpus[0].compute_capability == "8.9"  # of the whole
    assert where.extra["gpu0_mig"] is True


def test_a_whole_gpu_has_no_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    door: Any = StandIn()
    assert nvml.slices(0, nvml=door) == ()
    assert gpu_names.lock_name("cuda:0", nvml=door) == StandIn.UUID
    assert read_environment(command=None, folder=Path.cwd(), nvml_module=door).gpus == nvml.gpus(
        nvml=door
    )


def test_telemetry_finds_the_gpu_that_a_slice_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    door: Any = Divided()
    assert gpu_names.index_of_name(SECOND, nvml=door) == 0
    assert gpu_names.index_of_name("GPU-unknown", nvml=door) is None
    monkeypatch.setattr(telemetry, "index_of_name", lambda name: {SECOND: 3}.get(name))
    assert telemetry.visible_index(0, environment={"CUDA_VISIBLE_DEVICES": SECOND}) == 3
    assert telemetry.visible_index(0, environment={"CUDA_VISIBLE_DEVICES": "GPU-other"}) == 0


def test_a_share_of_mps_is_part_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")
    where = read_environment(command=None, folder=Path.cwd())
    assert where.extra["mps_thread_percentage"] == "50"
