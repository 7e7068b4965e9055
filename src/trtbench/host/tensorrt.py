"""The one door to ``tensorrt`` and ``tensorrt_rtx``: which is here, and what that version can do.

Knows TensorRT 8.6 to 11 and TensorRT-RTX 1.x. What a version can do is what its module has, looked
up by name, never guessed from the number; the table of versions serves where no module is at hand
(a plan for another machine), and a test holds it against the real bindings of every version.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Literal

from trtbench.domain.spec import Value
from trtbench.errors import UnavailableError, UsageError

Flavour = Literal["tensorrt", "tensorrt_rtx"]
Version = tuple[int, ...]

TITLES: dict[Flavour, str] = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}
INSTALL: dict[Flavour, str] = {
    "tensorrt": "pip install tensorrt, or --python PATH of an interpreter that has it",
    "tensorrt_rtx": "pip install 'trtbench[rtx]', or --python PATH of an interpreter that has it",
}

ALWAYS: Version = (0,)
END_OF_WEAK_TYPING: tuple[Version, Version] = ((10, 99), (1, 4, 99))
"""Last TensorRT and last TensorRT-RTX that choose precisions themselves."""

_WEAK_T, _WEAK_R = END_OF_WEAK_TYPING
_NEVER: tuple[Version | None, Version | None] = (None, None)

VersionSpan = tuple[Version | None, Version | None]
"""First and last version with a name; no last one: to this day; no first one: never."""

SEEN: dict[str, tuple[VersionSpan, VersionSpan]] = {
    "BuilderFlag.FP16": ((ALWAYS, _WEAK_T), (ALWAYS, _WEAK_R)),
    "BuilderFlag.INT8": ((ALWAYS, _WEAK_T), (ALWAYS, _WEAK_R)),
    "BuilderFlag.BF16": (((10, 0), _WEAK_T), (ALWAYS, _WEAK_R)),
    "BuilderFlag.FP8": (((8, 6), _WEAK_T), (ALWAYS, _WEAK_R)),
    "BuilderFlag.STRIP_PLAN": (((10, 0), None), (ALWAYS, None)),
    "NetworkDefinitionCreationFlag.EXPLICIT_BATCH": ((ALWAYS, _WEAK_T), (ALWAYS, _WEAK_R)),
    "NetworkDefinitionCreationFlag.STRONGLY_TYPED": (((10, 0), None), (ALWAYS, None)),
    "IInt8EntropyCalibrator2": ((ALWAYS, _WEAK_T), (ALWAYS, _WEAK_R)),
    "IInt8MinMaxCalibrator": ((ALWAYS, _WEAK_T), (ALWAYS, _WEAK_R)),
    "IBuilderConfig.int8_calibrator": ((ALWAYS, _WEAK_T), _NEVER),
    "IBuilderConfig.progress_monitor": (((10, 0), None), (ALWAYS, None)),
    "IBuilderConfig.set_compute_capability": (_NEVER, (ALWAYS, None)),
    "PreviewFeature.PROFILE_SHARING_0806": ((ALWAYS, _WEAK_T), _NEVER),
    "ITimingCache.queryKeys": (((10, 9), None), (ALWAYS, None)),
    "ParserError.node_name": (((10, 0), None), (ALWAYS, None)),
    "Builder.platform_has_fast_fp16": ((ALWAYS, _WEAK_T), _NEVER),
    "Builder.platform_has_fast_int8": ((ALWAYS, _WEAK_T), _NEVER),
    "ICudaEngine.device_memory_size": ((ALWAYS, _WEAK_T), _NEVER),
    "ICudaEngine.device_memory_size_v2": (((10, 3), None), (ALWAYS, None)),
}
"""Names that not every version has, for TensorRT and TensorRT-RTX, as seen in their bindings."""

OPSETS: tuple[tuple[Version, int], ...] = (
    ((8, 0), 13),
    ((8, 5), 17),
    ((9, 2), 19),
    ((10, 0), 20),
    ((10, 15), 24),
)
"""Highest ONNX opset that the parser documents from a version on (onnx-tensorrt operators.md)."""

IR_VERSIONS: tuple[tuple[Version, int], ...] = (((8, 4), 8), ((9, 0), 9), ((10, 6), 10))
"""ONNX IR of the onnx the parser was made with: 1.12, 1.14, 1.17 (onnx-tensorrt Changelog.md).

Later versions do not say, so nothing is said about an IR from 10 on there.
"""


class Abilities(Value, frozen=True, kw_only=True):
    """What one version of one flavour can do."""

    flavour: Flavour
    version: str
    names: frozenset[str]
    """Those of ``SEEN`` that it has."""

    def has(self, name: str) -> bool:
        if name not in SEEN:
            raise KeyError(name)
        return name in self.names

    @property
    def title(self) -> str:
        return f"{TITLES[self.flavour]} {self.version}"

    @property
    def weak(self) -> bool:
        """Whether the builder can choose precisions itself, within what flags allow."""
        return self.has("BuilderFlag.FP16")

    @property
    def strong(self) -> bool:
        """Whether the builder can be held to the types of the model."""
        return self.has("NetworkDefinitionCreationFlag.STRONGLY_TYPED")

    @property
    def calibrates(self) -> bool:
        return self.has("IBuilderConfig.int8_calibrator")

    @property
    def targets(self) -> bool:
        """Whether it builds for other GPUs than the one at hand, and without any."""
        return self.has("IBuilderConfig.set_compute_capability")

    @property
    def shares_profiles_on_request(self) -> bool:
        """Whether several contexts can use one profile only when the builder was asked for it."""
        asked = self.has("PreviewFeature.PROFILE_SHARING_0806")
        return asked and version_numbers(self.version) < (10,)

    @property
    def max_opset(self) -> int | None:
        return None if self.flavour == "tensorrt_rtx" else _newest(OPSETS, self.version)

    @property
    def max_ir(self) -> int | None:
        known = self.flavour == "tensorrt" and version_numbers(self.version) < (10, 7)
        return _newest(IR_VERSIONS, self.version) if known else None


def load(flavour: Flavour) -> tuple[ModuleType, Abilities]:
    """Import one flavour and look at what it can do; a broken installation is told as such."""
    try:
        trt = importlib.import_module(flavour)
    except ImportError as problem:
        raise _missing(flavour, problem) from None
    except Exception as problem:  # libraries that do not fit raise whatever they like
        raise UnavailableError(
            f"{TITLES[flavour]} is installed and cannot be imported",
            facts={"reason": f"{type(problem).__name__}: {problem}"},
        ) from None
    return trt, abilities_of(trt, flavour=flavour)


def abilities_of(trt: ModuleType, *, flavour: Flavour) -> Abilities:
    """Look at what a module can do."""
    names = frozenset(name for name in SEEN if _found(trt, name))
    return Abilities(flavour=flavour, version=str(trt.__version__), names=names)


def abilities_of_version(version: str, *, flavour: Flavour) -> Abilities:
    """Tell what a version can do, where its module is not at hand."""
    number = version_numbers(version)
    column = 0 if flavour == "tensorrt" else 1
    names = frozenset(name for name, spans in SEEN.items() if _within(number, spans[column]))
    return Abilities(flavour=flavour, version=version, names=names)


def version_numbers(version: str) -> Version:
    """Turn ``10.13.3.9`` into numbers that compare."""
    parts = []
    for part in version.split(".")[:4]:
        if not part.isdecimal():
            break
        parts.append(int(part))
    if not parts:
        raise UsageError(f"{version!r} is not a TensorRT version", fix="write it like 10.9")
    return tuple(parts)


def _found(trt: object, name: str) -> bool:
    for part in name.split("."):
        trt = getattr(trt, part, None)
        if trt is None:
            return False
    return True


def _within(number: Version, span: VersionSpan) -> bool:
    first, last = span
    return first is not None and first <= number and (last is None or number <= last)


def _newest(table: tuple[tuple[Version, int], ...], version: str) -> int | None:
    number = version_numbers(version)
    known = [limit for first, limit in table if first <= number]
    return known[-1] if known else None


def _missing(flavour: Flavour, problem: ImportError) -> UnavailableError:
    title = TITLES[flavour]
    if isinstance(problem, ModuleNotFoundError) and problem.name == flavour:
        return UnavailableError(f"{title} is not installed here", fix=INSTALL[flavour])
    return UnavailableError(
        f"{title} is installed and cannot be loaded",
        facts={"reason": problem},
        fix="put the folder of libnvinfer on LD_LIBRARY_PATH, or install again",
    )


_KEPT: list[object] = []


def keep_until_exit(*objects: object) -> None:
    """Hold TensorRT's objects until the worker ends, which it does without taking them apart.

    TensorRT 8.6 was seen to crash on an H200 after a finished build, when Python let go of builder,
    network and configuration in the order of their names.
    """
    _KEPT.extend(objects)
