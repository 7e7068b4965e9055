"""Whole commands on an engine, with TensorRT and CUDA stood in for in the child process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_standin import plan_bytes
from trtbench.core.run import FailedRun
from trtbench.store.directory import read_record

pytestmark = pytest.mark.process

STANDIN = Path(__file__).resolve().parents[1] / "standin_gpu"


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    path = tmp_path / "model.engine"
    path.write_bytes(plan_bytes())
    return path


def trtbench(
    *arguments: str, cwd: Path, fail: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(STANDIN), "TMPDIR": str(cwd)}
    if fail:
        environment["STANDIN_GPU_FAIL"] = fail
    command = [sys.executable, "-m", "trtbench", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


QUICK = ("-r", "tensorrt", "--batch", "4", "--iterations", "30", "--warmup-iterations", "3",
         "--no-until-steady", "--store", "store")  # fmt: skip


def test_a_cuda_error_in_mid_run_is_a_recorded_failure(engine: Path, tmp_path: Path) -> None:
    ended = trtbench(
        "bench", str(engine), *QUICK, "-o", "run", cwd=tmp_path, fail="cudaEventSynchronize:700:20"
    )
    assert ended.returncode == 1
    assert "illegal memory access" in ended.stderr
    assert "Traceback" not in ended.stderr.split("error:")[-1]
    record = read_record(tmp_path / "run")
    assert isinstance(record, FailedRun)
    assert record.stage == "measure"
