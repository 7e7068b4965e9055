"""Which libraries are installed, from package metadata alone: nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import metadata

from trtbench.version import __version__

DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "onnxruntime": (
        "onnxruntime",
        "onnxruntime-gpu",
        "onnxruntime-training",
        "onnxruntime-openvino",
        "onnxruntime-directml",
    ),
    "tensorrt": (
        "tensorrt",
        "tensorrt-cu13",
        "tensorrt-cu12",
        "tensorrt-cu11",
        "tensorrt-bindings",
        "tensorrt-cu13-bindings",
        "tensorrt-cu12-bindings",
        "tensorrt-cu11-bindings",
        "tensorrt-libs",
        "tensorrt-cu13-libs",
        "tensorrt-cu12-libs",
        "tensorrt-cu11-libs",
        "tensorrt-lean",
        "tensorrt-dispatch",
    ),
    "tensorrt-rtx": ("tensorrt-rtx", "tensorrt-rtx-cu13", "tensorrt-rtx-cu12"),
    "cuda-bindings": ("cuda-bindings", "cuda-python"),
}
"""Libraries that come under several distribution names, the telling one first."""

LIBRARIES = (
    "trtbench",
    "numpy",
    "scipy",
    "onnx",
    "onnxruntime",
    "torch",
    "torchvision",
    "tensorrt",
    "tensorrt-rtx",
    "cuda-bindings",
    "nvidia-ml-py",
)
"""What a measurement may depend on."""


def library_versions(names: Iterable[str] = LIBRARIES) -> dict[str, str]:
    """Return the version of each library that is installed; one that is not is absent.

    A library is always found under the name it was asked by. Where another distribution provides
    it (``onnxruntime-gpu``, ``tensorrt-cu12``), that one is listed beside it under its own name.
    """
    found: dict[str, str] = {}
    for name in names:
        provided = distribution_versions(name)
        if provided:
            found[name] = next(iter(provided.values()))
        for distribution, version in provided.items():
            found.setdefault(distribution, version)
    return found


def distribution_versions(library: str) -> dict[str, str]:
    """Return the installed distributions that provide a library, the telling one first."""
    plain = _plain(library)
    if plain == "trtbench":  # the code that runs: another one, or none, may be installed here
        return {plain: __version__}
    candidates = DISTRIBUTIONS.get(plain, (plain,))
    versions = {name: _version(name) for name in candidates}
    return {name: version for name, version in versions.items() if version is not None}


def _plain(name: str) -> str:
    """Spell a distribution name as package indexes do: ``tensorrt_rtx`` is ``tensorrt-rtx``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _version(distribution: str) -> str | None:
    try:
        # Half-removed packages have metadata without a version: None, or KeyError in newer Pythons.
        return metadata.version(distribution) or None
    except (metadata.PackageNotFoundError, KeyError, OSError, ValueError):
        return None
