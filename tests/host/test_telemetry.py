"""Looking at a GPU: each quantity by itself, counters before and after, Jetsons, locked clocks."""

import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import nvml_standin
import pytest
from nvml_standin import NVMLError, StandIn, using

from trtbench.core.jobs import BenchOutcome
from trtbench.core.run import Gpu, LaunchFacts
from trtbench.core.samples import TelemetrySample
from trtbench.host import nvml, telemetry
from trtbench.host.nvml import opened
from trtbench.measure.watch import SampledLaunch, Watch


class NVMLError_NoPermission(NVMLError):
    pass


class Busy(StandIn):
    """A GPU at work: counters grow with every look."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.looks = 0
        self.locked: tuple[int, int] | None = None
        self.root = True

    def _answers(self) -> dict[str, Any]:
        return {
            **super()._answers(),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(
                total=20 * 2**30, used=3 * 2**30, free=17 * 2**30
            ),
            "nvmlDeviceGetPowerUsage": 350_000,
            "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
            "nvmlDeviceGetTotalEnergyConsumption": self._energy,
            "nvmlDeviceGetViolationStatus": self._violation,
            "nvmlDeviceGetFieldValues": self._fields,
            "nvmlDeviceGetDefaultApplicationsClock": lambda handle, kind: 1500,
            "nvmlDeviceSetGpuLockedClocks": self._lock,
            "nvmlDeviceResetGpuLockedClocks": self._unlock,
        }

    def _energy(self, handle: object) -> int:
        self.looks += 1
        return 1_000_000 + 35_000 * self.looks

    def _violation(self, handle: object, policy: int) -> Any:
        return SimpleNamespace(violationTime=10**9 * (policy + 1))

    def _fields(self, handle: object, numbers: list[int]) -> list[Any]:
        return [
            SimpleNamespace(nvmlReturn=0 if n != 271 else 3, value=SimpleNamespace(ullVal=n))
            for n in numbers
        ]

    def _lock(self, handle: object, low: int, high: int) -> None:
        if not self.root:
            raise NVMLError_NoPermission("Insufficient Permissions")
        self.locked = (low, high)

    def _unlock(self, handle: object) -> None:
        self.locked = None


def test_a_look_has_every_quantity_in_our_units_counters_and_the_memory_of_newcomers() -> None:
    nvml = Busy()
    with using(nvml), opened(0) as device:
        source = telemetry.NvmlSource(device)
        seen, read = source.sample(1.5), source.counters()
        assert seen.process_memory_bytes is None
        nvml.compute.append(SimpleNamespace(pid=99, usedGpuMemory=7 * 2**20))
        assert source.sample(0.1).process_memory_bytes == 7 * 2**20
    assert (seen.at_s, seen.memory_used_bytes, seen.event_reasons) == (1.5, 3 * 2**30, 0x4)
    found = (seen.gpu_util, seen.sm_clock_hz, seen.power_w, seen.energy_j)
    assert found == pytest.approx((0.12, 1980e6, 350.0, 1035.0))
    assert read.limits_s["power"] == pytest.approx(1.0)
    assert read.limits_s["thermal"] == pytest.approx(2.0)
    assert read.limits_s["sw_power_cap"] == pytest.approx(74e-9)
    assert "power_brake" not in read.limits_s, "the device does not have it"
    assert read.energy_j is None


def test_growth_is_a_difference_without_what_went_back_and_power_is_integrated() -> None:
    before = telemetry.Counters(at_s=1.0, limits_s={"power": 5.0, "thermal": 2.0}, energy_j=10.0)
    after = telemetry.Counters(at_s=4.0, limits_s={"power": 5.5, "thermal": 1.0}, energy_j=700.0)
    grown = telemetry.growth(before, after)
    assert grown == telemetry.Counters(at_s=3.0, limits_s={"power": 0.5}, energy_j=690.0)
    samples = tuple(TelemetrySample(at_s=t, power_w=w) for t, w in ((0, 100), (1, 200), (3, 200)))
    assert telemetry.integrated_j(samples) == pytest.approx(150 + 400)
    assert telemetry.integrated_j(samples[:1]) is None


def test_a_pass_tells_energy_per_query() -> None:
    with using(Busy()), opened(0) as device:
        source = telemetry.NvmlSource(device)
        passed = SampledLaunch(source, interval_s=0.01)
        passed("load")
        passed("measure")
        time.sleep(0.05)
        passed("save")
        samples = passed.finish()
        told = passed.energy(samples, count=10, gpu="NVIDIA H200")
    assert told["idle_power_w"] == pytest.approx(350.0)
    assert told["energy_per_query_j"] == pytest.approx(told["energy_counter_j"] / 10)
    above = told["energy_per_query_j"] - 350.0 * told["energy_window_s"] / 10
    assert told["energy_above_idle_j"] == pytest.approx(above)
    assert told["energy_part_time_sensor"] is True
    assert told["energy_window_s"] >= 0.05
    assert told["energy_update_s"] is not None


def test_a_watch_reads_counters_around_the_measured_part_only() -> None:
    readings = iter(
        telemetry.Counters(at_s=float(n), limits_s={"power": n * 0.5}, sm_clock_hz=1e9 + n)
        for n in range(9)
    )
    source: Any = SimpleNamespace(counters=lambda: next(readings), process_memory=lambda: 7)
    watch = Watch(index=0, source=source, free=iter([50, 40, 50]).__next__)
    for stage in ("load", "warm-up", "measure", "profile", "save"):
        watch(stage)
    told = watch.with_telemetry(BenchOutcome(facts=LaunchFacts(wall_s=1.0)))
    assert told.evidence == {"gpu_memory_bytes": 7}
    assert told.facts.violations_s == {"power": 0.5}
    assert watch.evidence["sm_clock_before_hz"] == 1e9
    assert watch.evidence["sm_clock_after_hz"] == 1e9 + 1
    watch("load")
    watch("measure")
    plain = BenchOutcome(facts=LaunchFacts())
    assert watch.with_telemetry(plain) == plain


def test_a_watch_keeps_the_largest_fall_of_the_clock_in_a_launch() -> None:
    clocks = iter([1.8e9, 1.5e9, 1.8e9, 1.8e9])
    source: Any = SimpleNamespace(
        counters=lambda: telemetry.Counters(at_s=0.0, sm_clock_hz=next(clocks))
    )
    watch = Watch(index=0, source=source)
    for _ in range(2):
        for stage in ("measure", "save"):
            watch(stage)
        watch.with_telemetry(BenchOutcome(facts=LaunchFacts()))
    assert watch.evidence["sm_clock_drop"] == pytest.approx(1 - 1.5 / 1.8)


def test_clocks_are_locked_and_always_given_back_and_who_may_not_lock_them_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml = Busy()
    with suppress(RuntimeError), using(nvml), telemetry.locked_clocks(0, "base") as lock:
        assert lock.locked
        assert nvml.locked == (1500, 1500)
        raise RuntimeError
    assert nvml.locked is None
    with using(nvml), telemetry.locked_clocks(0, "1200") as lock:
        assert nvml.locked == (1200, 1200)
    with using(nvml), telemetry.locked_clocks(0, "max") as lock:
        assert lock.clock_mhz == 2100
    nvml.root = False
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with using(nvml), telemetry.locked_clocks(0, "base") as lock:
        assert not lock.locked
        assert "needs root (sudo nvidia-smi -i 0 -lgc 1500,1500)" in (lock.note or "")


@pytest.mark.parametrize("pinned", [True, False])
def test_a_jetson_has_a_program_for_its_clocks(monkeypatch: pytest.MonkeyPatch, pinned: bool):
    monkeypatch.setattr("trtbench.host.telemetry.is_jetson", lambda: True)
    with telemetry.locked_clocks(0, "max", pinned=pinned) as lock:
        assert lock.locked is pinned
        assert "jetson_clocks" in (lock.note or "")


def test_a_clock_that_is_not_where_it_was_locked_is_told() -> None:
    source: Any = SimpleNamespace(counters=lambda: telemetry.Counters(at_s=0.0, sm_clock_hz=1.35e9))
    for asked, notes in ((1500, ["clock locked to 1500 MHz but seen at 1350 MHz"]), (1345, [])):
        watch = Watch(index=0, source=source, lock=telemetry.Lock(locked=True, clock_mhz=asked))
        for stage in ("measure", "save"):
            watch(stage)
        watch.with_telemetry(BenchOutcome(facts=LaunchFacts()))
        assert watch.notes == notes


LINES = {
    "JetPack 4": (
        "RAM 2461/3964MB (lfb 2x4MB) SWAP 12/1982MB (cached 0MB) CPU [25%@1479,20%@1479,off,off] "
        "EMC_FREQ 8%@1600 GR3D_FREQ 76%@921 APE 25 PLL@34C CPU@36.5C PMIC@100C GPU@34.5C AO@43C "
        "thermal@35.5C POM_5V_IN 4930/4012 POM_5V_GPU 1423/822 POM_5V_CPU 1180/901",
        (0.76, 921e6, 4.93, 34.5, 2461),
    ),
    "JetPack 6": (
        "10-02-2024 09:00:00 RAM 3210/7620MB (lfb 4x4MB) SWAP 0/3810MB (cached 0MB) "
        "CPU [5%@1510,3%@1510] EMC_FREQ 3%@2133 GR3D_FREQ 99%@[624] "
        "cpu@50.093C soc2@49.2C gpu@51.187C tj@51.187C "
        "VDD_IN 8123mW/7000mW VDD_CPU_GPU_CV 3100mW/2500mW VDD_SOC 1900mW/1800mW",
        (0.99, 624e6, 8.123, 51.187, 3210),
    ),
    "the load is not told": (
        "08-30-2025 12:00:00 RAM 9001/125772MB CPU [5%@972] GR3D_FREQ @[1386,1386,1386] "
        "gpu@39.5C VDD_GPU 9800mW/9800mW VIN 31250mW/31250mW",
        (None, 1386e6, 31.25, 39.5, 9001),
    ),
    "JetPack 2": (
        "RAM 1320/3994MB (lfb 500x4MB) cpu [31%,12%,9%,7%]@1734 EMC 7%@1600 AVP 0%@80 VDE 0 "
        "GR3D 83%@998 EDP limit 0 GPU-therm@41C",
        (0.83, 998e6, None, 41.0, 1320),
    ),
    "no clocks": (
        "RAM 100/200MB GR3D_FREQ 7% CPU [1%] cpu@30C gpu@31C",
        (0.07, None, None, 31.0, 100),
    ),
    "AGX Xavier": (
        "RAM 5120/31928MB (lfb 6000x4MB) CPU [20%@2265,16%@2265,11%@2265,14%@2265] "
        "EMC_FREQ 11%@2133 GR3D_FREQ 97%@1377 AO@38C GPU@42.5C Tdiode@44C CPU@41.5C PMIC@100C "
        "GPU 11234/10400 CPU 2480/2311 SOC 3101/2990 CV 0/0 VDDRQ 1705/1624 SYS5V 3420/3388",
        (0.97, 1377e6, 11.234 + 2.480 + 3.101 + 1.705 + 3.420, 42.5, 5120),
    ),
    "Orin NX": (
        "11-20-2024 19:44:10 RAM 6011/15523MB (lfb 20x4MB) CPU [3%@1984,2%@1984,4%@1984] "
        "EMC_FREQ @3199 GR3D_FREQ 84%@[0,765] cpu@52.4C gpu@-256C tj@52.9C "
        "VDD_IN 14250mW/13800mW VDD_CPU_GPU_CV 7005mW/6500mW VDD_SOC 2604mW/2580mW",
        (0.84, 765e6, 14.250, None, 6011),
    ),
    "AGX Orin": (
        "01-15-2025 10:30:00 RAM 9100/62841MB (lfb 8x4MB) CPU [17%@2201,12%@2201,9%@2201] "
        "EMC_FREQ 22%@3199 GR3D_FREQ 99%@[1299,1299] VIC_FREQ 115 CV0@-256C CPU@55.3C GPU@51.7C "
        "Tboard@44C tj@55.3C VDD_GPU_SOC 21580mW/20110mW VDD_CPU_CV 3208mW/3001mW "
        "VIN_SYS_5V0 5990mW/5800mW NC 0mW/0mW VDDQ_VDD2_1V8AO 1604mW/1502mW NC 0mW/0mW",
        (0.99, 1299e6, 21.580 + 3.208 + 5.990, 51.7, 9100),
    ),
    "Thor": (
        "09-02-2025 14:05:40 RAM 12044/125772MB (lfb 3x4MB) CPU [6%@2601,4%@2601,3%@2601] "
        "GR3D_FREQ 90%@[1575,1575,1575] cpu@48.2C tj@50.1C soc012@49.3C gpu-thermal@47.8C "
        "VDD_GPU 41300mW/39800mW VDD_CPU_SOC_MSS 11240mW/11000mW VIN_SYS_5V0 7010mW/6920mW "
        "VIN 72450mW/70010mW",
        (0.9, 1575e6, 72.450, 47.8, 12044),
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_tegrastats_of_several_jetpacks(name: str) -> None:
    line, (load, clock, power, temperature, memory) = LINES[name]
    seen = telemetry.sample_from_line(line, at_s=2.0)
    found = (seen.gpu_util, seen.sm_clock_hz, seen.power_w, seen.temperature_c)
    assert found == pytest.approx((load, clock, power, temperature))
    assert seen.memory_used_bytes == memory * 2**20
    assert telemetry.sample_from_line("not a line of tegrastats", at_s=0.0) is None


def test_how_a_jetson_is_set() -> None:
    assert telemetry.power_mode("NV Power Mode: MODE_15W\n2\n") == "MODE_15W (2)"
    assert telemetry.power_mode("NV Power Mode: MAXN") == "MAXN"
    assert telemetry.power_mode("nothing") is None
    pinned = "GPU MinFreq=624750000 MaxFreq=624750000 CurrentFreq=624750000"
    assert telemetry.clocks_pinned(pinned) is True
    assert telemetry.clocks_pinned(pinned.replace("MinFreq=6", "MinFreq=3")) is False
    assert telemetry.clocks_pinned("") is None


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
