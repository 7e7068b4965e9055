"""Damage done to files: to their bytes, their lines, and the values in their JSON."""

import copy
import json
import random
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**63, 2**70, -(2**70), 1e308, 1e-320, float("nan"), float("inf"),
    "", "\x1b[2J", "../../x", "\udce9", "x" * 5000, "NaN", [], {}, [[]], {"a": {}}, [None] * 50,
    "2026-13-45", "0x10", "١٢", "1e999",
)  # fmt: skip
TOKENS = (
    b"\x00", b"\xff\xfe", b"[" * 200, b"{" * 200, b"nan", b"-inf", b"1e999", b"9" * 400, b"\n" * 50,
    b'"', b"\\", b"\x1b]0;x\x07", b"= ms", b"&&&& PASSED", b"\xe2\x80\xae", b"PK\x05\x06", b"'''",
)  # fmt: skip


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Damage a file in one to three ways."""
    for _ in range(rng.randint(1, 3)):
        data = rng.choice(_WAYS)(data, rng)
    return data


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _cut(data: bytes, rng: random.Random) -> bytes:
    a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return rng.choice((data[:a], data[a:], data[:a] + data[b:]))


def _repeat(data: bytes, rng: random.Random) -> bytes:
    a = rng.randrange(len(data) + 1)
    b = min(len(data), a + rng.randrange(1, 400))
    return data[:a] + data[a:b] * rng.choice((2, 3, 50)) + data[b:]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(TOKENS) + data[at:]


def _lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    for _ in range(rng.randint(1, 5)):
        a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def _number(data: bytes, rng: random.Random) -> bytes:
    """Replace one number in a text by an odd one."""
    import re

    found = list(re.finditer(rb"-?\d+(?:\.\d+)?", data[:20000]))
    if not found:
        return data
    place = rng.choice(found)
    odd = rng.choice((b"nan", b"inf", b"-1", b"0", b"1e999", b"9" * 30, b"1.2.3", b"", b"1e-400"))
    return data[: place.start()] + odd + data[place.end() :]


def _value(data: bytes, rng: random.Random) -> bytes:
    """Replace, remove or move a value within JSON."""
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        return _flip(data, rng)
    for _ in range(rng.randint(1, 3)):
        holder, key = _place(root, rng)
        if holder is None:
            return json.dumps(rng.choice(ODD)).encode()
        if rng.random() < 0.25:
            del holder[key]
        elif rng.random() < 0.2:
            other, place = _place(root, rng)
            holder[key] = json.loads(json.dumps(other[place])) if other else None
        else:
            holder[key] = copy.deepcopy(rng.choice(ODD))  # later damage goes into it
    return json.dumps(root).encode("utf-8", "surrogatepass")


def _place(root: Any, rng: random.Random) -> tuple[Any, Any]:
    holder, key, value = None, None, root
    while isinstance(value, (dict, list)) and value and (holder is None or rng.random() < 0.8):
        holder = value
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        value = value[key]
    return holder, key


_WAYS = (_flip, _cut, _repeat, _insert, _lines, _number, _value, _value, _value)
