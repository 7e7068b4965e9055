"""Several real builds of one network by TensorRT-RTX: what can be told without a GPU."""

import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

import models
from bindings.wheels import cache_folder
from trtbench.requests.execution import Execution
from trtbench.requests.measure import CompareRequest
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.workflows.builds import UNPAIRED, Builds

pytestmark = [pytest.mark.xdist_group("rtx"), pytest.mark.usefixtures("tensorrt_rtx")]

OLDER = "1.6.1.120"  # in an interpreter of its own, kept in the cache (300 MB)


def older_python() -> str:
    """Make an interpreter that has an older TensorRT-RTX."""
    folder = cache_folder() / f"rtx-{OLDER}-py{sys.version_info[0]}{sys.version_info[1]}"
    if not (folder / "whole").is_file():
        venv.create(folder, with_pip=False, clear=True)
        [packages] = folder.glob("lib/python3*/site-packages")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--retries", "1", "--target"]
        command += [str(packages), f"tensorrt-rtx-cu13=={OLDER}", "numpy", "msgspec"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"TensorRT-RTX {OLDER} could not be fetched: {done.stderr[-300:]}")
        (folder / "whole").touch()
    return str(folder / "bin" / "python")


def compared(request: CompareRequest, store: Store) -> Any:
    config = Config(store=str(store.root))
    return Builds(request=request, store=store, config=config, execution=Execution()).compare()


def test_two_versions_stand_side_by_side(tmp_path: Path) -> None:
    """Each in its interpreter: builds, bytes and layers of both, and why nothing was run."""
    store = Store(tmp_path / "store")
    request = CompareRequest(
        models.conv_model(tmp_path / "net.onnx", batch=1), builds=2, build={"target": "sm_86"},
        python=[older_python(), sys.executable], output=tmp_path / "out",
    )  # fmt: skip
    (found,) = compared(request, store)
    old, new = found.baseline, found.candidate
    assert old.builder == f"tensorrt-rtx {OLDER}"
    assert new.builder.startswith("tensorrt-rtx ")
    assert new.builder != old.builder
    assert [each.aspect("bytes").same for each in (old, new)] == [True, True]
    assert old.draws[0].sha256 != new.draws[0].sha256
    assert found.mode == UNPAIRED
    verdict = found.comparison.verdicts[0]
    if verdict.kind == "incomparable":
        assert "the engines were not measured: CUDA" in verdict.reason


def test_networks_are_built_in_pairs_without_a_timing_cache(tmp_path: Path) -> None:
    """A builder that times no kernels has none to share, and is not told of any."""
    store = Store(tmp_path / "store")
    model = models.conv_model(tmp_path / "net.onnx", batch=1)
    request = CompareRequest(
        baseline=model, candidates=[model], builds=2, runtime=("tensorrt-rtx",),
        python=(sys.executable,), output=tmp_path / "out",
        build={"target": "sm_86"},
    )  # fmt: skip
    (found,) = compared(request, store)
    assert [len(each.draws) for each in (found.baseline, found.candidate)] == [2, 2]
    assert found.mode == UNPAIRED
