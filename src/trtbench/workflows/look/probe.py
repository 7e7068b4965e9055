"""Ask a runtime or a builder whether it works here, from a child process.

A broken library may crash or hang instead of raising, so whoever asks must not share its process.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

import msgspec

from trtbench.convert.builders import BUILDERS
from trtbench.convert.builders.contract import Builder
from trtbench.core.errors import TrtbenchError
from trtbench.core.spec import Value
from trtbench.host.files import temporary_folder
from trtbench.host.process import run_process, tail
from trtbench.host.workers import WORKER_NEEDS, worker_environment
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes.contract import Runtime

PluginKind = Literal["runtime", "builder"]

TIMEOUT_S = 60.0
"""A large library on a cold disk takes half a minute to import; longer is a hang."""

_CODE = """
import importlib.util as u, sys
s = u.spec_from_file_location('trtbench', {init!r}, submodule_search_locations=[{folder!r}])
m = u.module_from_spec(s); sys.modules['trtbench'] = m; s.loader.exec_module(m)
from trtbench.workflows.look.probe import answer
answer(sys.argv[1], events=int(sys.argv[2]), kind=sys.argv[3])
"""
"""Another interpreter uses this very package, as it does for a measurement."""


class ProbeAnswer(Value, frozen=True, kw_only=True):
    """What a runtime reports of itself, or how it failed to."""

    reason: str | None = None
    """Why it is not available; ``None`` when it works."""
    problem: str | None = None
    """Why it could not answer: a broken import, a crash, a hang."""
    fix: str | None = None


def probe(
    name: str,
    *,
    kind: PluginKind = "runtime",
    python: str = sys.executable,
    timeout_s: float = TIMEOUT_S,
) -> ProbeAnswer:
    """Ask a runtime or builder in a fresh process of the interpreter that would run it."""
    package = Path(__file__).resolve().parents[2]
    code = _CODE.format(init=str(package / "__init__.py"), folder=str(package))
    heard: dict[str, str | None] = {}
    with temporary_folder() as folder:
        log = folder / "log.txt"
        try:
            end = run_process(
                [python, "-c", code, name, "{events}", kind],
                log=log,
                timeout_s=timeout_s,
                env=worker_environment(python),
                on_line=lambda line: heard.update(msgspec.json.decode(line)),
            )
        except OSError as problem:
            said = f"the interpreter {python} does not start: {problem.strerror}"
            return ProbeAnswer(problem=said)
        last = next(reversed(tail(log)), "no output")
    if "reason" in heard or "problem" in heard:
        return msgspec.convert(heard, type=ProbeAnswer)
    fix = heard.get("fix")
    if last.startswith("ModuleNotFoundError") and not end.timed_out and not end.signal:
        fix = f"{python} -m pip install {' '.join(WORKER_NEEDS)}"
    if end.timed_out:
        said = f"it did not answer within {end.seconds:.0f} s"
    elif end.signal:
        said = f"its process crashed ({end.signal})"
    else:
        said = f"its process ended with status {end.status}: {last}"
    return ProbeAnswer(problem=said, fix=fix)


def answer(name: str, *, events: int, kind: str) -> None:
    """Answer in the child: first the fix, then whether it works."""
    try:
        module: Runtime | Builder = (BUILDERS if kind == "builder" else RUNTIMES).load(name)
        _say(events, fix=module.fix())
        _say(events, reason=module.available())
    except TrtbenchError as problem:
        reason = problem.facts.get("reason")
        _say(events, problem=f"{problem.message}: {reason}" if reason else problem.message)
    except (Exception, SystemExit) as problem:
        line = str(problem).partition("\n")[0]
        _say(events, problem=f"{type(problem).__name__}: {line}".removesuffix(": "))


def _say(events: int, **parts: str | None) -> None:
    os.write(events, msgspec.json.encode(parts) + b"\n")
