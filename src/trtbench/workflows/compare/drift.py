"""How far one thing has wandered between sessions on this machine, as the store remembers it."""

from __future__ import annotations

import math

import numpy as np

from trtbench.analysis.stored_comparison import Drift, drift_from_history
from trtbench.domain.result import RunRecord
from trtbench.store.entries import Entry, entry_from_record
from trtbench.store.store import Store
from trtbench.units import instant_from_text

SESSION_S = 1800.0
"""Runs nearer than this to the one before belong to one session: they met the same machine."""
ALIKE = ("sha256", "runtime", "precision", "batch", "protocol", "host", "gpu", "provenance")


def drift_remembered(store: Store, *records: RunRecord) -> Drift | None:
    """The larger drift of two things, where enough sessions of either are on record."""
    known = [drift for record in records if (drift := _of(record, store)) is not None]
    return max(known, key=lambda drift: drift.bound, default=None)


def _of(record: RunRecord, store: Store) -> Drift | None:
    own = entry_from_record(record, path="")
    if own.sha256 is None:
        return None
    found = store.index.find(model=own.model, runtime=own.runtime, kind="run")
    alike = [each for each in found if all(getattr(each, k) == getattr(own, k) for k in ALIKE)]
    return drift_from_history(_session_medians(alike))


def _session_medians(entries: list[Entry]) -> list[float]:
    """One number per session, however often it was measured within one."""
    sessions: list[list[float]] = []
    last = -math.inf
    known = [
        (at, entry.median_s)
        for entry in entries
        if entry.median_s is not None and (at := instant_from_text(entry.created)) is not None
    ]
    for at, median_s in sorted(known):
        if at - last > SESSION_S:
            sessions.append([])
        sessions[-1].append(median_s)
        last = at
    return [float(np.median(each)) for each in sessions]
