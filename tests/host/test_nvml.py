from __future__ import annotations

import pytest
from nvml_standin import (
    NVMLError,
    NVMLError_DriverNotLoaded,
    NVMLError_LibraryNotFound,
    Refusing,
    StandIn,
    through,
    using,
)

from trtbench.core.run import Gpu
from trtbench.host import nvml

FIELD_OF = {
    "nvmlDeviceGetUUID": ["uuid"],
    "nvmlSystemGetDriverVersion": ["driver"],
    "nvmlSystemGetCudaDriverVersion_v2": ["cuda"],
    "nvmlDeviceGetCudaComputeCapability": ["compute_capability"],
    "nvmlDeviceGetMemoryInfo": ["memory_bytes"],
    "nvmlDeviceGetClockInfo": ["sm_clock_hz", "memory_clock_hz"],
    "nvmlDeviceGetMaxClockInfo": ["sm_clock_max_hz"],
    "nvmlDeviceGetEnforcedPowerLimit": ["power_limit_w"],
    "nvmlDeviceGetTemperature": ["temperature_c"],
    "nvmlDeviceGetPersistenceMode": ["persistence"],
    "nvmlDeviceGetEccMode": ["ecc"],
}

WHOLE = Gpu(
    name="NVIDIA Test 4000",
    uuid=StandIn.UUID,
    driver="550.54.15",
    cuda="12.4",
    compute_capability="8.9",
    memory_bytes=20 * 2**30,
    sm_clock_hz=1980e6,
    sm_clock_max_hz=2100e6,
    memory_clock_hz=9001e6,
    power_limit_w=130.0,
    temperature_c=41.0,
    persistence=True,
    ecc=False,
)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_gpu_is_read_in_base_units_whether_bindings_answer_in_bytes_or_text(as_bytes):
    door = StandIn(as_bytes=as_bytes)
    assert through(door, nvml.gpus) == (WHOLE,)
    assert door.sessions == 0, "every session that was opened is closed"


@pytest.mark.parametrize("metric", FIELD_OF)
def test_one_refused_metric_is_absent_and_the_others_stand(metric):
    (gpu,) = through(StandIn(refused={metric}), nvml.gpus)
    for field in Gpu.__struct_fields__:
        expected = None if field in FIELD_OF[metric] else getattr(WHOLE, field)
        assert getattr(gpu, field) == expected, field


def test_on_a_jetson_that_refuses_everything_the_gpu_is_still_listed():
    jetson = StandIn(refused={"everything"})
    assert through(jetson, nvml.gpus) == (Gpu(name="GPU 0"),)
    assert through(jetson, nvml.nvml_problem) is None
    assert through(jetson, nvml.sharing_signs, StandIn.UUID) == {}
    assert through(jetson, nvml.process_count, StandIn.UUID) is None


def test_signs_of_sharing():
    assert through(StandIn(), nvml.sharing_signs, StandIn.UUID) == {
        "processes": 2,
        "mps": False,
        "utilisation": 0.12,
        "display": True,
        "mig": False,
        "exclusive": False,
    }
    refusing = StandIn(refused={"nvmlDeviceGetMigMode"})
    without_mig = through(refusing, nvml.sharing_signs, StandIn.UUID)
    assert "mig" not in without_mig


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (NVMLError_LibraryNotFound("x"), "no NVIDIA driver is installed"),
        (NVMLError_DriverNotLoaded("x"), "installed but not loaded"),
        (NVMLError("Unknown Error"), "Unknown Error"),
        (OSError("bad library"), "bad library"),
    ],
)
def test_without_nvml_there_are_no_gpus_and_a_reason(problem, words):
    door = Refusing(problem)
    assert through(door, nvml.gpus) == ()
    assert through(door, nvml.process_count, "any") is None
    assert through(door, nvml.sharing_signs, "any") == {}
    assert words in through(door, nvml.nvml_problem)


def test_several_questions_pay_once_for_the_start_and_everything_is_closed():
    door = StandIn()
    with using(door), nvml.keep_open():
        assert through(door, nvml.gpus) == (WHOLE,)
        assert door.sessions == 1
    assert door.sessions == 0
    with using(Refusing(OSError("none"))), nvml.keep_open():
        pass
    with pytest.raises(KeyError), using(door), nvml.keep_open():
        raise KeyError
    assert door.sessions == 0
