import nvml_standin
import pytest

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
    uuid=nvml_standin.StandIn.UUID,
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
    door = nvml_standin.StandIn(as_bytes=as_bytes)
    assert nvml_standin.through(door, nvml.gpus) == (WHOLE,)
    assert door.sessions == 0, "every session that was opened is closed"


@pytest.mark.parametrize("metric", FIELD_OF)
def test_one_refused_metric_is_absent_and_the_others_stand(metric):
    (gpu,) = nvml_standin.through(nvml_standin.StandIn(refused={metric}), nvml.gpus)
    for field in Gpu.__struct_fields__:
        expected = None if field in FIELD_OF[metric] else getattr(WHOLE, field)
        assert getattr(gpu, field) == expected, field


def test_on_a_jetson_that_refuses_everything_the_gpu_is_still_listed():
    jetson = nvml_standin.StandIn(refused={"everything"})
    assert nvml_standin.through(jetson, nvml.gpus) == (Gpu(name="GPU 0"),)
    assert nvml_standin.through(jetson, nvml.nvml_problem) is None
    assert nvml_standin.through(jetson, nvml.sharing_signs, nvml_standin.StandIn.UUID) == {}


def test_signs_of_sharing():
    others = {
        "processes": 2,
        "mps": False,
        "utilisation": 0.12,
        "display": True,
        "exclusive": False,
    }
    refusing = nvml_standin.StandIn(refused={"nvmlDeviceGetMigMode"})
    for door, signs in ((nvml_standin.StandIn(), {**others, "mig": False}), (refusing, others)):
        assert nvml_standin.through(door, nvml.sharing_signs, door.UUID) == signs


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (nvml_standin.NVMLError_LibraryNotFound("x"), "no NVIDIA driver is installed"),
        (nvml_standin.NVMLError_DriverNotLoaded("x"), "installed but not loaded"),
        (nvml_standin.NVMLError("Unknown Error"), "Unknown Error"),
        (OSError("bad library"), "bad library"),
    ],
)
def test_without_nvml_there_are_no_gpus_and_a_reason(problem, words):
    door = nvml_standin.Refusing(problem)
    assert nvml_standin.through(door, nvml.gpus) == ()
    assert nvml_standin.through(door, nvml.sharing_signs, "any") == {}
    assert words in nvml_standin.through(door, nvml.nvml_problem)


def test_several_questions_pay_once_for_the_start_and_everything_is_closed():
    door = nvml_standin.StandIn()
    with nvml_standin.using(door), nvml.keep_open():
        assert nvml_standin.through(door, nvml.gpus) == (WHOLE,)
        assert door.sessions == 1
    assert door.sessions == 0
    with nvml_standin.using(nvml_standin.Refusing(OSError("none"))), nvml.keep_open():
        pass
    with pytest.raises(KeyError), nvml_standin.using(door), nvml.keep_open():
        raise KeyError
    assert door.sessions == 0
