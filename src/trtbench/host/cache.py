"""The user's cache folder for trtbench, and the bytecode of modules that is kept there.

Imports little: processes call ``keep_bytecode`` before they import the rest.
"""

import contextlib
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

UNWANTED, ELSEWHERE = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"


def cache_folder() -> Path:
    """Return this user's cache folder for trtbench: TRTBENCH_CACHE, or the usual place."""
    named, base = os.environ.get("TRTBENCH_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(named) if named else (Path(base) if base else Path.home() / ".cache") / "trtbench"


def keep_bytecode(environment: MutableMapping[str, str]) -> None:
    """Have processes keep bytecode in the cache folder where Python is told to keep none.

    Containers often tell it, and have none of Python's own library: every command and every process
    that measures would compile all modules again, for a second or two. Nothing is written beside
    a module, and what ``python -B`` or another folder of bytecode says holds.
    """
    if not environment.get(UNWANTED) or environment.get(ELSEWHERE):
        return
    with contextlib.suppress(OSError, RuntimeError):  # no home, or one that is read-only
        folder = cache_folder() / "bytecode"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid == os.geteuid() and os.access(folder, os.W_OK):
            environment[ELSEWHERE] = str(folder.absolute())
            del environment[UNWANTED]


def keep_own_bytecode() -> None:
    """Do so for this process and those that it starts."""
    unwanted = os.environ.get(UNWANTED)
    keep_bytecode(os.environ)
    if unwanted and UNWANTED not in os.environ:
        sys.pycache_prefix, sys.dont_write_bytecode = os.environ[ELSEWHERE], False
