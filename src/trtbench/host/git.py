"""The commit of a working folder, read from git's own files so that no process is started."""

from __future__ import annotations

import re
from pathlib import Path

from trtbench.host.files import text_of

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DEEPEST_LINK = 5
"""Git itself follows symbolic references five deep."""


def commit_of(folder: Path) -> str | None:
    """Return the commit checked out in the repository around a folder, if there is one.

    Whether files differ from that commit is not looked at: that takes git's own index walk.
    """
    git = _git_folder(folder)
    if git is None:
        return None
    common = _common_folder(git)
    value = text_of(git / "HEAD")
    for _ in range(_DEEPEST_LINK):
        if value is None or not value.startswith("ref:"):
            break
        value = _reference(value[4:].strip(), git=git, common=common)
    return value if value and _COMMIT.fullmatch(value) else None


def _git_folder(folder: Path) -> Path | None:
    try:
        start = folder.resolve()
    except (OSError, RuntimeError):
        return None
    for place in (start, *start.parents):
        found = place / ".git"
        # A worktree or submodule has a file that names the folder.
        link = text_of(found)
        if link and link.startswith("gitdir:"):
            return place / link[7:].strip()
        if text_of(found / "HEAD") is not None:
            return found
    return None


def _common_folder(git: Path) -> Path:
    """Branches of a worktree live in the main repository's folder."""
    link = text_of(git / "commondir")
    return git / link if link else git


def _reference(name: str, *, git: Path, common: Path) -> str | None:
    if ".." in name or name.startswith("/"):
        return None
    for place in (git, common):
        value = text_of(place / name)
        if value is not None:
            return value
    for line in (text_of(common / "packed-refs") or "").splitlines():
        commit, _, packed = line.partition(" ")
        if packed.strip() == name:
            return commit
    return None
