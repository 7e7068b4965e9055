"""Hashes of all files of a folder, kept in the user's cache: large data are read once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

import msgspec

from trtbench.boundary import read_bytes
from trtbench.errors import InputError
from trtbench.host.files import cache_folder, write_whole
from trtbench.models.identity import TICK_NS, Signature, sha256_of, signature_of

KEPT_FROM_BYTES = 64 << 20
"""What is smaller is read again each time, which takes a moment."""

_Kept = dict[str, tuple[Signature, str]]


def hashes_of_folder(folder: Path) -> dict[str, str]:
    """Hash every file below a folder by its bytes, by the names they have there.

    A file whose device, number, size and times of change are as they were is not read again. The
    system sets one of these times itself: giving a changed file its old date back hides nothing.
    """
    files = {str(each.relative_to(folder)): each for each in sorted(folder.rglob("*"))
             if each.is_file()}  # fmt: skip
    states = {name: signature_of(path) for name, path in files.items()}
    if sum(state.size for state in states.values()) < KEPT_FROM_BYTES:
        return {name: sha256_of(path) for name, path in files.items()}
    kept = _read(folder)
    found: _Kept = {}
    for name, path in files.items():
        known = kept.get(name)
        same = known is not None and known[0] == states[name]
        found[name] = known if same and known else (states[name], sha256_of(path))
    _keep(folder, {name: each for name, each in found.items() if _is_old(each[0])})
    return {name: digest for name, (_, digest) in found.items()}


def _is_old(state: Signature) -> bool:
    """Whether a file that changes now would show it: clocks of file systems have ticks."""
    return time.time_ns() - max(state.modified_ns, state.changed_ns) > TICK_NS


def _place(folder: Path) -> Path:
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:24]
    return cache_folder() / "hashes" / f"{name}.json"


def _read(folder: Path) -> _Kept:
    try:
        return msgspec.json.decode(read_bytes(_place(folder)), type=_Kept)
    except (OSError, InputError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _keep(folder: Path, kept: _Kept) -> None:
    place = _place(folder)
    with contextlib.suppress(OSError, UnicodeEncodeError):  # the next time takes longer
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(place, msgspec.json.encode(kept))
