"""Several real builds of one network by TensorRT-RTX: what can be told without a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import models
from bindings.rtx import OLDER, NoRtx, Rtx, older_python
from trtbench.requests.execution import Execution
from trtbench.requests.measure import CompareRequest
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.workflows.builds import UNPAIRED, Builds

pytestmark = pytest.mark.xdist_group("rtx")


def compared(request: CompareRequest, store: Store) -> Any:
    config = Config(store=str(store.root))
    return Builds(request=request, store=store, config=config, execution=Execution()).compare()


def test_real_builds_are_compared_where_nothing_can_run_them(rtx: Rtx, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    model = models.conv_model(tmp_path / "net.onnx", batch=1)
    python = rtx.python or sys.executable
    rest: dict[str, Any] = {
        "runtime": "tensorrt-rtx", "builds": 2, "build": {"target": "sm_86"},
        "output_dir": tmp_path / "out",
    }  # fmt: skip
    found = compared(CompareRequest(model, python=python, **rest), store)
    assert found.aspect("bytes").same is True
    assert found.aspect("graph").same is True
    both = compared(CompareRequest(model, python=[python, python], **rest), store)
    assert both.old.version == both.new.version
    assert "the same pieces of work" in both.layers
    if found.spread is None:
        assert both.verdict.kind == "incomparable"
        assert "not measured" in both.verdict.reason


def test_two_versions_stand_side_by_side(found_rtx: Rtx, tmp_path: Path) -> None:
    """Each in its interpreter: builds, bytes and layers of both, and why nothing was run."""
    try:
        older = older_python()
    except NoRtx as reason:
        pytest.skip(str(reason))
    store = Store(tmp_path / "store")
    request = CompareRequest(
        models.conv_model(tmp_path / "net.onnx", batch=1), builds=2, build={"target": "sm_86"},
        python=[older, found_rtx.interpreter(tmp_path / "newer")], output_dir=tmp_path / "out",
    )  # fmt: skip
    found = compared(request, store)
    assert (found.old.version, found.old.builds.builder) == (OLDER, f"tensorrt-rtx {OLDER}")
    assert found.new.version != OLDER
    for side in (found.old, found.new):
        assert side.builds.aspect("bytes").same is True
    assert found.old.builds.draws[0].sha256 != found.new.builds.draws[0].sha256
    assert "layers of the network, before any was fused" in found.layers
    if found.verdict.kind == "incomparable":
        assert "the engines were not measured: CUDA" in found.verdict.reason
        assert found.outputs.same is None


def test_networks_are_built_in_pairs_without_a_timing_cache(rtx: Rtx, tmp_path: Path) -> None:
    """A builder that times no kernels has none to share, and is not told of any."""
    store = Store(tmp_path / "store")
    model = models.conv_model(tmp_path / "net.onnx", batch=1)
    request = CompareRequest(
        baseline=model, candidates=[model], builds=2, runtime=("tensorrt-rtx",),
        python=(rtx.python or sys.executable,), output_dir=tmp_path / "out",
        build={"target": "sm_86"},
    )  # fmt: skip
    (found,) = compared(request, store)
    assert [len(each.draws) for each in (found.baseline, found.candidate)] == [2, 2]
    assert found.mode == UNPAIRED
