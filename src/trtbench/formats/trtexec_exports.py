"""Runs in the files trtexec itself exports, so that tools made for trtexec can read them.

Knows trtexec's keys and layout as of TensorRT 8.5 to 11; not how trtexec is run.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from trtbench.domain.samples import Column, IterationTimes, LayerProfile, LayerTime
from trtbench.trtexec.times import STAMPS

SPANS = {"h2dMs": "h2d", "computeMs": "gpu", "d2hMs": "d2h", "latencyMs": "latency"}

DECIMALS = 9
"""Of a millisecond: finer than any clock, and short enough to read."""


def times_json(times: IterationTimes) -> bytes:
    """Write ``times.json``: one object of twelve keys per iteration; what was not seen is null.

    The format has no key for the enqueue span: it is the difference of two stamps. Where only the
    span is known, the stamps count from the start of the iteration.
    """
    columns: dict[str, Column | None] = {
        key: times.stamps.get(name) for name, key in STAMPS.items()
    }
    columns |= _enqueue_stamps(times) if columns["startEnqMs"] is None else {}
    columns |= {key: getattr(times, name) for key, name in SPANS.items()}
    lists = [_milliseconds(column, len(times)) for column in columns.values()]
    keys = list(columns)
    return _array(dict(zip(keys, row, strict=True)) for row in zip(*lists, strict=True))


def profile_json(profile: LayerProfile) -> bytes:
    """Write ``profile.json``: the number of iterations, then every layer in execution order."""
    layers: list[dict[str, object]] = [
        {
            "name": layer.name,
            "timeMs": _ms(layer.total_s),
            "averageMs": _ms(layer.average_s),
            "medianMs": _ms(layer.median_s),
            "percentage": None if layer.share is None else round(layer.share * 100, 6),
            **_range(layer),
        }
        for layer in profile.layers
    ]
    return _array([{"count": profile.count}, *layers])


def _range(layer: LayerTime) -> dict[str, object]:
    """Keep the shortest and the longest time, which trtexec does not tell."""
    if layer.min_s is None or layer.max_s is None:
        return {}
    return {"minMs": _ms(layer.min_s), "maxMs": _ms(layer.max_s)}


def _enqueue_stamps(times: IterationTimes) -> dict[str, Column | None]:
    if times.enqueue is None or times.start is None:
        return {}
    return {"startEnqMs": times.start, "endEnqMs": times.start + times.enqueue}


def _milliseconds(column: Column | None, count: int) -> list[float | None]:
    if column is None:
        return [None] * count
    values: list[float | None] = np.round(column * 1e3, DECIMALS).tolist()
    return values


def _ms(value_s: float | None) -> float | None:
    return None if value_s is None else round(value_s * 1e3, DECIMALS)


def _array(rows: Iterable[dict[str, object]]) -> bytes:
    """Write an array with an object to a line, as trtexec does."""
    encode = msgspec.json.Encoder().encode
    lines = b"\n, ".join(encode(row) for row in rows)
    return b"[\n  " + lines + b"\n]\n" if lines else b"[\n]\n"
