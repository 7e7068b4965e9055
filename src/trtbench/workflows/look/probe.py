"""Ask a runtime or a builder whether it works here, from a child process.

A broken library may crash or hang instead of raising, so whoever asks must not share its process.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Literal

import msgspec

from trtbench.build.builders import BUILDERS
from trtbench.build.builders.contract import Builder
from trtbench.domain.spec import Value
from trtbench.errors import TrtbenchError
from trtbench.executors import WORKER_NEEDS, worker_environment
from trtbench.host.process import Exit, run_process, tail
from trtbench.host.unfinished import temporary_folder
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
"""Another interpreter is lent this very package, as it is for a measurement."""


class ProbeAnswer(Value, frozen=True, kw_only=True):
    """What a runtime said of itself, or how it failed to."""

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
    """Ask one of them in a fresh process of the interpreter that would work with it."""
    heard: dict[str, Any] = {}
    with temporary_folder() as folder:
        log = folder / "log.txt"
        try:
            end = run_process(
                [python, "-c", _child_code(), name, "{events}", kind],
                log=log,
                timeout_s=timeout_s,
                env=worker_environment(python),
                on_line=lambda line: heard.update(msgspec.json.decode(line)),
            )
        except OSError as problem:
            return ProbeAnswer(
                problem=f"the interpreter {python} does not start: {problem.strerror}"
            )
        if "reason" in heard or "problem" in heard:
            return msgspec.convert(heard, type=ProbeAnswer)
        return _answer_from_silence(end, tail(log), fix=heard.get("fix"), python=python)


def answer(name: str, *, events: int, kind: str) -> None:
    """Answer for one of them, in the child: first the fix, then whether it works."""
    try:
        module: Runtime | Builder = (BUILDERS if kind == "builder" else RUNTIMES).load(name)
        _say(events, fix=module.fix())
        _say(events, reason=module.available())
    except (Exception, SystemExit) as problem:
        _say(events, problem=_described(problem))


def _described(problem: Exception | SystemExit) -> str:
    """Make one line about what went wrong; of our own errors, what lies behind them."""
    if isinstance(problem, TrtbenchError):
        reason = problem.facts.get("reason")
        return f"{problem.message}: {reason}" if reason else problem.message
    first_line = str(problem).partition("\n")[0]
    return f"{type(problem).__name__}: {first_line}".removesuffix(": ")


def _say(events: int, **parts: str | None) -> None:
    os.write(events, msgspec.json.encode(parts) + b"\n")


def _child_code() -> str:
    package = Path(__file__).resolve().parents[2]
    return _CODE.format(init=str(package / "__init__.py"), folder=str(package))


def _answer_from_silence(
    end: Exit, log: tuple[str, ...], *, fix: str | None, python: str
) -> ProbeAnswer:
    """Say how a child ended that told nothing."""
    if end.timed_out:
        return ProbeAnswer(problem=f"it did not answer within {end.seconds:.0f} s", fix=fix)
    if end.signal:
        return ProbeAnswer(problem=f"its process crashed ({end.signal})", fix=fix)
    last = log[-1] if log else "no output"
    if last.startswith("ModuleNotFoundError"):
        fix = f"{python} -m pip install {' '.join(WORKER_NEEDS)}"
    return ProbeAnswer(problem=f"its process ended with status {end.status}: {last}", fix=fix)
