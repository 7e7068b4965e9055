"""Interpreters that jobs run in, this one or another: what starts them, and what they must have.

A worker in another interpreter inherits the environment of this one. Where this one's libraries
are (PYTHONHOME), and folders of PYTHONPATH with modules compiled for this version, would keep the
other from starting or from importing its own numpy.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from functools import cache
from itertools import chain, islice
from pathlib import Path

from trtbench.errors import UnavailableError
from trtbench.host.process import run_process, tail
from trtbench.host.unfinished import temporary_folder

WORKER_NEEDS = ("msgspec", "numpy")
"""What another interpreter must have; trtbench itself is lent to it."""

OLDEST = (3, 10)
PROBE_S = 60.0
"""Starting Python and importing numpy from a cold disk takes seconds; longer is a hang."""
ASK_S = 20.0
"""Patience with an interpreter that is asked for its version."""
_LOOKED_AT = 64
"""Compiled modules looked at in a folder: all of one installation are of one version."""
_TAG = re.compile(r"\.(cpython-\d+)")

_BOOTSTRAP = """
import importlib.util as u, sys
if sys.path[:1] == ['']: del sys.path[0]
s = u.spec_from_file_location('trtbench', {init!r}, submodule_search_locations=[{folder!r}])
m = u.module_from_spec(s); sys.modules['trtbench'] = m; s.loader.exec_module(m)
from trtbench.worker import leave, main
leave(main(sys.argv[1:]))
"""
_PROBE = """
import sys
if sys.path[:1] == ['']: del sys.path[0]
missing = []
for name in {needs!r}:
    try:
        __import__(name)
    except ImportError:
        missing.append(name)
sys.stdout.write('\\n%s %d.%d %s\\n' % ({word!r}, sys.version_info[0], sys.version_info[1],
                 ' '.join(missing)))
"""
_WORD = "trtbench-probe"


def worker_environment(python: str | None = None) -> dict[str, str]:
    """List what a worker inherits; files of the working folder must not shadow libraries."""
    inherited = environment_for(python, os.environ)
    # GPUs in the driver's order: CUDA's own puts the fastest first, and NVML would mean another.
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {**order, **inherited, "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}


def worker_command(python: str | None) -> list[str]:
    """Begin a worker's command line; another interpreter is lent this very package."""
    # Python 3.10 would import from the working folder first.
    if is_own(python) and sys.version_info >= (3, 11):
        return [sys.executable, "-m", "trtbench.worker"]
    package = Path(__file__).resolve().parents[1]
    code = _BOOTSTRAP.format(init=str(package / "__init__.py"), folder=str(package))
    return [python or sys.executable, "-c", code]


def check_interpreter(python: str) -> None:
    """Refuse an interpreter that cannot work, before anything else is done."""
    if shutil.which(python) is None:
        inside = Path(python) / "bin" / "python"
        fix = "--python PATH, or runtimes.<name>.python in trtbench.toml"
        raise UnavailableError(
            f"there is no Python interpreter at {python}",
            fix=f"--python {inside}" if inside.is_file() else fix,
        )
    version, missing = _probe(python)
    if version < OLDEST:
        raise UnavailableError(
            "the other interpreter is too old for a worker",
            facts={"interpreter": python, "Python": _dotted(version), "needed": _dotted(OLDEST)},
            fix=f"--python PATH of Python {_dotted(OLDEST)} or later",
        )
    if missing:
        raise UnavailableError(
            "the other interpreter lacks what a worker needs",
            facts={"interpreter": python, "missing": " ".join(missing)},
            fix=f"{python} -m pip install {' '.join(missing)}",
        )


def can_import(python: str, module: str) -> bool:
    """Tell whether an interpreter has a module, and nothing keeps it from being imported."""
    try:
        return not _probe(python, (module,))[1]
    except UnavailableError:
        return False


def _probe(python: str, needs: tuple[str, ...] = WORKER_NEEDS) -> tuple[tuple[int, ...], list[str]]:
    """Ask an interpreter, new or very old, for its version and for what it lacks."""
    code = _PROBE.format(needs=needs, word=_WORD)
    with temporary_folder() as folder:
        log = folder / "log.txt"
        try:
            command = [python, "-c", code]
            run_process(command, log=log, timeout_s=PROBE_S, env=worker_environment(python))
            lines = tail(log)
        except OSError as problem:
            lines = (str(problem.strerror),)
    for line in lines:
        word, *facts = line.split() or [""]
        if word == _WORD:
            return tuple(int(part) for part in facts[0].split(".")), facts[1:]
    raise UnavailableError(
        f"{python} is not a Python interpreter that works",
        facts={"it said": next(filter(None, lines), "nothing")},
        fix="--python PATH of an interpreter, such as ENVIRONMENT/bin/python",
    )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def is_own(python: str | None) -> bool:
    """Tell whether this is the interpreter that is running."""
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
    """Tell whether compiled modules in a folder, if there are any, are for this version."""
    root = Path(folder)
    found = chain(root.glob("*/*.cpython-*.so"), root.glob("*/*/*.cpython-*.so"))
    try:
        names = [path.name for path in islice(found, _LOOKED_AT)]
    except OSError:
        return True
    tags = {match.group(1) for name in names if (match := _TAG.search(name))}
    return not tags or tag in tags
