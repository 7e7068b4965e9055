"""Libraries that bring PyTorch models: imported, asked for weights, and what they lack in words."""

from __future__ import annotations

import importlib
import shlex
import sys
import urllib.error
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.domain.conversion import ExportSpec
from trtbench.errors import (
    InputError,
    TrtbenchError,
    UnavailableError,
    UsageError,
    first_line,
    near_miss,
)
from trtbench.host.versions import library_versions

if TYPE_CHECKING:
    from torch.nn import Module

DOWNLOAD_WORDS = (
    "urlopen",
    "HTTP Error",
    "Name or service",
    "resolve",
    "Connection",
    "huggingface",
)


def downloaded(spec: ExportSpec, make: Callable[[], Module]) -> Module:
    """Make a model, and say so when its weights cannot be had."""
    try:
        return make()
    except (TrtbenchError, ValueError, KeyError, FileNotFoundError):
        raise
    except (urllib.error.URLError, OSError, RuntimeError, ConnectionError) as problem:
        if spec.weights == "none" or not _is_download(problem):
            raise
        raise InputError(
            "the weights cannot be downloaded",
            facts={"source": spec.source, "reason": first_line(problem)},
            fix="--weights none exports with random weights; --weights FILE takes your own",
        ) from None


def _is_download(problem: BaseException) -> bool:
    text = f"{type(problem).__name__} {problem}".lower()
    return isinstance(problem, urllib.error.URLError) or any(
        word.lower() in text for word in DOWNLOAD_WORDS
    )


def library(module: str, package: str) -> ModuleType:
    """Import a library, or say what is wrong with it and what helps."""
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError, OSError) as problem:
        reason = first_line(problem)
        if "torchvision::" in reason:  # its operators did not load: built for another PyTorch
            raise _mismatch(reason) from None
        raise UnavailableError(
            f"{package} cannot be imported in this interpreter",
            facts={"interpreter": sys.executable, "reason": reason},
            fix=f"{shlex.quote(sys.executable)} -m pip install {package}",
        ) from None


def _mismatch(reason: str) -> UnavailableError:
    """Say that two packages are not of the one release they must be of; neither is missing."""
    found = library_versions(("torch", "torchvision"))
    return UnavailableError(
        "torchvision was built for another PyTorch than the one that is installed",
        facts={"interpreter": sys.executable, **found, "reason": reason},
        fix=f"{shlex.quote(sys.executable)} -m pip install --force-reinstall torch torchvision, "
        "both from one index",
    )


def unknown_model(name: str, known: list[str]) -> UsageError:
    """Say that a library has no such model, and which one may be meant."""
    guess = near_miss(name, known)
    return UsageError(
        f"there is no model called {name!r}", fix=f"did you mean {guess}?" if guess else None
    )
