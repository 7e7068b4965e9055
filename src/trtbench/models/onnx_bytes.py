"""The bytes of an ONNX file, walked over field by field: nothing is loaded and onnx is not needed.

Weights need not be read to know in which other files a model keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_VARINT, _EIGHT, _BYTES, _GROUP, _GROUP_END, _FOUR = 0, 1, 2, 3, 4, 5
_LONGEST_VARINT = 70
_TAG_BITS = 0xFFFFFFFF
"""Readers of protobuf drop what a tag has beyond these; whoever hides a field there is found."""
_MOST_DEPTH = 300
"""Messages within messages; protobuf's own readers give up at 100."""

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
    """List the files in which a model keeps tensors; damage is a ValueError or an IndexError.

    Whatever a reader of protobuf takes is understood here too: groups, tags with bits to spare and
    texts that are not UTF-8 must not keep a name from being found.
    """
    return tuple(dict.fromkeys(_locations(data, "model", _MOST_DEPTH)))


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Read number and value of each field of a message; fixed-size numbers are passed over."""
    at, end, groups = 0, len(data), 0
    while at < end:
        key, at = _varint(data, at)
        field, kind = (key & _TAG_BITS) >> 3, key & 7
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
        elif kind == _GROUP or (kind == _GROUP_END and groups):
            groups += 1 if kind == _GROUP else -1  # what is in one is looked at as if it were not
        else:
            raise ValueError("it holds what no ONNX file holds")


def varints(data: memoryview) -> list[int]:
    """Read whole numbers that are packed into one field."""
    found, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        found.append(value)
    return found


def _locations(data: memoryview, kind: str, left: int) -> Iterator[str]:
    if left == 0:
        raise ValueError("it is nested too deeply")
    if kind == "entry":
        texts = ((f, v) for f, v in fields(data) if not isinstance(v, int))
        entry = {field: str(value, "utf-8", "surrogateescape") for field, value in texts}
        if entry.get(1) == _LOCATION:
            yield entry.get(2, "")
        return
    ways = _WAYS[kind]
    for field, value in fields(data):
        if field in ways and not isinstance(value, int):
            yield from _locations(value, ways[field], left - 1)


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
