"""Numbers as logs print them."""

from __future__ import annotations


def number(text: str) -> float | None:
    """Read a printed number; text that is none gives ``None``."""
    try:
        return float(text)
    except ValueError:
        return None
