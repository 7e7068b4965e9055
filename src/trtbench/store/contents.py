"""The files that belong to a run: listed when it is complete, and the only ones ever removed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

import msgspec

from trtbench import boundary
from trtbench.errors import InputError, StoreError
from trtbench.host.files import write_bytes
from trtbench.host.unfinished import partial_name

LIST = "files.json"
"""Names of all files that a run had when it was complete."""

_LATER = re.compile(
    r"files\.json|run\.json|(scores|load)\.json|checks?[\w.-]*\.(json|md)|pictures/[^/]+"
)
"""What is written beside a complete run: tags in its record, accuracies, checks, searches."""

_HALF = re.compile(rf"(?:[^/]+/)?\.(?:{_LATER.pattern})\.[0-9a-f]{{6}}")
"""What is left of these when whoever writes them is killed."""

_UNLISTED = re.compile(
    r"samples\.npz|telemetry\.json|log\.txt|times\.json|profile\.json|graph\.json|report\.json"
    r"|run_config\.json|summary\.(json|csv)|\w*percentiles\.csv|latency_\w+\.csv|import\.json"
    r"|[\w.]*metadata\.json|trtexec_stdout\.log|build\.log|output\.json|launch-\d+/[\w.-]+"
)
"""Files of a run that has no list."""


def list_contents(folder: Path) -> None:
    """Write the list of all that is in a folder which is about to become a run's."""
    names = sorted(_names(folder))
    with contextlib.suppress(OSError):  # a full disk: the run counts more than its list
        write_bytes(f"{folder}/{LIST}", msgspec.json.encode(names))


def own_files(folder: Path) -> list[str]:
    """Name the files that are sent along with a run: its own, and no links, which lead anywhere."""
    known = _known(folder)
    names = sorted(each for each in _names(folder) if each in known or _LATER.fullmatch(each))
    paths = ((name, folder / name) for name in names)
    return [name for name, path in paths if path.is_file() and not path.is_symlink()]


def remove_contents(folder: Path) -> tuple[str, ...]:
    """Remove the files of a run, and its folder if nothing else is in it; gives what was left.

    A folder of which everything goes vanishes from sight at once, and from the disk thereafter.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise StoreError(f"{folder} is no folder of a run, and was not removed")
    known = _known(folder)
    names = _names(folder)
    ours = {name for name in names if _LATER.fullmatch(name) or _HALF.fullmatch(name)}
    left = tuple(sorted(names - known - ours))
    if not left:
        doomed = partial_name(folder.parent)
        folder.rename(doomed)
        shutil.rmtree(doomed)
        return ()
    for name in names - set(left):
        (folder / name).unlink()
    for path, folders, files in os.walk(folder, topdown=False):
        if not folders and not files and Path(path) != folder:
            with contextlib.suppress(OSError):
                Path(path).rmdir()
    return left


def _known(folder: Path) -> set[str]:
    try:
        listed = msgspec.json.decode(boundary.read_bytes(folder / LIST), type=list[str])
        return {str(boundary.check_name(name)) for name in listed}
    except (OSError, InputError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {name for name in _names(folder) if _UNLISTED.fullmatch(name)}


def _names(folder: Path) -> set[str]:
    """List every file below a folder, links themselves and empty folders too."""
    found = set()
    begin = len(str(folder)) + 1
    for path, folders, files in os.walk(str(folder)):
        links = [name for name in folders if Path(path, name).is_symlink()]
        before = f"{path[begin:]}/" if len(path) > begin else ""
        found |= {before + name for name in (*files, *links)}
    return found
