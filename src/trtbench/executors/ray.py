"""Runs jobs on a Ray cluster: each is one task, pinned to a node that fits."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.errors import JobError, TrtbenchError, UnavailableError, writing
from trtbench.core.jobs import ReportedError
from trtbench.executors import _node, _transfer
from trtbench.executors.contract import SIZES, ExecutorSettings, Notify, RemoteJob
from trtbench.host.cache import cache_folder
from trtbench.host.files import exclusive, make_folder, temporary_folder

if TYPE_CHECKING:
    from ray import ObjectRef

T = TypeVar("T")

TAKES = ("address", "wait_node")
RETRIES = 5  # how often a job is started again after its node was lost
GRACE_S = 60.0
"""Time for starting a task and fetching its result, in addition to the limit of the job."""
JOINS = 3
"""How often joining a cluster is tried. Its proxy forks a server for each client while gRPC has
threads, and the new process sometimes dies before it starts."""
TYPE = "accelerator_type:"
THREADS = "OMP_NUM_THREADS"

_NO_SERVER = re.compile(
    "Starting Ray client server failed|Proxy failed to Connect to backend|already been disconnected"
    "|ZombieProcess"
)
_CHUNK = 64 << 20


class RayExecutor(_node.SlotExecutor):
    """Sends jobs to nodes, one at a time per device; retries a job only if its node is lost."""

    def __init__(self, settings: ExecutorSettings) -> None:
        try:
            self._ray: ModuleType = importlib.import_module("ray")
        except ImportError as problem:
            facts = {"reason": problem}
            fix = "pip install 'trtbench[ray]'"
            raise UnavailableError("the executor ray needs Ray", facts=facts, fix=fix) from None
        self._beside = settings.beside
        self._owns = not self._ray.is_initialized()
        if self._owns:
            self._join(settings)
        self._task = self._ray.remote(max_retries=0)(run_on_node)
        self._contents: dict[str, list[ObjectRef[bytes]]] = {}
        self._putting = threading.Lock()
        super().__init__(self._list_nodes, patience_s=settings.patience_s)

    def run(self, job: RemoteJob, *, folder: Path, notify: Notify) -> None:
        upload = _transfer.upload_from_job(job)

        def run_in(slot: _node.Slot) -> None:
            answer = self._run_task(slot, upload, notify)
            if not isinstance(answer, tuple):
                raise JobError("the node sent back no result", facts={"where": slot.title})
            with temporary_folder() as own:
                (own / "left.tar").write_bytes(answer[0])
                _node.receive(own / "left.tar", folder, where=slot.title, how=answer[1])

        self.run_in_slot(job.needs, run_in, notify=notify, retries=RETRIES)

    def close(self) -> None:
        """Leave the cluster, unless the caller joined it, and end running jobs."""
        super().close()
        if self._owns and self._ray.is_initialized():
            self._ray.shutdown()

    def _join(self, settings: ExecutorSettings) -> None:
        package = str(Path(__file__).resolve().parents[1])
        for left in reversed(range(JOINS)):
            try:
                _check_listening(settings.address or "")
                self._ray.init(
                    address=settings.address,
                    log_to_driver=False,
                    logging_level="ERROR",
                    include_dashboard=False,
                    runtime_env={
                        "py_modules": [package],
                        "env_vars": dict(settings.environment or {}),
                    },
                )
                return
            except (ConnectionError, ValueError, RuntimeError) as problem:
                reason = str(problem)
                if left and _NO_SERVER.search(reason):
                    continue
            # Ray requires the same versions of Ray and Python on all machines.
            found = re.findall(r"Ray: (\S+)\s+Python: (\S+)", reason)
            if len(found) < 2:
                last = reason.strip().splitlines()[-1] if "Traceback" in reason else reason
                facts, fix = {"reason": last}, "ray status --address HOST:6379"
            else:
                there, here = (f"Ray {ray}, Python {python}" for ray, python in found[:2])
                facts = {"there": there, "here": here}
                ray, python = found[0]
                fix = f"use Python {python} with: pip install 'trtbench[ray]' ray=={ray}"
            facts = {"address": settings.address or "auto", **facts}
            raise UnavailableError("the Ray cluster cannot be joined", facts=facts, fix=fix)

    def _list_nodes(self) -> Iterator[_node.Slot]:
        for node in self._ray.nodes():
            if not node["Alive"]:
                continue
            has = node["Resources"]
            types = [name.removeprefix(TYPE) for name in has if name.startswith(TYPE)]
            slots = [(None, number) for number in range(self._beside if has.get("CPU") else 0)]
            slots += [(index, 0) for index in range(int(has.get("GPU", 0)))]  # type: ignore[misc]
            for gpu, number in slots:
                yield _node.Slot(
                    machine=node["NodeID"],
                    title=node["NodeManagerHostname"] + f" ({node['NodeID'][:6]})",
                    gpu=gpu,
                    number=number,
                    gpu_type=" ".join(types),
                    resources=dict(has),
                )

    def _put_contents(
        self, slot: _node.Slot, contents: Mapping[str, Path], notify: Notify
    ) -> dict[str, list[ObjectRef[bytes]]]:
        """Put contents that a node lacks into the cluster; returns their chunks by hash."""
        fresh = tuple(contents.keys() - self._contents.keys())

        def list_missing() -> tuple[str, ...]:
            cache = make_folder(cache_folder())
            return tuple(each for each in fresh if not _transfer.blob_path(cache, each).is_file())

        missing = self._call_on_node(slot.machine, list_missing) if fresh else ()
        missing = tuple(each for each in fresh if missing is None or each in missing)
        if missing:
            size = _transfer.text_of_files([contents[each] for each in missing])
            notify(f"sending {size} to {slot.title}")
        for sha256 in missing:
            with self._putting:
                if sha256 not in self._contents:  # once for all nodes
                    with open(contents[sha256], "rb") as file:
                        chunks = iter(lambda: file.read(_CHUNK), b"")
                        self._contents[sha256] = [self._ray.put(chunk) for chunk in chunks]
        return {each: self._contents[each] for each in contents if each in self._contents}

    def _run_task(
        self, slot: _node.Slot, upload: _transfer.Upload, notify: Notify
    ) -> tuple[bytes, str]:
        errors = importlib.import_module("ray.exceptions")
        job, needs = upload.job, upload.job.needs
        contents = self._put_contents(slot, upload.contents, notify)
        notify(f"running on {slot.title}")
        reference = self._task.options(
            num_cpus=0 if needs.gpu else 1 / self._beside,
            num_gpus=1 if needs.gpu else 0,
            memory=needs.resources.get("memory"),
            resources={k: v for k, v in needs.resources.items() if k not in SIZES} or None,
            scheduling_strategy=_pin_to(slot.machine),
            name=job.title,
        ).remote(json_from_value(upload), contents, slot.number)
        limit_s = None if job.limit_s is None else job.limit_s + GRACE_S
        try:
            answer: tuple[bytes, str] = self._ray.get(reference, timeout=limit_s)
        except errors.GetTimeoutError:
            self._ray.cancel(reference, force=True)
            raise JobError(
                "the job timed out", facts={"where": slot.title, "limit": f"{limit_s:g} s"}
            ) from None
        except errors.RayError as problem:
            _node.interrupt_if_closed(self._closed)
            reason = str(problem).strip().splitlines()[-1]
            error = JobError(
                "Ray could not run the job", facts={"where": slot.title, "reason": reason}
            )
            if self._is_gone(slot.machine):
                raise _node.MachineLost(error) from None
            raise error from None
        except BaseException:  # interrupted: nothing may go on measuring
            _node.interrupt_if_closed(self._closed)
            self._ray.cancel(reference, force=True)
            raise
        return answer

    def _is_gone(self, node: str) -> bool:
        """Return whether a node on which a task failed is lost; waits until the cluster knows."""
        # How long a cluster may take to notice that a node is gone; Ray's own limit is shorter.
        deadline = time.monotonic() + 90.0
        while time.monotonic() < deadline:
            alive = {each["NodeID"] for each in self._ray.nodes() if each["Alive"]}
            if node not in alive:
                return True
            if self._call_on_node(node, lambda: True):
                return False
            time.sleep(1.0)
        return False

    def _call_on_node(self, node: str, function: Callable[[], T]) -> T | None:
        """Call a quick function on a node; returns ``None`` if the node does not answer."""
        task = self._ray.remote(max_retries=0, num_cpus=0)(function)
        name = "trtbench queries a node"
        reference = task.options(scheduling_strategy=_pin_to(node), name=name).remote()
        try:
            # How long a node may take to answer a small task.
            answer: T = self._ray.get(reference, timeout=15.0)
            return answer
        except importlib.import_module("ray.exceptions").RayError:
            return None


def _check_listening(address: str) -> None:
    """Raise if nothing listens at an address; Ray itself would keep trying for minutes."""
    host, _, port = address.removeprefix("ray://").partition("/")[0].rpartition(":")
    # How long a head node that has just been started may take until it accepts connections.
    deadline = time.monotonic() + 30.0
    while host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
        except ConnectionRefusedError:
            if time.monotonic() >= deadline:
                raise ConnectionRefusedError("nothing listens at this address") from None
            time.sleep(0.5)
            continue
        except (OSError, OverflowError):  # Ray has more to say about it
            pass
        return


def _pin_to(node: str) -> object:
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    return strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)


open_executor = RayExecutor
"""Joins a cluster; without an address, the one that ``RAY_ADDRESS`` names, or this machine."""


# The following functions run on nodes. Ray's process never loads the libraries that measure.


def run_on_node(
    upload: bytes, contents: Mapping[str, Sequence[object]], slot: int
) -> tuple[bytes, str]:
    """Run a job, with references to chunks of its files by hash; returns packed results and end."""
    found, how = value_from_json(upload, _transfer.Upload, where="the request"), "not started"
    environment: dict[str, str | None] = {"TRTBENCH_CPU_SLOT": str(slot)}
    with temporary_folder() as folder:
        work = make_folder(folder / "work")
        try:
            with writing("the cache of the node"):
                cache = make_folder(cache_folder())
                for sha256, chunks in contents.items():
                    _fetch_content(cache, sha256, chunks)
            job = _transfer.place_upload(found, cache=cache, folder=folder)
            with contextlib.suppress(OSError):  # Ray limits workers to one thread: undo that
                context = importlib.import_module("ray").get_runtime_context()
                begun_with = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
                set_there = any(each.startswith(THREADS.encode()) for each in begun_with)
                if THREADS not in (context.runtime_env.get("env_vars") or {}) and not set_there:
                    environment[THREADS] = None
            how = _node.run_node(job, folder=work, environment=environment)
        except TrtbenchError as problem:
            reported = json_from_value(ReportedError.from_error(problem))
            (work / _transfer.ERROR).write_bytes(reported)
        return _transfer.pack_results(work).read_bytes(), how


def _fetch_content(cache: Path, sha256: str, chunks: Sequence[object]) -> None:
    """Fetch content unless the node has it; tasks that need the same one wait for each other."""
    with exclusive(cache / f".{sha256[:16]}.lock"):
        if not _transfer.blob_path(cache, sha256).is_file():
            ray = importlib.import_module("ray")
            _transfer.store_blob(cache, sha256, (ray.get(chunk) for chunk in chunks))
