"""TensorRT versions as trtexec prints them: ``v8601``, ``v100300``, ``8001`` and ``10.16.1``."""

from __future__ import annotations

import re

_DOTTED = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,6}))?")


def version_from_digits(digits: str) -> str | None:
    """Read a banner's digits: 8601 is 8.6.1 and 8510 is 8.5.10; from 10 on 100300 is 10.3.0."""
    if not digits.isascii() or not digits.isdecimal() or not 4 <= len(digits) <= 6:
        return None
    number = int(digits)
    major = number // (1000 if len(digits) == 4 else 10000)
    minor = number // 100 % (10 if len(digits) == 4 else 100)
    return f"{major}.{minor}.{number % 100}"


def version_from_text(text: str) -> str | None:
    """Read a version with dots, or the digits of a banner."""
    match = _DOTTED.match(text.strip())
    if match:
        return ".".join(part for part in match.groups() if part is not None)
    return version_from_digits(text.strip())


def version_key(version: str | None) -> tuple[int, ...] | None:
    """Turn a version into numbers that compare; ``None`` when it is not known."""
    match = _DOTTED.match(version or "")
    return tuple(int(part) for part in match.groups() if part is not None) if match else None
