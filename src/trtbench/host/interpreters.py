"""Other Python interpreters: which version they are, and what of our environment is for them too.

A worker in another interpreter inherits the environment of this one. Where this one's libraries
are (PYTHONHOME), and folders of PYTHONPATH with modules compiled for this version, would keep the
other from starting or from importing its own numpy.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from itertools import chain, islice
from pathlib import Path

from trtbench.host.process import run_process, tail
from trtbench.host.unfinished import temporary_folder

ASK_S = 20.0
"""Patience with an interpreter that is asked for its version."""
_LOOKED_AT = 64
"""Compiled modules looked at in a folder: all of one installation are of one version."""
_TAG = re.compile(r"\.(cpython-\d+)")


def is_own(python: str | None) -> bool:
    """Whether this is the interpreter that is running."""
    return python is None or Path(python).absolute() == Path(sys.executable).absolute()


def environment_for(python: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """Collect the variables that a process in this interpreter should inherit."""
    if is_own(python):
        return dict(given)
    kept = {name: value for name, value in given.items() if name != "PYTHONHOME"}
    tag = cache_tag(str(python))
    if tag is None or "PYTHONPATH" not in kept:
        return kept
    entries = [each for each in kept["PYTHONPATH"].split(os.pathsep) if _fits(each, tag)]
    return {**kept, "PYTHONPATH": os.pathsep.join(entries)}


@cache
def cache_tag(python: str) -> str | None:
    """Ask an interpreter for its tag, ``cpython-312``; ``None`` where it does not say."""
    code = "import sys; sys.stdout.write(sys.implementation.cache_tag)"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    with temporary_folder() as folder:
        log = folder / "log.txt"
        command = [python, "-I", "-c", code]
        try:
            end = run_process(command, log=log, timeout_s=ASK_S, env=variables, own_group=False)
        except OSError:
            return None
        told = "".join(tail(log, lines=1))
    return told if end.status == 0 and told.startswith("cpython-") else None


def _fits(folder: str, tag: str) -> bool:
    """Whether compiled modules in a folder, if there are any, are for this version."""
    root = Path(folder)
    found = chain(root.glob("*/*.cpython-*.so"), root.glob("*/*/*.cpython-*.so"))
    try:
        names = [path.name for path in islice(found, _LOOKED_AT)]
    except OSError:
        return True
    tags = {match.group(1) for name in names if (match := _TAG.search(name))}
    return not tags or tag in tags
