"""The record of a build told in a sentence: from what, with what, for which shapes, how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath

from trtbench.report.labels import shortened
from trtbench.report.numbers import text_from_duration
from trtbench.units import text_from_bytes

MOST_INPUTS = 3
LENGTH = 80


def sentence_from_build(name: str, told: Mapping[object, object]) -> str | None:
    """Tell of one engine what its record knows; ``None`` where that is nothing people ask for."""
    spec = _mapping(told.get("spec"))
    parts = [*_made(told, spec), *_sizes(told, spec), *_allowed(spec)]
    return f"{name}: {'; '.join(parts)}." if parts else None


def _made(told: Mapping[object, object], spec: Mapping[object, object]) -> Iterator[str]:
    words = []
    if source := _text(_mapping(spec.get("model")).get("path")):
        words.append(f"from {shortened(PurePath(source).name, length=LENGTH)}")
    if precision := _text(spec.get("precision")):
        words.append(f"in {precision}")
    if version := _text(told.get("tensorrt")) or _text(told.get("plan")):
        words.append(f"by TensorRT {version}")
    if gpus := _names(told.get("gpus")):
        words.append(f"on {gpus[0]}")
    seconds = _number(told.get("build_s")) or _number(told.get("wall_s"))
    if seconds:
        words.append(f"in {text_from_duration(seconds)}")
    if words:
        yield f"built {' '.join(words)}"


def _sizes(told: Mapping[object, object], spec: Mapping[object, object]) -> Iterator[str]:
    if size := _number(told.get("size_bytes")):
        yield f"its file holds {text_from_bytes(size)}"
    if peak := _number(told.get("peak_memory_bytes")):
        yield f"building took {text_from_bytes(peak)} of memory"
    shapes = _mapping(spec.get("shapes"))
    ranges = [each for name, value in shapes.items() if (each := _range(str(name), value))]
    if ranges:
        more = f" and {len(ranges) - MOST_INPUTS} more" if len(ranges) > MOST_INPUTS else ""
        yield f"it takes {', '.join(ranges[:MOST_INPUTS])}{more}"


def _allowed(spec: Mapping[object, object]) -> Iterator[str]:
    """Name what was asked for beyond the usual."""
    if (workspace := _number(spec.get("workspace_bytes"))) is not None:
        yield f"at most {text_from_bytes(workspace)} of workspace"
    if (level := _number(spec.get("optimization_level"))) is not None:
        yield f"optimization level {level:g}"
    if calibration := _text(spec.get("calibration")):
        yield f"calibrated on {shortened(PurePath(calibration).name, length=LENGTH)}"
    words = {
        "version_compatible": "for other versions too",
        "hardware_compatible": "for other GPUs too",
        "strip_weights": "without its weights",
        "refit": "with weights that can be replaced",
    }
    yield from (said for key, said in words.items() if spec.get(key) is True)


def _range(name: str, value: object) -> str | None:
    low, best, high = (_shape(_mapping(value).get(key)) for key in ("min", "opt", "max"))
    if best is None:
        return None
    if low == high or low is None or high is None:
        return f"{name} {best}"
    return f"{name} {low} to {high}, best at {best}"


def _shape(value: object) -> str | None:
    return "x".join(str(dim) for dim in value) if isinstance(value, (list, tuple)) else None


def _names(value: object) -> list[str]:
    gpus = value if isinstance(value, (list, tuple)) else ()
    return [name for each in gpus if (name := _text(_mapping(each).get("name")))]


def _mapping(value: object) -> Mapping[object, object]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
