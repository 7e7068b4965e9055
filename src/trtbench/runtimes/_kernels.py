"""Times of layers by the kernels that each of them starts on a GPU."""

from bisect import bisect
from collections.abc import Callable, Sequence

import numpy as np

from trtbench.core.errors import first_line
from trtbench.core.run import Scalar
from trtbench.core.samples import LayerProfile
from trtbench.host.cupti import COPY, MEMSET, Work, counters_of
from trtbench.runtimes import _session


def profile_from_kernels(
    work: Sequence[Work],
    profiled: Sequence[Work],
    events: Sequence[int],
    names: Sequence[str],
    *,
    again: Callable[[], object],
) -> tuple[LayerProfile, dict[str, Scalar]]:
    """Return the layers of undisturbed queries, with evidence; RuntimeError if they do not fit.

    ``work`` is that of the queries, ``profiled`` that of one in which the first kernel of each
    layer comes after its event, and the last event after all. ``again`` runs another such query,
    for hardware counters, which need more rights and a later CUPTI than times.
    """
    found = rows_from_kernels(work, profiled, events, names)
    if found is None:
        counts = f"{len(work)} and {len(profiled)} kernels, {len(events)} events, {len(names)}"
        raise RuntimeError(f"kernels do not fit to layers: {counts} layers")
    evidence: dict[str, Scalar] = {"layer_times": "kernels", "kernel_busy_s": found[1]}
    profile = _session.profile_from_rows(found[0])
    try:
        counted = counters_of(again, kernels=len(profiled))
        return with_counters(profile, profiled, events, counted), evidence
    except Exception as problem:
        return profile, evidence | {"counters": first_line(problem)}


def rows_from_kernels(
    work: Sequence[Work], profiled: Sequence[Work], events: Sequence[int], names: Sequence[str]
) -> tuple[list[list[_session.Row]], float] | None:
    """Return the layers of each query, and the median time in which work ran; ``None`` if unknown.

    TensorRT's profiler recorded ``events`` before the first layer of a query and after each one.
    """
    layers = [bisect(events, call) - 1 for call, *_ in profiled]
    queries = len(work) // max(1, len(profiled))
    fits = bool(layers) and 0 <= min(layers) <= max(layers) < len(names) == len(events) - 1
    if not fits or [each[2] for each in work] != queries * [each[2] for each in profiled]:
        return None
    spans = np.array([each[3:] for each in work]).reshape(queries, -1, 2)
    seconds = np.zeros((queries, len(names)))
    np.add.at(seconds.T, layers, (spans[..., 1] - spans[..., 0]).T * 1e-9)
    rows = [list(zip(names, own, strict=True)) for own in seconds.tolist()]
    starts, ends = np.take_along_axis(spans, np.argsort(spans[..., :1], axis=1), axis=1).T
    before = np.maximum.accumulate(np.concatenate((starts[:1], ends[:-1])))  # all earlier work ends
    ran = np.maximum(0, ends - np.maximum(starts, before)).sum(axis=0)
    return rows, float(np.median(ran)) * 1e-9


def with_counters(
    found: LayerProfile,
    profiled: Sequence[Work],
    events: Sequence[int],
    counted: Sequence[tuple[float, ...]],
) -> LayerProfile:
    """Return the profile with what hardware counters say about the kernels of each layer.

    The activity of a layer is that of its kernels, weighted by how long they ran.
    """
    kernels = [each for each in profiled if each[2] not in (COPY, MEMSET)]
    if len(counted) != len(kernels):
        raise RuntimeError(f"{len(counted)} of {len(kernels)} kernels were counted")
    layers = [bisect(events, call) - 1 for call, *_ in kernels]
    spans = np.array([end - begin for *_, begin, end in kernels], np.float64)
    moved, active = np.array(counted).T
    weights = (moved, active / 100 * spans, spans)
    sums = (np.bincount(layers, each, minlength=len(found.layers)).tolist() for each in weights)
    rows = zip(found.layers, *sums, strict=True)
    return found.having(
        layers=tuple(
            each.having(dram_bytes=bytes_, sm_active=worked / ran if ran else None)
            for each, bytes_, worked, ran in rows
        )
    )
