"""The package on Python 3.10, the oldest that it supports; the other tests run on one newer."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from real_parts import ROOT
from trtbench.cli import trtbench
from waiting import printed

pytestmark = [pytest.mark.real("Python 3.10"), pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment of Python 3.10 with the package and ONNX Runtime in it."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [*sorted(pyenv.glob("versions/3.10.*/bin/python3.10")), shutil.which("python3.10")]
    works = [str(each) for each in found if each and _runs(str(each))]
    if not works:
        pytest.skip("no Python 3.10 on this machine")
    environment = tmp_path_factory.mktemp("oldest") / "environment"
    subprocess.run([works[0], "-m", "venv", "--without-pip", environment], check=True)
    pip = [sys.executable, "-m", "pip", "--python", environment, "install", "-q", "--no-compile"]
    subprocess.run([*pip, f"{ROOT}[onnx]"], check=True)
    return environment / "bin"


def _runs(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def test_every_verb_has_its_help_on_the_oldest_python(oldest: Path) -> None:
    for name in trtbench.commands:
        command = [oldest / "trtbench", name, "--help"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, (name, done.stderr)
        assert "Usage" in done.stdout


def test_a_model_is_measured_on_the_oldest_python(oldest: Path, tmp_path: Path) -> None:
    model = ROOT / "src/trtbench/data/demo/digits.onnx"
    command = [oldest / "trtbench", "bench", model, "--iterations", "20", "--json"]
    store = {**os.environ, "TRTBENCH_STORE": str(tmp_path / "store")}
    said = printed(command, cwd=tmp_path, env=store)
    assert '"python": "3.10.' in said
    assert '"median": ' in said
