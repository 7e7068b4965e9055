"""Rows of one fixed layout become a matrix of numbers without a parser in between.

trtexec writes every row of a times file with the same keys, blanks and commas; only the numbers
differ. So the text around the numbers is compared with that of the first row, all rows at once,
and the digits are turned into numbers eight at a time within 64-bit words. Whatever does not
fit is left to the tolerant reader: ``None`` means "not mine", never "broken".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.samples import Column

Words = NDArray[np.uint64]

_PAIR = re.compile(rb'"([^"\\:]+)"\s*:\s*([^\s,{}\[\]":]+)')
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|inf|nan)\Z")
_LONGEST_GAP = 64
"""Text between two numbers; the longest of trtexec has 22 bytes."""
_PADDING = b" " * 16
"""Words are loaded up to 16 bytes beyond a number."""
_POWERS = 10.0 ** np.arange(9)

_COLON = ord(":")
_ZEROS = np.uint64(0x3030303030303030)
_DOTS = np.uint64(0x2E2E2E2E2E2E2E2E)
_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_ABOVE_NINE = np.uint64(0x7676767676767676)
"""Added to a byte, it carries into the highest bit when the byte is over 9."""
_PAIRS = np.uint64(0x000000FF000000FF)
_B3, _B8, _B16, _B32, _B52, _B64 = (np.uint64(n) for n in (3, 8, 16, 32, 52, 64))
_BIAS = np.uint64(1023)
_ONE, _EIGHT, _NINE, _TEN = (np.uint64(n) for n in (1, 8, 9, 10))
_UPPER = np.uint64(100 + (1000000 << 32))
_LOWER = np.uint64(1 + (10000 << 32))


@dataclass(frozen=True, eq=False, kw_only=True)
class Layout:
    """The text around the numbers of a row, as seen in the first row and what follows it."""

    keys: tuple[str, ...]
    opening: bytes
    """What stands between the end of one row and the brace of the next."""
    closing: bytes
    """What stands after the last number of a row, with its brace."""
    before_colon: NDArray[np.int64]
    """Per key, bytes from the end of the number before to the colon."""
    after_colon: NDArray[np.int64]
    """Per key, bytes from the colon to the number."""
    window: int
    """Bytes compared before each number: the longest gap, in whole words."""
    mask: Words
    text: Words


def layout_from_rows(rows: bytes) -> Layout | None:
    """Learn the layout from the first row and the separator after it, if both are plain."""
    end = rows.find(b"}") + 1
    following = rows.find(b"{", end)
    if not end or following < 0:
        return None
    row, opening = rows[:end], rows[end:following]
    pairs = list(_PAIR.finditer(row))
    names = [pair.group(1) for pair in pairs]
    if not pairs or len(set(names)) < len(names) or opening.strip() != b",":
        return None
    if not all(_NUMBER.match(pair.group(2)) for pair in pairs):
        return None
    spans = [pair.span(2) for pair in pairs]
    gaps = [row[spans[-1][1] :] + opening + row[: spans[0][0]]]
    gaps += [row[left[1] : right[0]] for left, right in pairwise(spans)]
    if any(gap.count(b":") != 1 or len(gap) > _LONGEST_GAP or b"." in gap for gap in gaps):
        return None
    try:
        keys = tuple(name.decode("ascii") for name in names)
    except UnicodeDecodeError:
        return None
    return _layout(keys, gaps, opening=opening, closing=row[spans[-1][1] :])


def _layout(keys: tuple[str, ...], gaps: list[bytes], *, opening: bytes, closing: bytes) -> Layout:
    window = -(-max(map(len, gaps)) // 8) * 8
    text = b"".join(gap.rjust(window, b"\0") for gap in gaps)
    mask = b"".join((b"\xff" * len(gap)).rjust(window, b"\0") for gap in gaps)
    colons = [gap.index(b":") for gap in gaps]
    return Layout(
        keys=keys,
        opening=opening,
        closing=closing,
        before_colon=np.array(colons),
        after_colon=np.array([len(gap) - colon for gap, colon in zip(gaps, colons, strict=True)]),
        window=window,
        mask=np.frombuffer(mask, "<u8"),
        text=np.frombuffer(text, "<u8"),
    )


def matrix_from_rows(rows: bytes, layout: Layout) -> Column | None:
    """Read whole rows, from a brace to a brace, as (rows, keys); ``None`` if any byte differs."""
    if not rows.endswith(layout.closing):
        return None
    lead = b" " * layout.window + layout.closing
    text = b"".join((_PADDING, lead, layout.opening, rows, _PADDING))
    colons = np.flatnonzero(np.frombuffer(text, np.uint8) == _COLON)
    width = len(layout.keys)
    if len(colons) == 0 or len(colons) % width:
        return None
    table = colons.reshape(-1, width)
    starts = (table + layout.after_colon).ravel()
    ends = np.empty_like(starts)
    ends[:-1] = (table - layout.before_colon).ravel()[1:]
    ends[-1] = len(text) - len(_PADDING) - len(layout.closing)
    if (ends <= starts).any() or not _gaps_agree(text, starts, layout):
        return None
    numbers = _numbers(text, starts, ends)
    return None if numbers is None else numbers.reshape(-1, width)


def _gaps_agree(text: bytes, starts: NDArray[np.int64], layout: Layout) -> bool:
    """Compare the text before every number with the layout, whole words at a time."""
    width = layout.window
    windows: NDArray[np.void] = np.ndarray(
        (len(text) - width + 1,), f"V{width}", text, strides=(1,)
    )
    found = windows[starts - width].view("<u8").reshape(-1, len(layout.mask))
    found &= layout.mask
    return np.array_equal(found, np.broadcast_to(layout.text, found.shape))


def _numbers(text: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Column | None:
    """Turn spans of text into numbers: up to eight digits here, all others by ``float``.

    An integer of at most eight digits divided by a power of ten is rounded once, so the result
    is the same double that any JSON reader gives.
    """
    words: NDArray[np.uint64] = np.ndarray((len(text) - 7,), "<u8", text, strides=(1,))
    first = words[starts]
    length = (ends - starts).view(np.uint64)
    whole = np.minimum(_first_dot(first), length)
    places = np.maximum(length - whole, _ONE) - _ONE
    shift = places << _B3
    left = (first ^ _ZEROS) << (_B64 - (whole << _B3))
    right = (words[starts + whole.view(np.int64) + 1] ^ _ZEROS) << (_B64 - shift)
    digits = (left >> shift) | right
    exponents = np.minimum(places, _EIGHT).view(np.int64)
    values: Column = _eight_digits(digits).astype(np.float64) / _POWERS[exponents]

    odd = (((digits + _ABOVE_NINE) | digits) & _HIGH) != 0
    leading_zero = (length == _TEN) & (whole == _ONE) & (left == 0) & ~odd  # 0.00292969
    odd |= (length > _NINE) | (whole > _EIGHT)
    for index in np.flatnonzero(odd & ~leading_zero).tolist():
        token = text[starts[index] : ends[index]]
        if not _NUMBER.match(token):
            return None
        values[index] = float(token)
    return values


def _first_dot(words: Words) -> Words:
    """Tell how many bytes stand before the first dot of each word; a large number if none."""
    other = words ^ _DOTS
    zero = (other - _ONES) & ~other & _HIGH
    lowest = zero & (~zero + _ONE)
    exponent = lowest.astype(np.float64).view(np.uint64) >> _B52
    return (exponent - _BIAS) >> _B3  # type: ignore[no-any-return,unused-ignore]


def _eight_digits(digits: Words) -> Words:
    """Add up eight decimal digits per word, the first digit in the lowest byte."""
    pairs = digits * _TEN + (digits >> _B8)
    upper = (pairs & _PAIRS) * _UPPER
    lower = ((pairs >> _B16) & _PAIRS) * _LOWER
    return (upper + lower) >> _B32  # type: ignore[no-any-return,unused-ignore]
