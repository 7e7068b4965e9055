"""The bytes of an ONNX file, walked over field by field: nothing is loaded and onnx is not needed.

Weights need not be read to know in which other files a model keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_LONGEST_VARINT = 70

_LOCATION = "location"
_WAYS: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
"""For each kind of message, the fields that lead to tensors; all others are passed over."""


def external_names(data: memoryview) -> tuple[str, ...]:
    """List the files in which a model keeps tensors; damage is a ValueError or an IndexError."""
    return tuple(dict.fromkeys(_locations(data, "model")))


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Give number and value of each field of a message; fixed-size numbers are passed over."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        field, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield field, value
        elif kind == _BYTES:
            size, at = _varint(data, at)
            if at + size > end:
                raise ValueError("it ends in the middle of a field")
            yield field, data[at : at + size]
            at += size
        elif kind in (_EIGHT, _FOUR):
            at += 8 if kind == _EIGHT else 4
        else:
            raise ValueError("it holds what no ONNX file holds")


def _locations(data: memoryview, kind: str) -> Iterator[str]:
    if kind == "entry":
        entry = {f: str(v, "utf-8") for f, v in fields(data) if not isinstance(v, int)}
        if entry.get(1) == _LOCATION:
            yield entry.get(2, "")
        return
    ways = _WAYS[kind]
    for field, value in fields(data):
        if field in ways and not isinstance(value, int):
            yield from _locations(value, ways[field])


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _LONGEST_VARINT:
            raise ValueError("it holds a number that never ends")
