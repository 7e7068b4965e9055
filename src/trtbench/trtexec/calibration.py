"""INT8 calibration caches: a scale for each tensor, as TensorRT's calibrators write them."""

from __future__ import annotations

import math
import re
import struct

from trtbench.domain.spec import Value
from trtbench.errors import ParseError
from trtbench.trtexec._json import parse_error, quoted, text_from_bytes
from trtbench.trtexec.version import version_from_digits

EXPECTED = "a calibration cache: TRT-<version>-<algorithm>, then lines of 'tensor: hex'"
INT8_STEPS = 127
"""Largest value of a quantized tensor: the dynamic range is that many scales."""

_HEADER = re.compile(r"TRT-(\d{1,9})-(\S.*?)\s*\Z")
_HEX = re.compile(r"[0-9a-fA-F]{1,8}\Z")


class TensorScale(Value, frozen=True, kw_only=True):
    """The scale of one tensor; inf, nan and zero are kept as they were written."""

    name: str
    scale: float

    @property
    def usable(self) -> bool:
        """Whether a tensor can be quantized with it."""
        return math.isfinite(self.scale) and self.scale > 0

    @property
    def dynamic_range(self) -> float:
        return self.scale * INT8_STEPS


class CalibrationCache(Value, frozen=True, kw_only=True):
    """All scales in the order of the file; names may repeat."""

    version: str | None
    """TensorRT that wrote it; ``None`` when the header's digits are of no known form."""
    header: str
    algorithm: str
    scales: tuple[TensorScale, ...]

    @property
    def duplicates(self) -> tuple[str, ...]:
        """Names that occur more than once."""
        counts: dict[str, int] = {}
        for each in self.scales:
            counts[each.name] = counts.get(each.name, 0) + 1
        return tuple(name for name, count in counts.items() if count > 1)


def calibration_from_text(data: bytes | str, *, where: str) -> CalibrationCache:
    """Read a calibration cache; a name ends at the last colon that a blank follows."""
    text = text_from_bytes(data, where=where, expected=EXPECTED)
    lines = re.split(r"\r?\n", text.rstrip("\0\r\n\t "))
    header = _HEADER.match(lines[0])
    if not header:
        raise _broken(where, 1, "TRT-<version>-<algorithm>", lines[0])
    digits, algorithm = header.groups()
    return CalibrationCache(
        version=version_from_digits(digits),
        header=lines[0].strip(),
        algorithm=algorithm,
        scales=tuple(
            _scale(line, number, where=where)
            for number, line in enumerate(lines[1:], start=2)
            if line.strip()
        ),
    )


def _scale(line: str, number: int, *, where: str) -> TensorScale:
    name, colon, text = line.rstrip().rpartition(": ")
    if not colon or not _HEX.match(text):
        raise _broken(where, number, "'tensor: hex', up to eight hexadecimal digits", line)
    (scale,) = struct.unpack(">f", int(text, 16).to_bytes(4, "big"))
    return TensorScale(name=name, scale=scale)


def _broken(where: str, line: int, expected: str, found: str) -> ParseError:
    return parse_error(
        where,
        what="is not a calibration cache",
        place=f"line {line}",
        expected=expected,
        found=quoted(found),
    )
