"""What the tests on a GPU need: a device, TensorRT, and a small engine built there."""

from __future__ import annotations

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
    trt = pytest.importorskip("tensorrt", reason="no GPU: TensorRT is not installed")
    import numpy as np

    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
    network = builder.create_network(0 if explicit is None else 1 << int(explicit))
    tensor = network.add_input("x", trt.float32, (-1, *IMAGE))
    generator = np.random.default_rng(0)
    weights = [
        generator.normal(0, 0.04, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32) for _ in range(12)
    ]
    bias = np.zeros(CHANNELS, np.float32)
    for kernel in weights:
        layer = network.add_convolution_nd(tensor, CHANNELS, (3, 3), kernel, bias)
        layer.padding_nd = (1, 1)
        tensor = network.add_activation(layer.get_output(0), trt.ActivationType.RELU).get_output(0)
    tensor.name = "y"
    network.mark_output(tensor)
    config = builder.create_builder_config()
    if hasattr(trt.BuilderFlag, "FP16"):
        config.set_flag(trt.BuilderFlag.FP16)
    sharing = getattr(trt, "PreviewFeature", None)
    if hasattr(sharing, "PROFILE_SHARING_0806"):
        config.set_preview_feature(sharing.PROFILE_SHARING_0806, True)
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, *IMAGE), (2, *IMAGE), (8, *IMAGE))
    config.add_optimization_profile(profile)
    path = tmp_path_factory.mktemp("engine") / "stack.engine"
    path.write_bytes(builder.build_serialized_network(network, config))
    return path
