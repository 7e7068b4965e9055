"""What one Ray task does on its node: fetch what is missing, measure in a process of its own.

Ray's own Python never loads the libraries that measure.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trtbench.domain.spec import Value
from trtbench.errors import JobError, TrtbenchError, writing
from trtbench.executors._folders import blob, cache_folder, keep_blob, pack
from trtbench.executors._node import run_node
from trtbench.executors._parcel import parcel_from_bytes, place_parcel
from trtbench.executors._request import Told
from trtbench.host.unfinished import temporary_folder


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
            environment = {"TRTBENCH_CPU_SLOT": str(slot)}
            run = run_node(request, folder=folder / "work", environment=environment)
            pack(run, folder / "run.tar")
            return Answer(host=host, fetched=fetched, run=(folder / "run.tar").read_bytes())
    except TrtbenchError as problem:
        return _refusal(problem, host, fetched)


def _refusal(problem: TrtbenchError, host: str, fetched: int) -> Answer:
    told = Told(
        kind=type(problem).__name__, message=problem.message, facts=problem.facts, fix=problem.fix
    )
    lines = problem.log_tail if isinstance(problem, JobError) else ()
    return Answer(host=host, fetched=fetched, error=told, log_tail=lines)


def _fetch(cache: Path, sha256: str, chunks: Sequence[object]) -> bool:
    """Get a content unless this node has it; tasks that want the same one wait for each other."""
    if blob(cache, sha256).is_file():
        return False
    with _alone(cache, sha256):
        if blob(cache, sha256).is_file():
            return False
        ray = importlib.import_module("ray")
        keep_blob(cache, sha256, (ray.get(chunk) for chunk in chunks))
        return True


@contextlib.contextmanager
def _alone(cache: Path, sha256: str) -> Iterator[None]:
    descriptor = os.open(cache / f".{sha256[:16]}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
