"""Engines of known cost for the benchmarks and tests on a GPU, built with TensorRT's own API."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_KEPT: list[Any] = []
"""Loggers: TensorRT goes on using the first one of a process."""


def conv_engines(
    paths: Sequence[Path],
    *,
    layers: Sequence[int],
    channels: int = 64,
    size: int = 56,
    batch: tuple[int, int, int] = (1, 1, 1),
) -> None:
    """Build stacks of identical convolutions, FP16 where the version still chooses.

    With little search for the best kernel: it need not be fast, but the same everywhere. One timing
    cache serves all: they get the same kernels, and one more layer of N costs 1/N more.
    A batch of equal ends is fixed; else these are the ends and the middle of the profile.
    """
    import tensorrt as trt

    logger = trt.Logger(trt.Logger.ERROR)
    _KEPT.append(logger)
    builder = trt.Builder(logger)
    keeper = builder.create_builder_config()  # the cache must not outlive what made it
    cache = keeper.create_timing_cache(b"")
    for path, count in zip(paths, layers, strict=True):
        config = builder.create_builder_config()
        config.set_timing_cache(cache, ignore_mismatch=False)
        if hasattr(trt.BuilderFlag, "FP16"):
            config.set_flag(trt.BuilderFlag.FP16)
        config.builder_optimization_level = 1
        sharing: Any = getattr(trt, "PreviewFeature", None)
        if hasattr(sharing, "PROFILE_SHARING_0806"):
            config.set_preview_feature(sharing.PROFILE_SHARING_0806, True)
        open_batch = batch[0] != batch[2]
        shape = (channels, size, size)
        first = -1 if open_batch else batch[0]
        # TensorRT reads the weights while it builds: they must live until then.
        network, weights = _network(trt, builder, (first, *shape), count)
        if open_batch:
            profile = builder.create_optimization_profile()
            profile.set_shape("x", *((each, *shape) for each in batch))
            config.add_optimization_profile(profile)
        path.write_bytes(builder.build_serialized_network(network, config))
        del weights


def _network(
    trt: Any, builder: Any, shape: tuple[int, ...], layers: int
) -> tuple[Any, list[NDArray[np.float32]]]:
    explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
    network = builder.create_network(0 if explicit is None else 1 << int(explicit))
    channels = shape[1]
    tensor = network.add_input("x", trt.float32, shape)
    generator = np.random.default_rng(0)
    bias = np.zeros(channels, np.float32)
    kernels = [
        generator.normal(0, 0.04, (channels, channels, 3, 3)).astype(np.float32)
        for _ in range(layers)
    ]
    for kernel in kernels:
        layer = network.add_convolution_nd(tensor, channels, (3, 3), kernel, bias)
        layer.padding_nd = (1, 1)
        tensor = network.add_activation(layer.get_output(0), trt.ActivationType.RELU).get_output(0)
    tensor.name = "y"
    network.mark_output(tensor)
    return network, [bias, *kernels]
