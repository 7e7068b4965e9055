"""Two engines, each named by a run or by files: their difference, and why there is one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from trtbench.analysis.layers.difference import EngineDiff, difference
from trtbench.analysis.layers.why import Why, why
from trtbench.errors import InputError
from trtbench.report.document import Document
from trtbench.report.documents.engine_diff import document_from_diff
from trtbench.report.documents.why import document_from_why
from trtbench.store.store import Store
from trtbench.workflows.explain.source import EngineSource, engine_from_words
from trtbench.workflows.request.kinds import File


def two_engines(
    a: File, b: File, *, store: Store | None, onnx: File | None = None, gpu: str | None = None
) -> tuple[EngineSource, EngineSource]:
    """Read both sides; several files of one side are joined by commas."""
    words = words_of(str(a)), words_of(str(b))
    first, second = (engine_from_words(each, store=store, onnx=onnx, gpu=gpu) for each in words)
    return first, second


def words_of(side: str) -> Sequence[str]:
    """Split ``a.profile.json,a.graph.json``; a name that is a file as it stands is left alone."""
    if Path(side).exists() or "," not in side:
        return [side]
    return [part for part in side.split(",") if part]


def diff_of(a: EngineSource, b: EngineSource) -> EngineDiff:
    """Align two engines."""
    return difference(a.table, b.table)


def diff_document(
    a: EngineSource, b: EngineSource, diff: EngineDiff, *, top: int | None, labels: tuple[str, str]
) -> Document:
    """Describe the difference of two engines."""
    return document_from_diff(
        diff,
        labels,
        top=top,
        gpu_s=(a.facts.gpu_s, b.facts.gpu_s),
        notes=(*_notes("A", a), *_notes("B", b), *diff.notes, *_other_machine(a, b)),
    )


def why_of(a: EngineSource, b: EngineSource) -> Why:
    """Find causes; both sides must have been profiled."""
    found = why(a.table, b.table, baseline=a.facts, candidate=b.facts)
    if found is None:
        missing = a if not a.table.timed else b
        raise InputError(
            f"{missing.label} has no layer times, and causes are in seconds",
            fix="trtbench profile MODEL.engine, or trtexec --exportProfile=profile.json",
        )
    return found


def why_document(
    a: EngineSource, b: EngineSource, found: Why, *, show_all: bool, labels: tuple[str, str]
) -> Document:
    """Describe causes."""
    notes = (*_notes(labels[0], a), *_notes(labels[1], b), *found.diff.notes, *_other_machine(a, b))
    return document_from_why(found, labels, show_all=show_all, notes=notes)


def labels_of(a: File, b: File) -> tuple[str, str]:
    """Name both sides as a user would type them, shorter where that is enough."""
    heads = ((str(word), Path(str(word).split(",")[0])) for word in (a, b))
    one, other = (path.name if path.exists() else word for word, path in heads)
    return (one, other) if one != other else (shlex.quote(str(a)), shlex.quote(str(b)))


def _notes(name: str, engine: EngineSource) -> list[str]:
    return [f"{name}: {note}" for note in engine.notes]


def _other_machine(a: EngineSource, b: EngineSource) -> list[str]:
    """Say when the sides ran on different GPUs: then times differ for that reason alone."""
    if a.facts.gpu and b.facts.gpu and a.facts.gpu != b.facts.gpu:
        return [f"the sides ran on different GPUs: {a.facts.gpu} and {b.facts.gpu}"]
    return []
