"""Several builds of one network on a real GPU: what differs, and what a shared cache does."""

from __future__ import annotations

from pathlib import Path

import models
from trtbench.analysis.builds import Lottery
from trtbench.requests.execution import Execution
from trtbench.requests.measure import CompareRequest
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.workflows.builds import Builds


def test_builds_are_measured_and_judged_in_every_respect(tmp_path: Path) -> None:
    model = models.conv_model(tmp_path / "net.onnx", channels=32, size=32, layers=3, batch=1)
    store = Store(tmp_path / "store")
    config = Config(store=str(store.root))
    request = CompareRequest(
        model, runtime="tensorrt", builds=2, launches=2, duration="200ms",
        build={"timing_cache": str(tmp_path / "shared.cache"), "optimization_level": "1"},
        output_dir=tmp_path / "out",
    )  # fmt: skip
    builds = Builds(request=request, store=store, config=config, execution=Execution())
    found = builds.compare()
    assert isinstance(found, Lottery)
    assert found.metric == "gpu"
    assert found.spread is not None
    assert found.aspect("tactics").same is True, "one timing cache, and other kernels"
    assert found.aspect("outputs").same is True


def test_a_network_with_more_layers_is_slower_over_builds(tmp_path: Path) -> None:
    sides = [
        models.conv_model(tmp_path / f"{layers}.onnx", channels=64, size=64, layers=layers, batch=1)
        for layers in (1, 48)
    ]
    store = Store(tmp_path / "store")
    config = Config(store=str(store.root))
    request = CompareRequest(
        baseline=sides[0], candidates=[sides[1]], builds=2, launches=1, duration="200ms",
        warmup="50ms", until_steady=False,
        runtime="tensorrt", build={"optimization_level": "1"}, output_dir=tmp_path / "out",
    )  # fmt: skip
    builds = Builds(request=request, store=store, config=config, execution=Execution())
    (found,) = builds.compare()
    assert found.comparison.verdicts[0].kind == "slower"
