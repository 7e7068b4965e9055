"""Whole runs on the stand-in GPU with a stand-in NVML in the parent: clocks, telemetry, energy."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu_standin import plan_bytes
from trtbench.core.run import Run
from trtbench.report.document import Table
from trtbench.report.sections.latency import make
from trtbench.store.directory import read_record, read_run
from waiting import wait_for

pytestmark = pytest.mark.process

TESTS = Path(__file__).resolve().parents[1]

NVML = '''
"""A GPU that writes down what is done to its clocks."""
import os, time
from types import SimpleNamespace as Namespace

class NVMLError(Exception):
    pass

BEGAN = time.monotonic()

def note(text):
    with open(os.environ["NVML_NOTES"], "a") as file:
        file.write(text + chr(10))

def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(handle): return "NVIDIA Stand-in"
def nvmlDeviceGetDefaultApplicationsClock(handle, kind): return 1500
def nvmlDeviceGetClockInfo(handle, kind): return {1: 1500, 2: 2600}[kind]
def nvmlDeviceGetPowerUsage(handle): return 200_000
def nvmlDeviceGetTemperature(handle, sensor): return 55
def nvmlDeviceGetUtilizationRates(handle): return Namespace(gpu=75, memory=20)
def nvmlDeviceGetMemoryInfo(handle): return Namespace(total=2**34, used=2**31, free=2**30 + 2**28)
def nvmlDeviceGetTotalEnergyConsumption(handle): return int((time.monotonic() - BEGAN) * 200_000)
def nvmlDeviceSetGpuLockedClocks(handle, low, high): note(f"lock {low} {high}")
def nvmlDeviceResetGpuLockedClocks(handle): note("reset")
'''


class Machine:
    """A folder with an engine, and a trtbench that sees the stand-ins."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes.txt"
        (folder / "doors").mkdir()
        (folder / "doors" / "pynvml.py").write_text(NVML)
        (folder / "model.engine").write_bytes(plan_bytes())

    def start(self, *flags: str, **settings: str) -> subprocess.Popen[str]:
        path = os.pathsep.join((str(self.folder / "doors"), str(TESTS / "standin_gpu")))
        return subprocess.Popen(
            [sys.executable, "-m", "trtbench", "bench", "model.engine", "-r", "tensorrt",
             "--batch", "4", "--warmup-iterations", "3", "--no-until-steady", "-o", "run",
             "--store", "store", *flags],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path, "NVML_NOTES": str(self.notes),
                 "TMPDIR": str(self.folder), "TRTBENCH_TEST_STARTS": "workers", **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def worker(self, parent: int) -> int | None:
        """The process that measures, once it has loaded the engine."""
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for child in children:
            maps = Path(f"/proc/{child}/cmdline")
            if maps.exists() and b"trtbench.worker" in maps.read_bytes():
                return int(child)
        return None


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_clocks_are_given_back_after_a_run(machine: Machine) -> None:
    started = machine.start("--iterations", "30", "--lock-clocks", "--cuda-graph")
    out, err = started.communicate()
    assert started.returncode == 0, err
    assert "protocol serve (CUDA graph, clocks locked)" in out
    assert machine.noted() == ["lock 1500 1500", "reset"]
    record = read_record(machine.folder / "run")
    assert record.conditions["clocks_locked"].value is True
    assert record.facts["sm_clock_before_hz"] == 1.5e9


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("victim", "number", "status"),
    [
        ("trtbench", signal.SIGINT, 130), ("trtbench", signal.SIGTERM, 130),
        ("trtbench", signal.SIGKILL, -signal.SIGKILL), ("worker", signal.SIGKILL, 1),
    ],
)  # fmt: skip
def test_clocks_are_given_back_however_a_run_ends(
    machine: Machine, victim: str, number: signal.Signals, status: int
) -> None:
    started = machine.start("--duration", "60s", "--lock-clocks", "1200")
    worker = wait_for(lambda: machine.worker(started.pid))
    assert isinstance(worker, int)
    assert machine.noted() == ["lock 1200 1200"]
    time.sleep(0.5)
    os.kill(worker if victim == "worker" else started.pid, number)
    _, err = started.communicate()
    assert started.returncode == status, err
    wait_for(lambda: machine.noted() == ["lock 1200 1200", "reset"])
    if victim == "worker":
        record = read_record(machine.folder / "run")
        assert record.signal == "SIGKILL"


def test_a_cuda_error_in_mid_run_is_a_recorded_failure(machine: Machine) -> None:
    started = machine.start("--iterations", "30", STANDIN_GPU_FAIL="cudaEventSynchronize:700:20")
    _, err = started.communicate()
    assert started.returncode == 1
    assert "illegal memory access" in err
    assert "Traceback" not in err.split("error:")[-1]
    record = read_record(machine.folder / "run")
    assert record.stage == "measure"


def test_a_pass_with_telemetry_tells_energy_per_query_and_per_item(machine: Machine) -> None:
    started = machine.start("--duration", "600ms", "--telemetry", "50ms")
    out, err = started.communicate()
    assert started.returncode == 0, err
    run = read_run(machine.folder / "run")
    assert len(run.telemetry) > 2
    facts = run.record.facts
    per_query, window_s = facts["energy_per_query_j"], facts["energy_window_s"]
    assert isinstance(per_query, float)
    assert isinstance(window_s, float)
    assert window_s >= 0.6
    assert per_query * facts["telemetry_queries"] == pytest.approx(200 * window_s, rel=0.25)
    assert per_query >= 200 * 3.6e-3
    line = next(line for line in out.splitlines() if line.startswith("energy"))
    assert "J per batch" in line
    assert "J per item" in line
    assert re.search(r"-?[\d.e-]+\s+J per\s+batch\s+above the\s+idle\s+[\d.]+\s+W", out), out
    [shown] = [line for line in out.splitlines() if line.startswith("GPU ") and "SM" in line]
    assert "GPU 75.0 %" in shown, out
    assert "SM clock 1 500 MHz, Power 200 W" in shown.replace("\u00a0", " "), out
    assert energy_in_the_report(run) == pytest.approx(per_query / 4)


def energy_in_the_report(run: Run) -> float | None:
    blocks = [block for section in make([run]) for block in section.blocks]
    table = next(each for each in blocks if isinstance(each, Table) and each.id == "telemetry")
    cell = table.rows[0][-1]
    assert isinstance(cell.value, float)
    return cell.value
