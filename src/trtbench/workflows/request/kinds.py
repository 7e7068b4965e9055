"""How people write values: lengths of time, sizes, rates, shapes, pairs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from trtbench.errors import UsageError
from trtbench.units import (
    bytes_from_text,
    demand_part,
    fraction_from_text,
    hertz_from_text,
    seconds_from_text,
)
from trtbench.workflows.request.fields import Kind

Duration = str | float
"""Seconds, or text with a unit: ``"500ms"``."""
Size = str | int
"""Bytes, or text with a unit: ``"8GiB"``."""
Rate = str | float
"""Per second, or text with a unit: ``"500/s"``."""
Fraction = str | float
"""A part of one, or text: ``"3%"``."""
File = str | Path
"""A path, or a name where one is taken."""
PerSide = str | Sequence[str | None]
"""One for all sides, or one per side."""
Shapes = Mapping[str, Sequence[int]]
"""Dimensions by the name of the input: ``{"x": (1, 3, 224, 224)}``."""
Pairs = Mapping[str, str]
"""Values by key."""
Words = str | Sequence[str]
"""A list, or text with commas."""

_SHAPE = re.compile(r"(?P<name>.+):(?P<dims>\d+(?:x\d+)*)")


def seconds(value: Duration) -> float:
    """Take a number as seconds, and a text with its unit."""
    number = seconds_from_text(value) if isinstance(value, str) else float(value)
    if not 0 <= number < math.inf:
        raise UsageError(f"a length of {number} s has no meaning", fix="write it like 500ms or 3s")
    return number


def size_bytes(value: Size) -> int:
    """Take a number as bytes, and a text with its unit."""
    return bytes_from_text(value) if isinstance(value, str) else value


def hertz(value: Rate) -> float:
    """Take a number as times per second, and a text with its unit."""
    rate = hertz_from_text(value) if isinstance(value, str) else value
    if not 0 < rate < math.inf:
        raise UsageError("a rate of arrivals is above zero and finite", fix="--rate 100/s")
    return rate


def fraction(value: Fraction) -> float:
    """Take a number as a part of one, and a text as per cent."""
    return fraction_from_text(value) if isinstance(value, str) else demand_part(value)


def shapes_from_flags(flags: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Read ``name:1x3x224x224``; a comma joins several, as in trtexec."""
    shapes: dict[str, tuple[int, ...]] = {}
    for flag in flags:
        for part in re.split(r",(?=[^,]*:)", flag):
            match = _SHAPE.fullmatch(part.strip())
            if not match:
                raise UsageError(
                    f"the shape {part!r} cannot be read", fix="write it like input:1x3x224x224"
                )
            if match["name"] in shapes:
                raise UsageError(
                    f"the input {match['name']} has two shapes", fix="give each input once"
                )
            shapes[match["name"]] = tuple(int(dim) for dim in match["dims"].split("x"))
    return shapes


def pairs_from_flags(flags: Iterable[str]) -> dict[str, str]:
    """Read ``key=value``."""
    pairs = {}
    for flag in flags:
        key, equals, value = flag.partition("=")
        if not equals or not key:
            raise UsageError(f"--opt {flag} cannot be read", fix="write it like threads=2")
        pairs[key.strip()] = value
    return pairs


def profiles_from_flags(flags: Iterable[str]) -> list[dict[str, tuple[int, ...]]]:
    """Read the shapes of each profile: an input that comes again belongs to the next one."""
    profiles: list[dict[str, tuple[int, ...]]] = []
    for text in flags:
        for name, dims in shapes_from_flags((text,)).items():
            free = next((each for each in profiles if name not in each), None)
            if free is None:
                free = {}
                profiles.append(free)
            free[name] = dims
    return profiles


def words_from_text(value: str | Sequence[str]) -> tuple[str, ...]:
    """Take a text apart at its commas; what is a list already stays one."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts if part.strip())


def _refuse_empty_shapes(value: object) -> None:
    assert isinstance(value, Mapping)
    for name, shape in value.items():
        if any(dim < 1 for dim in shape):
            text = "x".join(str(dim) for dim in shape)
            raise UsageError(
                f"the shape {text} of {name!r} holds nothing", fix="give dimensions of at least 1"
            )


TIME = Kind(metavar="TIME", python='seconds, or text such as "500ms"', check=seconds)  # type: ignore[arg-type]
SIZE = Kind(metavar="SIZE", python='bytes, or text such as "8GiB"', check=size_bytes)  # type: ignore[arg-type]
RATE = Kind(metavar="RATE", python='per second, or text such as "500/s"', check=hertz)  # type: ignore[arg-type]
PART = Kind(metavar="PERCENT", python='a part of one, or text such as "3%"', check=fraction)  # type: ignore[arg-type]
FILE = Kind(metavar="PATH", python="a path")
SHAPES = Kind(
    metavar="NAME:1x3x224x224",
    python="dimensions by the name of the input",
    check=_refuse_empty_shapes,
    read=shapes_from_flags,
)
PROFILES = Kind(
    metavar="NAME:1x3x224x224",
    python="dimensions by the name of the input; a list of such, one per profile",
    read=profiles_from_flags,
)
PAIRS = Kind(metavar="KEY=VALUE", python="values by key", read=pairs_from_flags)
LIST = Kind(metavar="LIST", python="a list, or text with commas")
