"""Which names of TensorRT the adapter, the builders and the runtime touch, by their own source.

Variables that hold TensorRT's objects have the same names everywhere, so every
attribute taken from one of them is an attribute of a known class.
"""

import ast
from dataclasses import fields
from pathlib import Path

from trtbench.runtimes._trt_session import Engine

CLASSES = {
    "trt": "",
    "builder": "Builder",
    "network": "INetworkDefinition",
    "config": "IBuilderConfig",
    "_config": "IBuilderConfig",
    "parser": "OnnxParser",
    "problem": "ParserError",
    "profile": "IOptimizationProfile",
    "layer": "ILayer",
    "tensor": "ITensor",
    "_cache": "ITimingCache",
    "engine": "ICudaEngine",
    "runtime": "Runtime",
    "inspector": "EngineInspector",
    "context": "IExecutionContext",
    "registry": "IPluginRegistry",
    "kind": "NetworkDefinitionCreationFlag",
}
BY_NAME = {
    "Builder.platform_has_fast_fp16",
    "Builder.platform_has_fast_int8",
    "BuilderFlag.BF16",
    "BuilderFlag.FP16",
    "BuilderFlag.FP8",
    "BuilderFlag.INT8",
    "BuilderFlag.REFIT",
    "BuilderFlag.STRIP_PLAN",
    "BuilderFlag.VERSION_COMPATIBLE",
    "IInt8EntropyCalibrator2",
    "IInt8MinMaxCalibrator",
}
"""Names that are put together at run time."""

OWN = {"_python_api.py": {"runtime"}, "tensorrt.py": {"problem"}, "_trt_session.py": {"problem"}}
"""Variables of a file that hold values of ours."""

OUR_ENGINE = {each.name for each in fields(Engine)} | {"inputs", "outputs"}
"""What the runtime's own value around an engine has."""


def touched_names(source: Path) -> set[str]:
    """List dotted names: ``IBuilderConfig.set_flag``, ``BuilderFlag.TF32``."""
    found = set(BY_NAME)
    files = [
        *source.glob("trtbench/host/tensorrt*.py"),
        source / "trtbench/convert/builders/_python_api.py",
        *source.glob("trtbench/runtimes/_trt_*.py"),
    ]
    for path in files:
        skipped = OWN.get(path.name, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                found.update(_names(node, skipped=skipped))
    return found - {f"ICudaEngine.{name}" for name in OUR_ENGINE}


def _names(node: ast.Attribute, *, skipped: set[str]) -> set[str]:
    parts = [node.attr]
    inner = node.value
    while isinstance(inner, ast.Attribute) and inner.attr not in CLASSES:
        parts.insert(0, inner.attr)
        inner = inner.value
    holder = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", None)
    if holder not in CLASSES or holder in skipped:
        return set()
    owner = CLASSES[holder]
    # Of an object only its own attribute is TensorRT's; of the module whole paths are.
    return {".".join(parts) if not owner else f"{owner}.{parts[0]}"} - {"__version__"}
