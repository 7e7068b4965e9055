from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from nvml_standin import (
    NVMLError,
    NVMLError_DriverNotLoaded,
    NVMLError_LibraryNotFound,
    Refusing,
    StandIn,
)

from trtbench.domain.result import Gpu
from trtbench.domain.spec import ModelRef, RunSpec
from trtbench.host import nvml
from trtbench.runtimes._bursts import sm_clock

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
    assert nvml.gpus(nvml=door) == (WHOLE,)
    assert door.sessions == 0, "every session that was opened is closed"


@pytest.mark.parametrize("metric", FIELD_OF)
def test_one_refused_metric_is_absent_and_the_others_stand(metric):
    (gpu,) = nvml.gpus(nvml=StandIn(refused={metric}))
    for field in Gpu.__struct_fields__:
        expected = None if field in FIELD_OF[metric] else getattr(WHOLE, field)
        assert getattr(gpu, field) == expected, field


def test_on_a_jetson_that_refuses_everything_the_gpu_is_still_listed():
    jetson = StandIn(refused={"everything"})
    assert nvml.gpus(nvml=jetson) == (Gpu(name="GPU 0"),)
    assert nvml.nvml_problem(nvml=jetson) is None
    assert nvml.sharing(StandIn.UUID, nvml=jetson) == {}
    assert nvml.processes(StandIn.UUID, nvml=jetson) is None


def test_a_function_older_bindings_lack_is_absent():
    door = StandIn()
    answers = door._answers()
    del answers["nvmlDeviceGetEnforcedPowerLimit"]
    door._answers = lambda: answers
    (gpu,) = nvml.gpus(nvml=door)
    assert gpu.power_limit_w is None
    assert gpu.temperature_c == 41.0


def test_processes_are_listed_once_and_unknown_memory_is_not_zero():
    found = nvml.processes(StandIn.UUID, nvml=StandIn(as_bytes=True))
    assert found == (
        nvml.GpuProcess(pid=71, kind="compute", memory_bytes=3 * 2**30, name="process-71"),
        nvml.GpuProcess(pid=9, kind="graphics", memory_bytes=None, name="process-9"),
    )


def test_a_gpu_nobody_uses_has_no_processes_which_is_not_unknown():
    door = StandIn()
    door.compute, door.graphics = [], []
    assert nvml.processes(StandIn.UUID, nvml=door) == ()
    assert nvml.processes("GPU-of-another-machine", nvml=door) is None


def test_signs_of_sharing():
    assert nvml.sharing(StandIn.UUID, nvml=StandIn()) == {
        "processes": 2,
        "mps": False,
        "utilisation": 0.12,
        "display": True,
        "mig": False,
        "exclusive": False,
    }
    without_mig = nvml.sharing(StandIn.UUID, nvml=StandIn(refused={"nvmlDeviceGetMigMode"}))
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
    assert nvml.gpus(nvml=door) == ()
    assert nvml.processes("any", nvml=door) is None
    assert nvml.sharing("any", nvml=door) == {}
    assert words in nvml.nvml_problem(nvml=door)


def test_several_questions_pay_once_for_the_start_and_everything_is_closed():
    door = StandIn()
    with nvml.kept_open(nvml=door):
        assert nvml.gpus(nvml=door) == (WHOLE,)
        assert door.sessions == 1
    assert door.sessions == 0
    with nvml.kept_open(nvml=Refusing(OSError("none"))):
        pass
    with pytest.raises(KeyError), nvml.kept_open(nvml=door):
        raise KeyError
    assert door.sessions == 0


def test_a_driver_without_a_gpu_is_a_reason_too():
    door = StandIn()
    door.nvmlDeviceGetCount = lambda: 0
    assert nvml.gpus(nvml=door) == ()
    assert "no GPU" in nvml.nvml_problem(nvml=door)


def test_without_nvidia_ml_py_the_reason_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.gpus() == ()
    assert "nvidia-ml-py" in nvml.nvml_problem()


def test_the_real_door_never_raises():
    found = nvml.gpus()
    assert (nvml.nvml_problem() is None) == bool(found)


def test_importing_the_doors_does_not_import_nvidia_ml_py():
    code = "import sys, trtbench.host.environment; sys.exit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_clock_is_known_where_nvml_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    spec = RunSpec(model=ModelRef(path="a.engine", format="engine"), runtime="tensorrt")
    door: Any = StandIn()
    with sm_clock(spec, nvml=door) as ask:
        assert ask() == 1.98e9
    assert door.sessions == 0, "NVML is closed again"
    silent: list[Any] = [
        StandIn(refused={"nvmlDeviceGetClockInfo"}),
        StandIn(refused={"everything"}),
        Refusing(RuntimeError("no driver")),
    ]
    for each in silent:
        with sm_clock(spec, nvml=each) as ask:
            assert ask() is None
