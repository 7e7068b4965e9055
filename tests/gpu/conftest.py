"""What the tests on a GPU need: a device, TensorRT, and a small engine built there."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from trtbench.host.cuda import cuda_problem

CHANNELS = 64
IMAGE = (CHANNELS, 112, 112)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    problem = cuda_problem()
    for item in items:
        if Path(item.path).parent != Path(__file__).parent:
            continue
        item.add_marker(pytest.mark.gpu)
        if problem:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {problem}"))


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stack of convolutions for batches of 1 to 8, in FP16 where the version still chooses.

    Large enough that the GPU, not the launching of kernels, takes the time.
    """
    path = tmp_path_factory.mktemp("engine") / "stack.engine"
    conv_engines()([path], layers=[12], channels=CHANNELS, size=IMAGE[1], batch=(1, 2, 8))
    return path


@pytest.fixture(scope="session")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An engine of 60 equal layers and one of 61: the second takes 1.7 % longer."""
    folder = tmp_path_factory.mktemp("stacks")
    paths = folder / "60.engine", folder / "61.engine"
    conv_engines()(paths, layers=[60, 61])
    return paths


def conv_engines() -> Callable[..., None]:
    """Find what builds stacks of convolutions, which the benchmarks use too."""
    pytest.importorskip("tensorrt", reason="no GPU: TensorRT is not installed")
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "_engines.py"
    spec = importlib.util.spec_from_file_location("_engines", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.conv_engines
