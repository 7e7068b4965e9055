"""What is known of an artefact beside its runs: scores and checks, in the store.

It is kept by the hash of the bytes and by the precision they were run in: weights can be run in
several. Runs that are measured after an evaluation find it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard

from trtbench.boundary import check_id
from trtbench.domain.labels import lowest_type
from trtbench.domain.result import Run, Scores, precision_of
from trtbench.errors import InputError, writing
from trtbench.models.sidecar import kept_value
from trtbench.store.directory import SCORES
from trtbench.store.store import Store

FOLDER = "judged"


def judged_folder(store: Store, sha256: str, *, precision: str | None = None) -> Path:
    """Find where the store keeps what is known of these bytes; made when it is not there."""
    lowest, name = lowest_type(precision), check_id(sha256, what="hash of a model")
    folder = store.root / FOLDER / (f"{name}-{lowest}" if lowest else name)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def known_folders(run: Run, store: Store) -> Sequence[Path]:
    """Tell where to look for what is known of a run's bytes: beside it, then by their hash."""
    beside = [run.path] if run.path is not None and run.path.is_dir() else []
    return [*beside, *_by_hash(run, store)]


def _by_hash(run: Run, store: Store) -> list[Path]:
    """Find what was run as this run was; where nobody knows how, what there is one of."""
    sha256, lowest = run.record.spec.model.sha256, lowest_type(precision_of(run.record))
    if not _is_hash(sha256):
        return []
    root = store.root / FOLDER
    if lowest is None:
        found = [each for each in (root / sha256, *root.glob(f"{sha256}-*")) if each.is_dir()]
        return found if len(found) == 1 else []
    return [each for each in (root / f"{sha256}-{lowest}", root / sha256) if each.is_dir()]


def known_scores(run: Run, store: Store) -> Scores | None:
    """Find scores that were taken of a run's bytes before it was measured, run in the same way."""
    for folder in _by_hash(run, store):
        kept = kept_value(folder / SCORES, Scores)
        same = kept is not None and kept.sha256 == run.record.spec.model.sha256
        if kept is not None and same and kept.not_of(run.record) is None:
            return kept
    return None


def _is_hash(sha256: str | None) -> TypeGuard[str]:
    """Say whether what a record says is a hash can be the name of a folder of ours."""
    try:
        return sha256 is not None and bool(check_id(sha256))
    except InputError:
        return False
