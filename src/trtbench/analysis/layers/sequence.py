"""The longest common sequence of two lists, found row by row with numpy."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

MOST_CELLS = 60_000_000
"""Cells of the table before it is refused: 7 700 by 7 700 layers, 120 MB."""


def common_sequence(a: Sequence[object], b: Sequence[object]) -> list[tuple[int, int]]:
    """List the places of a longest common sequence, in order.

    Equal beginnings and ends are taken as they are; lists too long for a table meet only there.
    """
    begin = 0
    while begin < min(len(a), len(b)) and a[begin] == b[begin]:
        begin += 1
    end = 0
    while end < min(len(a), len(b)) - begin and a[-1 - end] == b[-1 - end]:
        end += 1
    middle = _middle(a[begin : len(a) - end], b[begin : len(b) - end])
    return [
        *((place, place) for place in range(begin)),
        *((begin + one, begin + other) for one, other in middle),
        *((len(a) - end + place, len(b) - end + place) for place in range(end)),
    ]


def _middle(a: Sequence[object], b: Sequence[object]) -> list[tuple[int, int]]:
    if not a or not b or len(a) * len(b) > MOST_CELLS:
        return []
    codes: dict[Hashable, int] = {}
    left, right = (
        np.array([codes.setdefault(each, len(codes)) for each in side], np.int32) for side in (a, b)
    )
    lengths = np.zeros((len(a) + 1, len(b) + 1), np.uint16)
    for row, code in enumerate(left, 1):
        above = lengths[row - 1]
        best = np.maximum(above[1:], above[:-1] + (right == code))
        np.maximum.accumulate(best, out=lengths[row, 1:])
    return _walk_back(left, right, lengths)


def _walk_back(
    left: np.ndarray[tuple[int], np.dtype[np.int32]],
    right: np.ndarray[tuple[int], np.dtype[np.int32]],
    lengths: np.ndarray[tuple[int, int], np.dtype[np.uint16]],
) -> list[tuple[int, int]]:
    """Read the sequence from the table, from its end."""
    found = []
    row, column = len(left), len(right)
    while row and column:
        if left[row - 1] == right[column - 1]:
            row, column = row - 1, column - 1
            found.append((row, column))
        elif lengths[row - 1, column] >= lengths[row, column - 1]:
            row -= 1
        else:
            column -= 1
    return found[::-1]
