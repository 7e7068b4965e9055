import json
import sys
import types
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner

from trtbench.cli import trtbench as group
from trtbench.core.run import Gpu
from trtbench.host import machine as versions
from trtbench.host import nvml
from trtbench.host import process as programs
from trtbench.workflows import doctor
from trtbench.workflows.doctor import diagnose, probe


class Config:
    unseen = ()

    def __init__(self, **settings: str) -> None:
        self.values = {name.replace("__", "."): value for name, value in settings.items()}
        self.origins = dict.fromkeys(self.values, "default")

    def settings(self) -> dict[str, str]:
        return self.values


def checks(group: str, *, config: Config | None = None) -> dict[str, doctor.Check]:
    with mock.patch("trtbench.requests.settings.load_config", return_value=config or Config()):
        diagnosis = diagnose()
    return {check.name: check for check in diagnosis.group(group).checks}


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Install a runtime of another package, for this process and its children."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def plugin(name: str, source: str) -> None:
        module = f"plugin_{name}"
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[trtbench.runtimes]\n{name} = {module}\n")

    return plugin


@pytest.fixture
def no_config(monkeypatch):
    """The command loads the configuration itself; here it finds an empty one."""
    stand_in = types.ModuleType("trtbench.requests.settings")
    stand_in.load_config = Config
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    return stand_in


FIX = """FORMATS = ("onnx",)
def device(spec): return "cpu"
def bench(spec, *, folder, stage): ...
def fix(): return 'pip install that'
"""
PLUGINS = {
    "works": (FIX + "def available(): return None\n", "ok", "works here"),
    "absent": (FIX + "def available(): return 'no such GPU'\n", "missing", "no such GPU"),
    "unimportable": ("import no_such_module\n", "broken", "No module named 'no_such_module'"),
    "raises": (FIX + "def available(): raise OSError('libfoo.so')\n", "broken", "libfoo.so"),
    "exits": ("raise SystemExit(3)\n", "broken", "SystemExit: 3"),
    "crashes": (FIX + "import os\ndef available(): os.abort()\n", "broken", "SIGABRT"),
    "leaves": (FIX + "import os\ndef available(): os._exit(7)\n", "broken", "status 7"),
    "empty": ("", "broken", "breaks its contract: it has no FORMATS"),
    "noisy": (FIX + "print('hello')\ndef available(): return None\n", "ok", "works here"),
}


@pytest.mark.process
def test_each_runtime_is_judged_and_a_broken_one_does_not_take_the_doctor_down(plugin):
    for name, (source, _, _) in PLUGINS.items():
        plugin(name, source)
    found = checks("runtimes")
    assert "onnxruntime" in found
    for name, (source, status, words) in PLUGINS.items():
        assert found[name].status == status, name
        assert words in found[name].detail, name
        if status != "ok" and source.startswith(FIX):
            assert found[name].fix == "pip install that", name


@pytest.mark.process
def test_a_runtime_that_hangs_is_given_up(plugin):
    plugin("hangs", "import time; time.sleep(60)")
    assert "no answer within" in str(probe("hangs", timeout_s=0.8)["problem"])


@pytest.mark.process
def test_a_runtime_is_asked_in_the_interpreter_it_would_measure_with(plugin, tmp_path):
    plugin("elsewhere", FIX + "def available(): return None\n")
    plugin("absent", FIX + "def available(): return 'not there'\n")

    def asked(runtime: str, script: str | None) -> tuple[Path, doctor.Check]:
        python = tmp_path / "bin" / "python"
        python.parent.mkdir(exist_ok=True)
        python.unlink(missing_ok=True)
        if script is not None:
            python.write_text(f"#!/bin/sh\n{script}\n")
            python.chmod(0o755)
        config = Config(**{f"runtimes__{runtime}__python": str(python)})
        return python, checks("runtimes", config=config)[runtime]

    python, check = asked("elsewhere", None)
    assert (check.status, str(python) in check.detail) == ("broken", True)
    # The same interpreter under another name uses this package and finds the plug-in.
    same = f'exec "{sys.executable}" "$@"'
    python, check = asked("elsewhere", same)
    assert (check.status, str(python) in check.detail) == ("ok", True)
    python, check = asked("absent", same)
    assert check.fix == f"{python} -m pip install that"
    python, check = asked("onnxruntime", f'exec "{sys.executable}" -S "$@"')
    assert (check.status, "No module named" in check.detail) == ("broken", True)
    assert check.fix == f"{python} -m pip install msgspec numpy"


@pytest.fixture
def no_runtimes(monkeypatch):
    monkeypatch.setattr(doctor, "_check_runtime", lambda name, *, settings: OK)


OK = doctor.Check(name="stand-in", status="ok", detail="works here")


@pytest.mark.usefixtures("no_runtimes")
@pytest.mark.parametrize(
    ("cuda", "bindings", "tensorrt"),
    [
        ("12.4", "'cuda-bindings==12.9.*'", "tensorrt-cu12"),
        ("13.0", "cuda-bindings", "tensorrt-cu13"),
    ],
)
def test_cuda_packages_fit_the_driver(monkeypatch, cuda, bindings, tensorrt):
    gpu = Gpu(name="Test", driver="550.1", cuda=cuda, memory_bytes=2**33)
    monkeypatch.setattr(versions.metadata, "version", lambda distribution: None)
    monkeypatch.setattr(nvml, "nvml_problem", lambda: None)
    monkeypatch.setattr(nvml, "gpus", lambda: (gpu,))
    packages = checks("Python and packages")
    assert packages["cuda-bindings"].fix == f"pip install {bindings}"
    assert packages["tensorrt"].fix == f"pip install {tensorrt}"
    found = checks("GPU and driver")
    assert found["driver"].detail == f"550.1, CUDA {cuda}"
    assert found["GPU 0"].detail == "Test, 8.00 GiB"
    alone = {each.name: each.fix for each in doctor._check_packages(())}["cuda-bindings"]
    assert alone == "with an NVIDIA GPU and its driver: pip install cuda-bindings"


@pytest.mark.usefixtures("no_runtimes")
def test_two_onnx_runtimes_in_one_environment_are_broken(monkeypatch):
    installed = {"onnxruntime": "1.20", "onnxruntime-gpu": "1.19"}
    monkeypatch.setattr(versions.metadata, "version", installed.get)
    check = checks("Python and packages")["onnxruntime"]
    fix = "pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu"
    assert (check.status, check.fix) == ("broken", fix)


@pytest.mark.usefixtures("no_runtimes")
@pytest.mark.parametrize("kept", [True, False])
def test_bytecode_that_is_not_kept_is_said(monkeypatch, tmp_path, kept):
    monkeypatch.setattr(sys, "dont_write_bytecode", not kept)
    monkeypatch.setattr(doctor, "__file__", str(tmp_path / "doctor.py"))
    assert ("bytecode" in checks("Python and packages")) == (not kept)


@pytest.mark.usefixtures("no_runtimes")
def test_trtexec_is_found_on_the_path_and_beside_it(monkeypatch, tmp_path):
    tool = tmp_path / "trtexec"
    tool.write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", "")
    assert programs.find_trtexec(folders=[tmp_path]) is None, "it must be executable"
    tool.chmod(0o755)
    assert programs.find_trtexec(folders=[tmp_path]) == tool
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checks("tools")["trtexec"].detail == str(tool)


@pytest.mark.usefixtures("no_config")
def test_no_working_runtime_is_status_4_with_the_result_on_stdout(monkeypatch):
    broken = doctor.Check(name="r", status="missing", detail="not installed", fix="pip install r")
    monkeypatch.setattr(doctor, "_check_runtime", lambda name, *, settings: broken)
    done = CliRunner().invoke(group, ["doctor", "--json"])
    assert done.exit_code == 4
    groups = {each["name"]: each["checks"] for each in json.loads(done.stdout)["groups"]}
    assert {check["status"] for check in groups["runtimes"]} == {"missing"}
    first = CliRunner().invoke(group, ["doctor"], env={"COLUMNS": "400"}).stdout.splitlines()[0]
    assert first.startswith("no runtime works here; r, ")
    assert ". First, " in first, "the one thing to do"
