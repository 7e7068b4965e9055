"""Runs on a Ray cluster: each is one task, pinned to a node that can measure it."""

from __future__ import annotations

import contextlib
import importlib
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from trtbench.errors import JobError, UnavailableError
from trtbench.executors._folders import unpack
from trtbench.executors._node import error_from_told, interrupt_if
from trtbench.executors._parcel import (
    Parcel,
    bytes_from_parcel,
    parcel_from_request,
    text_of_files,
)
from trtbench.executors._ray_nodes import TYPE, bundle, declared_here, refuse_nobody, request_nodes
from trtbench.executors._ray_task import ASK_S, Answer, lacking_here, missing_here, on_node
from trtbench.executors._request import (
    AGAIN,
    Executor,
    ExecutorSettings,
    Needs,
    Request,
    Tell,
    Told,
)
from trtbench.executors._slots import Lacking, Slot, Slots, Want
from trtbench.host.unfinished import temporary_folder
from trtbench.version import __version__

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

T = TypeVar("T")

ELSEWHERE = True
TAKES = ("address", "wait_node")
RETRIES = 5
"""How many nodes may be lost under one run before it is given up."""

NOTICE_S = 90.0
"""How long a cluster may take to notice that a node is gone; Ray's own limit is shorter."""

GRACE_S = 60.0
"""For starting a task and fetching its result, beyond the limit of the run itself."""

ANSWER_S = 15.0
"""How long a node may take for a sign of life once it has worked."""

JOINS = 3
"""How often a cluster is asked whose proxy cannot start a server for this client: as it does so
with ``fork`` beside gRPC's threads, the new process ends at times before it begins."""

_NO_SERVER = re.compile(
    "Starting Ray client server failed|Proxy failed to Connect to backend|already been disconnected"
)

MOST_ASKED = 32
"""How many nodes that are not there yet an autoscaler is asked for at a time."""

_CHUNK = 64 << 20
_HEAD = "node:__internal_head__"


class _NodeLost(Exception):
    """The node a run was on is no longer part of the cluster."""


def open_executor(settings: ExecutorSettings) -> Executor:
    """Join a cluster; without an address, the one that ``RAY_ADDRESS`` names, or this machine."""
    return RayExecutor(settings)


class RayExecutor:
    """Sends runs to nodes, one at a time to each device, and again only when a node is lost."""

    elsewhere = ELSEWHERE

    def __init__(self, settings: ExecutorSettings) -> None:
        self._ray = _ray()
        self._beside = settings.beside
        self._owns = not self._ray.is_initialized()
        if self._owns:
            self._join(settings)
        self._task = self._ray.remote(max_retries=0)(on_node)
        self._patience_s = settings.patience_s
        self._asked: list[dict[str, float]] = []
        self._declared: tuple[str, ...] | None = None
        """Resources of the nodes that an autoscaler may add, once it was asked."""
        self._asking = threading.Lock()
        self._slots = Slots(self._look, ask=self._ask, patience_s=settings.patience_s)
        self._contents: dict[str, list[ObjectRef]] = {}
        self._putting = threading.Lock()
        self._same: set[str] = set()
        """Nodes that are known to have this very version of trtbench."""
        self._closed = threading.Event()
        self.fetched: Counter[str] = Counter()
        """How many contents each node had to fetch."""

    def width(self, needs: Needs) -> int:
        """Count the places there are and, for who waits for nodes, those that may be asked for."""
        if self._patience_s <= 0:
            return len(self._slots.fitting(needs))
        return MOST_ASKED + sum(slot.lacks(needs) is None for slot in self._look())

    def run(self, request: Request, *, folder: Path, tell: Tell) -> None:
        """Measure on a node; another one takes over when it is lost."""
        parcel = parcel_from_request(request)
        times = 0
        while True:
            with self._slots.taken(request.needs, tell=tell) as slot:
                try:
                    answer = self._on(slot, parcel, tell)
                except Lacking:
                    continue  # elsewhere; that no other has it is said there
                except _NodeLost:
                    times += 1
                    if times > RETRIES:
                        raise JobError(
                            f"{RETRIES + 1} nodes were lost under this run",
                            facts={"last": slot.title},
                        ) from None
                    tell(f"{slot.title} was lost; {AGAIN}")
                    continue
            self.fetched[slot.machine] += answer.fetched
            _keep(answer, folder, slot)
            return

    def close(self) -> None:
        """Leave the cluster, unless the caller had joined it; what is being measured ends."""
        self._closed.set()
        with self._asking:
            if self._asked and self._ray.is_initialized():
                self._request_nodes([])  # what was asked for is wanted no longer
        if self._owns and self._ray.is_initialized():
            self._ray.shutdown()

    def _join(self, settings: ExecutorSettings) -> None:
        package = str(Path(__file__).resolve().parents[1])
        for left in reversed(range(JOINS)):
            try:
                refuse_nobody(settings.address or "")
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
            except (ConnectionError, ValueError, RuntimeError) as problem:
                if not left or not _NO_SERVER.search(str(problem)):
                    raise _not_joined(settings.address or "auto", str(problem)) from None
            else:
                return

    def _look(self) -> Iterator[Slot]:
        """List the devices of all live nodes; who still waits for one at the end is let go."""
        interrupt_if(self._closed)
        for node in self._ray.nodes():
            if not node["Alive"]:
                continue
            has = node["Resources"]
            types = [name.removeprefix(TYPE) for name in has if name.startswith(TYPE)]
            places = [(None, number) for number in range(self._beside if has.get("CPU") else 0)]
            places += [(index, 0) for index in range(int(has.get("GPU", 0)))]  # type: ignore[misc]
            for gpu, number in places:
                yield Slot(
                    machine=node["NodeID"],
                    title=node["NodeManagerHostname"] + f" ({node['NodeID'][:6]})",
                    gpu=gpu,
                    number=number,
                    gpu_type=" ".join(types),
                    memory_bytes=has.get("memory"),
                    gpu_memory_bytes=has.get("gpu_memory"),
                    resources=dict(has),
                )

    def _ask(self, wants: Sequence[Want]) -> None:
        """Ask the autoscaler, where there is one, for as many nodes as the runs there are can use.

        It holds what it is asked for against all that there is, busy or not, so that runs which
        have their place count too.
        """
        if self._closed.is_set():
            return
        waiting = [want for want in wants if want.slot is None]
        wants = [want for want in wants if want.slot is not None] + waiting[:MOST_ASKED]
        places = list(self._look()) if wants else []
        named = any(want.needs.gpu_type or want.needs.machine for want in wants)
        known = self._known_resources() if named else set()
        bundles = [bundle(want, places, known, beside=self._beside) for want in wants]
        with self._asking:
            if bundles != self._asked and not self._closed.is_set():
                self._request_nodes(bundles)
                self._asked = bundles

    def _known_resources(self) -> set[str]:
        """Name what nodes have or had, and what those have that the autoscaler may add."""
        nodes = self._ray.nodes()
        head = next((each["NodeID"] for each in nodes if _HEAD in each["Resources"]), None)
        if self._declared is None and head is not None:
            self._declared = self._asked_of(head, declared_here)
        return {*(self._declared or ()), *(name for each in nodes for name in each["Resources"])}

    def _request_nodes(self, bundles: list[dict[str, float]]) -> None:
        """Tell the autoscaler what is wanted; through a client only the cluster itself can."""
        with contextlib.suppress(importlib.import_module("ray.exceptions").RayError):
            if importlib.import_module("ray.util.client").ray.is_connected():
                name = "trtbench asks for nodes"
                task = self._ray.remote(max_retries=0, num_cpus=0, name=name)(request_nodes)
                self._ray.get(task.remote(bundles), timeout=ANSWER_S)
            else:
                request_nodes(bundles)

    def _put(self, sha256: str, path: Path) -> list[ObjectRef]:
        """Hand a file to Ray once, in pieces; nodes that have it never ask for it."""
        with self._putting:
            if sha256 not in self._contents:
                with open(path, "rb") as file:
                    pieces = iter(lambda: file.read(_CHUNK), b"")
                    self._contents[sha256] = [self._ray.put(piece) for piece in pieces]
            return self._contents[sha256]

    def _hand_over(
        self, slot: Slot, contents: Mapping[str, Path], tell: Tell
    ) -> dict[str, list[ObjectRef]]:
        """Hand the cluster what a node lacks; a laptop may be far from it."""
        fresh = tuple(contents.keys() - self._contents.keys())
        asked = self._asked_of(slot.machine, lambda: missing_here(fresh)) if fresh else ()
        missing = fresh if asked is None else asked
        if missing:
            tell(f"sending {text_of_files([contents[each] for each in missing])} to {slot.title}")
        given = [each for each in contents if each in missing or each in self._contents]
        return {each: self._put(each, contents[each]) for each in given}

    def _on(self, slot: Slot, parcel: Parcel, tell: Tell) -> Answer:
        errors = importlib.import_module("ray.exceptions")
        request = parcel.request
        needs = request.needs
        self._demand_same(slot)
        self._slots.demand(slot, needs, partial(self._lacks, slot.machine))
        contents = self._hand_over(slot, parcel.contents, tell)
        tell(f"carried out on {slot.title}")
        reference = self._task.options(
            num_cpus=0 if needs.gpu else 1 / self._beside,
            num_gpus=1 if needs.gpu else 0,
            memory=needs.memory_bytes,
            resources=needs.resources or None,
            scheduling_strategy=_pinned(slot.machine),
            name=request.title,
        ).remote(bytes_from_parcel(parcel), contents, slot.number)
        limit_s = None if request.limit_s is None else request.limit_s + GRACE_S
        try:
            answer: Answer = self._ray.get(reference, timeout=limit_s)
        except errors.GetTimeoutError:
            self._ray.cancel(reference, force=True)
            raise JobError(
                "no end of the run in time", facts={"where": slot.title, "limit": f"{limit_s:g} s"}
            ) from None
        except errors.RayError as problem:
            interrupt_if(self._closed)
            if self._is_gone(slot.machine):
                raise _NodeLost from None
            raise JobError(
                "Ray could not carry the run out",
                facts={"where": slot.title, "reason": str(problem).strip().splitlines()[-1]},
            ) from None
        except BaseException:  # interrupted: nothing shall go on measuring for nobody
            interrupt_if(self._closed)
            self._ray.cancel(reference, force=True)
            raise
        return answer

    def _demand_same(self, slot: Slot) -> None:
        """Refuse a node with another trtbench: whoever joined before this lent it none."""
        if self._owns or slot.machine in self._same:
            return
        there = self._asked_of(slot.machine, _version_there, patience_s=NOTICE_S)
        if there is None:  # who does not answer is met again below
            return
        if there != __version__:
            raise UnavailableError(
                "a node of the cluster has another trtbench",
                facts={"node": slot.title, "there": there, "here": __version__},
                fix="ray.shutdown() before: the executor joins the cluster itself, and lends its "
                f"own; or pip install trtbench=={__version__} on every node",
            )
        self._same.add(slot.machine)

    def _is_gone(self, node: str) -> bool:
        """Wait until the cluster has made up its mind about a node on which a task broke."""
        deadline = time.monotonic() + NOTICE_S
        while time.monotonic() < deadline:
            alive = {each["NodeID"] for each in self._ray.nodes() if each["Alive"]}
            if node not in alive:
                return True
            if self._asked_of(node, _echo):
                return False
            time.sleep(1.0)
        return False

    def _lacks(self, node: str, libraries: tuple[str, ...]) -> Told | None:
        return self._asked_of(node, lambda: lacking_here(libraries), patience_s=ASK_S)

    def _asked_of(
        self, node: str, question: Callable[[], T], *, patience_s: float = ANSWER_S
    ) -> T | None:
        """Have a node answer something small; ``None`` when it does not."""
        asked = self._ray.remote(max_retries=0, num_cpus=0)(question)
        name = "trtbench asks a node what it has"
        reference = asked.options(scheduling_strategy=_pinned(node), name=name).remote()
        try:
            answer: T = self._ray.get(reference, timeout=patience_s)
            return answer
        except importlib.import_module("ray.exceptions").RayError:
            return None


def _echo() -> bool:
    return True


def _not_joined(address: str, reason: str) -> UnavailableError:
    """Say why a cluster cannot be joined; Ray wants its own version and Python's everywhere."""
    found = re.findall(r"Ray: (\S+)\s+Python: (\S+)", reason)
    if len(found) < 2:
        if "Traceback" in reason:
            reason = reason.strip().splitlines()[-1]
        facts, fix = {"reason": reason}, "ray status --address HOST:6379"
    else:
        (ray, python), mine = found[:2]
        facts = {"there": f"Ray {ray}, Python {python}", "here": "Ray {}, Python {}".format(*mine)}
        fix = f"a Python {python} with: pip install 'trtbench[ray]' ray=={ray}"
    return UnavailableError(
        "the Ray cluster cannot be joined", facts={"address": address, **facts}, fix=fix
    )


def _make_version_there() -> Callable[[], str]:
    """Make a question that travels by value: a node without trtbench can answer it too."""

    def version() -> str:
        try:
            from trtbench.version import __version__ as there
        except ImportError:
            return "none"
        return there

    return version


_version_there = _make_version_there()


def _pinned(node: str) -> NodeAffinitySchedulingStrategy:
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    return strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)


def _keep(answer: Answer, folder: Path, slot: Slot) -> None:
    if answer.run is not None:
        with temporary_folder() as own:
            (own / "run.tar").write_bytes(answer.run)
            unpack(own / "run.tar", folder)
    if answer.error is not None:
        error = error_from_told(answer.error, where=slot.title)
        if isinstance(error, JobError):
            error.log_tail = answer.log_tail
        raise error


def _ray() -> ModuleType:
    try:
        return importlib.import_module("ray")
    except ImportError as problem:
        raise UnavailableError(
            "the executor ray needs Ray",
            facts={"reason": problem},
            fix="pip install 'trtbench[ray]'",
        ) from None
