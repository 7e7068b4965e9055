"""What an engine tells about itself once it is loaded: its layers and the memory it needs."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.domain.result import Scalar
from trtbench.host.tensorrt import keep_until_exit

if TYPE_CHECKING:
    from tensorrt import ICudaEngine, IHostMemory, ILogger


_BY_PROFILE = ("get_device_memory_size_for_profile_v2", "get_device_memory_size_for_profile")
"""What TensorRT calls it from 10.3 on, and from 10.1 on."""


def inspect_engine(
    trt: ModuleType, logger: ILogger, data: IHostMemory, *, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[str, dict[str, Scalar]] | None:
    """Load an engine and give its layers as JSON, with facts; ``None`` when it does not load."""
    runtime = trt.Runtime(logger)
    runtime.engine_host_code_allowed = True  # ours, built a moment ago
    engine = runtime.deserialize_cuda_engine(data)
    if engine is None:
        return None
    inspector = engine.create_engine_inspector()
    context = engine.create_execution_context() if shapes else None
    keep_until_exit(runtime, engine, inspector, context)
    if context is not None:
        # Without shapes that have been followed through the network, formats of a dynamic engine
        # are told as "N/A due to dynamic shapes".
        for name, shape in shapes.items():
            context.set_input_shape(name, shape)
        context.infer_shapes()
        inspector.execution_context = context
    text = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    return text, {**memory_facts(engine), "engine_layers": int(engine.num_layers)}


def memory_facts(engine: ICudaEngine) -> dict[str, Scalar]:
    """Tell what contexts take for activations: of the largest profile, and of each where known.

    A context takes the memory of the largest whichever profile it uses, unless it was made
    otherwise; versions before 10.1 tell nothing of single profiles.
    """
    facts: dict[str, Scalar] = {"activation_bytes": activation_bytes(engine)}
    for name in _BY_PROFILE:
        tell = getattr(engine, name, None)
        count = int(engine.num_optimization_profiles) if tell is not None else 0
        if tell is not None and count > 1:
            sizes = [int(tell(index)) for index in range(count)]
            return {**facts, "activations_by_profile": ", ".join(map(str, sizes))}
    return facts


def activation_bytes(engine: ICudaEngine) -> int | None:
    """Ask for the memory of a context on the device, by whatever name this version has."""
    for name in ("device_memory_size_v2", "device_memory_size"):
        if hasattr(engine, name):
            return int(getattr(engine, name))
    return None
