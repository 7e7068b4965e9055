"""Small text files of the machine, read without ever failing; and files written whole."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that others see all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(3)}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):  # on a read-only disk even this is refused
            temporary.unlink(missing_ok=True)
        raise


def text_of(path: Path) -> str | None:
    """Read a small text file; ``None`` when it is not there, not allowed or not readable."""
    try:
        # Device-tree texts end with NUL, and sysfs texts with a newline.
        return path.read_bytes().decode("utf-8", "replace").strip("\0\n ")
    except (OSError, ValueError):
        return None


def number_of(path: Path) -> int | None:
    """Read a file that holds one integer."""
    return integer_from_text(text_of(path))


def integer_from_text(text: str | None) -> int | None:
    """Read an integer; anything else is ``None``."""
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def fields_of(path: Path, *, separator: str | None = None) -> dict[str, str]:
    """Read ``key value`` lines; a key that comes again keeps its first value."""
    found: dict[str, str] = {}
    for line in (text_of(path) or "").splitlines():
        parts = line.split(separator, 1)
        if len(parts) == 2:
            found.setdefault(parts[0].strip(), parts[1].strip())
    return found
