"""How a run ran, by its record: settings as sessions and programs tell them, else as asked for."""

from __future__ import annotations

from typing import cast, get_args

from trtbench.domain.result import AnyRecord, RunRecord, Scalar, known_value
from trtbench.domain.words import CudaGraph, Protocol

TOLD_OPTIONS = {"compile", "tf32", "channels_last"}
"""Options of runtimes that sessions tell back, under the same name: they may have no effect."""


def setting_of(record: AnyRecord, name: str) -> Scalar:
    """Tell a setting as it ran; where nobody knows that, as it was asked for: a graph may be."""
    ran = known_value(record.conditions.get(name)) if isinstance(record, RunRecord) else None
    asked: Scalar = getattr(record.spec, name)
    return {"on": True, "off": False, "auto": None}.get(str(asked), asked) if ran is None else ran


def protocol_of(record: AnyRecord) -> Protocol:
    """Tell how queries followed one another, as far as that is known."""
    told = setting_of(record, "protocol")
    return cast(Protocol, told) if told in get_args(Protocol) else record.spec.protocol


def streams_of(record: AnyRecord) -> int:
    """Count the queries that ran at a time, as far as that is known."""
    told = setting_of(record, "streams")
    return told if isinstance(told, int) else record.spec.streams


def graph_of(record: AnyRecord) -> CudaGraph:
    """Tell whether queries were launched as a CUDA graph; ``auto`` where nobody knows."""
    told = setting_of(record, "cuda_graph")
    return "on" if told is True else "off" if told is False else "auto"


def options_of(record: AnyRecord) -> dict[str, str]:
    """List the options of a run with the values that ran, where a session tells them."""
    found = {**record.spec.options}
    told = record.conditions if isinstance(record, RunRecord) else {}
    for key in found.keys() & TOLD_OPTIONS:
        ran = known_value(told.get(key))
        if ran is not None:
            found[key] = {True: "on", False: "off"}.get(ran, str(ran))  # type: ignore[call-overload]
    return found


def threads_of(record: AnyRecord) -> int | None:
    """Count the threads that ran where somebody asked for a number; else they are the library's."""
    told = setting_of(record, "threads") if record.spec.threads is not None else None
    return told if isinstance(told, int) else None
