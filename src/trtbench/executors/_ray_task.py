"""What one Ray task does on its node: fetch what is missing, measure in a process of its own.

Ray's own Python never loads the libraries that measure.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trtbench.domain.spec import Value
from trtbench.errors import JobError, TrtbenchError, writing
from trtbench.executors._folders import blob, cache_folder, keep_blob, pack
from trtbench.executors._node import RUN, node_environment, run_node, told_from_error, told_in
from trtbench.executors._parcel import parcel_from_bytes, place_parcel
from trtbench.executors._request import Told
from trtbench.host.locks import alone
from trtbench.host.process import run_process
from trtbench.host.unfinished import temporary_folder

THREADS = "OMP_NUM_THREADS"
ASK_S = 120.0
"""Patience with a node that is asked what it has: its disk may be cold."""


class Answer(Value, frozen=True, kw_only=True):
    """What comes back from a node: a packed run directory, or an error in words."""

    host: str
    fetched: int = 0
    """Contents that this node did not have yet."""
    run: bytes | None = None
    error: Told | None = None
    log_tail: tuple[str, ...] = ()


def on_node(parcel: bytes, contents: Mapping[str, Sequence[object]], slot: int) -> Answer:
    """Carry out a request here; ``contents`` are references to chunks of files, by hash."""
    found = parcel_from_bytes(parcel)
    host, fetched = platform.node(), 0
    try:
        with writing("the cache of the node"):
            cache = cache_folder()
            fetched = sum(_fetch(cache, sha256, chunks) for sha256, chunks in contents.items())
        with temporary_folder() as folder:
            request = place_parcel(found, cache=cache, folder=folder)
            environment = {"TRTBENCH_CPU_SLOT": str(slot), **_set_by_ray()}
            answer = Answer(host=host, fetched=fetched)
            try:
                run_node(request, folder=folder / "work", environment=environment)
            except TrtbenchError as problem:
                answer = _refusal(problem, host, fetched)
            if (folder / "work" / RUN).is_dir():  # of work that failed, its log
                pack(folder / "work" / RUN, folder / "run.tar")
                answer = answer.having(run=(folder / "run.tar").read_bytes())
            return answer
    except TrtbenchError as problem:
        return _refusal(problem, host, fetched)


def _set_by_ray() -> dict[str, None]:
    """Name what Ray, and neither the node nor the user, has set: one thread would be measured."""
    told = importlib.import_module("ray").get_runtime_context().runtime_env.get("env_vars") or {}
    with contextlib.suppress(OSError):
        begun_with = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
        if THREADS not in told and not any(s.startswith(THREADS.encode()) for s in begun_with):
            return {THREADS: None}
    return {}


def missing_here(contents: Sequence[str]) -> tuple[str, ...]:
    """Tell which contents this node does not have."""
    cache = cache_folder()
    return tuple(each for each in contents if not blob(cache, each).is_file())


def lacking_here(libraries: Sequence[str]) -> Told | None:
    """Tell what of these is not installed on this node, by a process of its own."""
    with temporary_folder() as folder:
        log = folder / "log.txt"
        command = [sys.executable, "-m", "trtbench.node", "lacks", *libraries]
        run_process(command, log=log, env=node_environment(), folder=folder, timeout_s=ASK_S)
        return told_in(log.read_text("utf-8", "replace"))


def _refusal(problem: TrtbenchError, host: str, fetched: int) -> Answer:
    lines = problem.log_tail if isinstance(problem, JobError) else ()
    return Answer(host=host, fetched=fetched, error=told_from_error(problem), log_tail=lines)


def _fetch(cache: Path, sha256: str, chunks: Sequence[object]) -> bool:
    """Get a content unless this node has it; tasks that want the same one wait for each other."""
    if blob(cache, sha256).is_file():
        return False
    with alone(cache / f".{sha256[:16]}.lock"):
        if blob(cache, sha256).is_file():
            return False
        ray = importlib.import_module("ray")
        keep_blob(cache, sha256, (ray.get(chunk) for chunk in chunks))
        return True
