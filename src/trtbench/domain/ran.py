"""How a run ran, by its record: settings as sessions and programs tell them, else as asked for."""

from __future__ import annotations

from typing import cast, get_args

from trtbench.domain.result import AnyRecord, RunRecord, Scalar, known_value
from trtbench.domain.words import CudaGraph, Protocol

TOLD_OPTIONS = {"compile", "tf32", "channels_last"}
"""Options of runtimes that sessions tell back, under the same name: they may have no effect."""
_GRAPH = ("--useCudaGraph", "--noCudaGraph")
_TRANSFERS = ("--noDataTransfers", "--includeDataTransfers")
SETTING_FLAGS = {
    "streams": ("--infStreams", "--streams"),
    "cuda_graph": _GRAPH,
    "transfers": _TRANSFERS,
    "spin_wait": ("--useSpinWait", "--noSpinWait"),
    "protocol": ("--exposeDMA", *_GRAPH, *_TRANSFERS),
    "gap_s": ("--idleTime",),
    "profile_index": ("--useProfile",),
}
"""Arguments for trtexec that decide a setting, which its log tells."""
_TOLD_ELSEWHERE = (
    "--verbose", "--avgRuns", "--percentile", "--dump", "--export", "--saveEngine", "--shapes",
    "--fp", "--int", "--bf16", "--best", "--noTF32", "--stronglyTyped",
)  # fmt: skip
"""How arguments begin that say what is printed or kept, or that inputs and precision tell."""


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
    """List the options of a run with the values that ran, where a session tells them.

    What was passed on to a program is among them, unless a setting of its own tells it.
    """
    found = {**record.spec.options, **arguments_of(record)}
    told = record.conditions if isinstance(record, RunRecord) else {}
    for key in found.keys() & TOLD_OPTIONS:
        ran = known_value(told.get(key))
        if ran is not None:
            found[key] = {True: "on", False: "off"}.get(ran, str(ran))  # type: ignore[call-overload]
    return found


def arguments_of(record: AnyRecord) -> dict[str, str]:
    """List what was passed on to a program and no setting tells."""
    told = {flag for flags in SETTING_FLAGS.values() for flag in flags}
    words = (word.partition("=") for word in record.spec.extra_args)
    return {
        flag.removeprefix("--"): value or "on"
        for flag, _, value in words
        if flag.startswith("--") and flag not in told and not flag.startswith(_TOLD_ELSEWHERE)
    }


def is_passed_on(record: AnyRecord, name: str) -> bool:
    """Tell whether arguments for a program, and no flag of ours, ask for a setting."""
    given = {word.partition("=")[0] for word in record.spec.extra_args}
    return not given.isdisjoint(SETTING_FLAGS.get(name, ()))


def gap_of(record: AnyRecord) -> float:
    """Tell the mean rest between queries, in seconds, as far as that is known."""
    told = setting_of(record, "gap_s")
    return float(told) if isinstance(told, (int, float)) else record.spec.gap_s


def threads_of(record: AnyRecord) -> int | None:
    """Count the threads that ran where somebody asked for a number; else they are the library's."""
    told = setting_of(record, "threads") if record.spec.threads is not None else None
    return told if isinstance(told, int) else None
