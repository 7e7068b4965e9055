"""What a check leaves on disk: its numbers, its tables, the worst inputs, and rows for reports."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trtbench.domain.codec import json_from_value
from trtbench.domain.labels import may_be_alike
from trtbench.domain.result import Scalar
from trtbench.errors import writing
from trtbench.host.files import write_output, write_whole
from trtbench.report.document import Document
from trtbench.report.documents.check import document_from_check
from trtbench.report.renderers.md import markdown
from trtbench.store.known_scores import judged_folder
from trtbench.store.store import Store
from trtbench.tasks._feed import open_feed_of_pass

if TYPE_CHECKING:
    from trtbench.workflows.check.values import Candidate, Checked, Ran

CHECK_JSON, CHECK_MD = "check.json", "check.md"
BESIDE = "checks.json"
"""In the directory of a run: what its report shows as numeric checks."""

TELLING = (
    "close", "max_abs", "mean_abs", "rel_l2", "sqnr_db", "cosine", "argmax_match",
    "top5_agreement", "kl", "nan", "inf",
)  # fmt: skip
_UNSAFE = re.compile(r"[^\w.-]+")


def write_worst(
    first: Ran, other: Ran, candidate: Candidate, folder: Path, *, number: int
) -> list[Path]:
    """Save the inputs a candidate is worst on, with what both sides made of them."""
    items: dict[int, str] = {}
    for check in candidate.checks:
        items |= {worst.item: worst.name for worst in check.worst}
    if not items:
        return []
    source = open_feed_of_pass(first.feed, first.outcome, spec=first.spec)
    paths = []
    stem = _UNSAFE.sub("_", Path(candidate.side.model.name).stem)
    target = folder / "worst"
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
        for item, name in items.items():
            path = target / f"{stem}-{number}-{_UNSAFE.sub('_', name)[-80:]}.npz"
            arrays = {f"input/{k}": v for k, v in source.prepare(source.load(item)).items()}
            for side, ran in (("reference", first), ("candidate", other)):
                rows = ran.chunks.rows(item, item + 1)
                arrays |= {f"{side}/{key}": value[0] for key, value in rows.items()}
            np.savez(path, **arrays)  # type: ignore[arg-type]
            paths.append(path)
    return paths


def write_check(checked: Checked, folder: Path) -> list[Path]:
    """Write everything as JSON, and what the screen shows as Markdown."""
    return write_both(folder / CHECK_JSON, folder / CHECK_MD, checked, document_from_check(checked))


def write_both(json: Path, md: Path, value: object, document: Document) -> list[Path]:
    """Write a value as JSON, and what the screen shows of it as Markdown."""
    return [write_output(json, json_from_value(value)), write_output(md, markdown(document))]


def join_checks(checked: Checked, store: Store) -> list[str]:
    """Put each candidate's numbers beside every stored run of the same bytes; gives their ids.

    They are kept by hash too, for runs that are measured later. Runs of the same bytes in another
    precision are left alone.
    """
    joined = []
    for candidate in checked.candidates:
        sha256, rows = candidate.side.model.sha256, rows_of(checked, candidate)
        if sha256 is None:
            continue
        folder = judged_folder(store, sha256, precision=candidate.side.precision)
        with contextlib.suppress(OSError):
            write_whole(folder / BESIDE, json_from_value(rows))
        for entry in store.index.find(kind="run"):
            alike = may_be_alike(entry.precision, candidate.side.precision)
            if entry.sha256 != sha256 or not alike:
                continue
            with contextlib.suppress(OSError):  # a run on a disk that is gone is no reason to fail
                write_whole(store.path(entry) / BESIDE, json_from_value(rows))
                joined.append(entry.id)
    return joined


def rows_of(checked: Checked, candidate: Candidate) -> tuple[dict[str, Scalar], ...]:
    """Put what a run keeps of its check into rows, one for each output."""
    return tuple(
        {
            "output": check.output,
            "reference": checked.reference.model.name,
            **_ordered(check.numbers()),
            **({"note": check.note} if check.note else {}),
        }
        for check in candidate.checks
    )


def _ordered(numbers: Mapping[str, float | int | None]) -> dict[str, float | int]:
    """Tell what is known, the most telling first: tables end before the rest."""
    names = [*TELLING, *(name for name in numbers if name not in TELLING)]
    known = {name: numbers.get(name) for name in names if name not in ("equality", "nonfinite")}
    return {name: value for name, value in known.items() if value is not None}
