"""What is known of an artefact's bytes beside its runs: scores and checks, by hash, in the store.

Runs of the same bytes that are measured after an evaluation find it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard

from trtbench.boundary import check_id
from trtbench.domain.result import Run, Scores
from trtbench.errors import InputError, writing
from trtbench.models.sidecar import kept_value
from trtbench.store.directory import SCORES
from trtbench.store.store import Store

FOLDER = "judged"


def judged_folder(store: Store, sha256: str) -> Path:
    """Where the store keeps what was found out about these bytes; made when it is not there."""
    folder = store.root / FOLDER / check_id(sha256, what="hash of a model")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def known_folders(run: Run, store: Store) -> Sequence[Path]:
    """Where to look for what is known of a run's bytes: beside it, then by their hash."""
    sha256 = run.record.spec.model.sha256
    by_hash = store.root / FOLDER / sha256 if _is_hash(sha256) else None
    return [each for each in (run.path, by_hash) if each is not None and each.is_dir()]


def known_scores(run: Run, store: Store) -> Scores | None:
    """Scores that were taken of a run's bytes before it was measured; none of other bytes."""
    sha256 = run.record.spec.model.sha256
    if not _is_hash(sha256):
        return None
    kept = kept_value(store.root / FOLDER / sha256 / SCORES, Scores)
    return kept if kept is not None and kept.sha256 == sha256 else None


def _is_hash(sha256: str | None) -> TypeGuard[str]:
    """Whether what a record says is a hash can be the name of a folder of ours."""
    try:
        return sha256 is not None and bool(check_id(sha256))
    except InputError:
        return False
