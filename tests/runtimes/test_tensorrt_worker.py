"""Whole commands on an engine, with TensorRT and CUDA stood in for in the child process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_standin import plan_bytes
from trtbench.core.codec import json_from_value
from trtbench.core.results import Artefact
from trtbench.core.run import Fact, FailedRun
from trtbench.core.spec import BuildSpec, ModelRef
from trtbench.models.identity import sha256_of
from trtbench.store.directory import read_record, read_run

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


def test_a_run_knows_the_precision_its_engine_was_built_in(engine: Path, tmp_path: Path) -> None:
    beside = Path(f"{engine}.json")

    def bench(precision: str, sha256: str) -> dict[str, object]:
        made = Artefact(
            path=str(engine), filename=engine.name, size_bytes=1, sha256=sha256, created="now",
            spec=BuildSpec(model=ModelRef(path="m.onnx", format="onnx"), output="model.engine"),
            conditions={
                "precision": Fact(value=precision), "tf32": Fact(value=True),
                "flavour": Fact(value="tensorrt"),
            },
        )  # fmt: skip
        beside.write_bytes(json_from_value(made))
        ended = trtbench("bench", str(engine), *QUICK, "-o", "run", cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        record = read_run(tmp_path / "run").record
        shutil.rmtree(tmp_path / "run")
        return {key: fact.value for key, fact in record.conditions.items()}

    digest = sha256_of(engine)
    mixed = bench("fp16+fp32", digest)
    assert mixed["precision"] == "fp16+fp32"
    assert "tf32" not in mixed
    assert bench("fp32", digest)["tf32"] is True
    assert "precision" not in bench("fp32", "0" * 64), "of another engine"


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
