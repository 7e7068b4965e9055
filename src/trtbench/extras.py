"""Which packages come with which extra, and what to say when one is missing.

Knows names of packages; imports one when it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

from trtbench.errors import UnavailableError


class Extra(NamedTuple):
    """One extra: ``pip install 'trtbench[name]'``."""

    packages: tuple[str, ...]
    """What it brings, as Python imports them."""
    adds: str
    """What one can do with it."""


EXTRAS: dict[str, Extra] = {
    "onnx": Extra(
        ("onnx", "onnxruntime"), "ONNX files: ONNX Runtime, build, quantize, check, inspect"
    ),
    "html": Extra(("jinja2", "plotly", "PIL"), "HTML reports and sites"),
    "plots": Extra(("matplotlib", "PIL"), "pictures: PNG, and in Markdown and LaTeX reports"),
    "tasks": Extra(("PIL", "matplotlib"), "eval and calibration on images"),
    "torch": Extra(("torch", "onnxscript"), "PyTorch models: bench and export"),
    "rtx": Extra(("tensorrt_rtx",), "TensorRT-RTX, whose builder needs no GPU"),
    "cu12": Extra(("cuda",), "engines in this process, driver of CUDA 12"),
    "cu13": Extra(("cuda",), "engines in this process, driver of CUDA 13"),
    "postgres": Extra(("psycopg",), "a store in PostgreSQL"),
    "remote": Extra(("fsspec", "s3fs"), "runs in an object store"),
    "ray": Extra(("ray",), "runs on a Ray cluster"),
    "parquet": Extra(("pyarrow",), "tables as Parquet"),
    "pandas": Extra(("pandas",), "runs, lists and layers as tables of pandas"),
    "mlflow": Extra(("mlflow",), "runs to MLflow"),
}


def missing_package(problem: ImportError, name: str | None = None) -> UnavailableError | None:
    """Say which command installs what could not be imported; ``None`` when it is none of ours."""
    package = (name or problem.name or "").partition(".")[0]
    extra = next((name for name, extra in EXTRAS.items() if package in extra.packages), None)
    if extra is None:
        return None
    absent = isinstance(problem, ModuleNotFoundError)
    return UnavailableError(
        f"the package {package} {'is not installed' if absent else 'cannot be imported'}",
        facts={"it is for": EXTRAS[extra].adds, **({} if absent else {"reason": problem})},
        fix=f"pip install 'trtbench[{extra}]'",
    )


def optional_library(name: str) -> ModuleType:
    """Import a library of an extra; without it, say which extra brings it."""
    loading: Callable[[str], ModuleType] = importlib.import_module
    try:
        return loading(name)
    except ImportError as problem:
        raise missing_package(problem, name) or problem from problem
