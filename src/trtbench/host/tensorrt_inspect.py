"""What an engine tells about itself once it is loaded: its layers and the memory it needs."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.domain.result import Scalar
from trtbench.host.tensorrt import Abilities, keep_until_exit

if TYPE_CHECKING:
    from tensorrt import ICudaEngine, IHostMemory, ILogger


def inspect_engine(
    trt: ModuleType,
    logger: ILogger,
    data: IHostMemory,
    *,
    abilities: Abilities,
    shapes: Mapping[str, tuple[int, ...]],
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
    return text, _facts(engine, abilities)


def _facts(engine: ICudaEngine, abilities: Abilities) -> dict[str, Scalar]:
    newer = abilities.has("ICudaEngine.device_memory_size_v2")
    memory = engine.device_memory_size_v2 if newer else engine.device_memory_size
    return {"activation_bytes": int(memory), "engine_layers": int(engine.num_layers)}
