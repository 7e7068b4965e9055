"""The far end of an executor: ``python -m trtbench.node request.json outdir [events]``.

Measures one run as ``trtbench bench`` does, with the locks, the environment and the counters of the
machine it is on, and leaves the run's directory, or ``error.json``, in the folder. Does not know
who asked, nor in which store the run will be. With ``-`` for events it tells them on standard
output, and ends when standard input does: then whoever asked is gone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from trtbench import boundary
from trtbench.boundary import read_bytes
from trtbench.domain.artefact import Artefact
from trtbench.domain.codec import json_from_value, value_from_json
from trtbench.errors import JobError, TrtbenchError, UsageError
from trtbench.executors import (
    ANSWER,
    LACKS,
    Errand,
    Partner,
    Request,
    Told,
    told_from_error,
    with_marks,
)
from trtbench.store.store import Store
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config, load_config
from trtbench.workflows.request.fields import fields_of
from trtbench.workflows.request.groups import StoreFields
from trtbench.workflows.request.progress import Event, Listener

if TYPE_CHECKING:
    from trtbench.domain.words import Mode

RUN, ERROR, OUTPUT = "run", "error.json", "output"
EXIT_TOLD = 3


def main(arguments: list[str]) -> int:
    """Carry out one request; the status is 0 when there is a run, failed ones included.

    ``lacks LIBRARY...`` prints what this machine has not installed.
    """
    if arguments[:1] == ["lacks"]:
        return _tell_lacking(arguments[1:])
    path, folder = Path(arguments[0]).absolute(), Path(arguments[1]).absolute()
    tell = _teller(arguments[2] if len(arguments) > 2 else None, folder)
    request = None
    try:
        request = value_from_json(read_bytes(path), Request, where=str(path))
        _measure(request, folder, tell)
    except TrtbenchError as problem:
        if isinstance(problem, JobError) and (folder / RUN / "run.json").is_file():
            return 0  # a failed run is a run
        told = told_from_error(problem)
        if request is not None:
            told = msgspec.convert(_hidden(told, request, folder), type=Told)
        (folder / ERROR).write_bytes(json_from_value(told))
        return EXIT_TOLD
    except Exception as problem:
        traceback.print_exc()
        told = Told(kind="bug", message=repr(problem))
        (folder / ERROR).write_bytes(json_from_value(told))
        return EXIT_TOLD
    return 0


def _tell_lacking(libraries: list[str]) -> int:
    from trtbench.workflows.look.lacking import refuse_lacking

    try:
        refuse_lacking(libraries, load_config())
    except TrtbenchError as problem:
        told = json_from_value(told_from_error(problem)).decode()
        sys.stdout.write(f"\n{LACKS}{' '.join(told.splitlines())}\n")
    return 0


def _measure(request: Request, folder: Path, tell: Callable[[str], None]) -> None:
    def listen(event: Event) -> None:
        if event.kind != "tick":
            tell(event.text)

    if request.code:
        path = [*request.code, *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(path)
    if request.errand is not None:
        _carry_out(request, request.errand, folder, listen)
        return
    assert request.spec is not None
    config = load_config()
    python = request.python or config.python_for(request.spec.runtime)
    conduct = replace(_conduct(request, config, listen), python=python)
    store = Store(folder / "store")
    if request.partner is not None:
        other = request.partner
        own = other.having(python=other.python or config.python_for(other.spec.runtime))
        _compare(request.having(python=python), own, folder / RUN, store, conduct)
        return
    alone = replace(conduct, output=folder / RUN, run_id=request.id)
    run_bench(request.spec, store=store, conduct=alone)


CASE = "case"
ERRANDS = ("build", "check", "evaluate", "quantize")
"""Verbs that a machine carries out for another one."""


def _carry_out(request: Request, errand: Errand, folder: Path, listen: Listener) -> None:
    """Carry out a verb; what it gives is written last, with no names of this machine in it."""
    output = folder / RUN / OUTPUT
    output.mkdir(parents=True)
    if errand.verb == CASE:
        value: object = _case(request, errand, folder, listen)
    else:
        value = _done(errand, output, folder / "store", listen)
        name = _conduct(request, load_config(), listen).machine
        if isinstance(value, Artefact) and name:
            value = value.having(host=name)
    plain = _hidden(value, request, folder)
    (folder / RUN / ANSWER).write_bytes(msgspec.msgpack.encode(plain))


def _hidden(value: object, request: Request, folder: Path) -> object:
    """Leave the places of this machine out of a value, for the way back."""
    files = Path(request.placed) if request.placed else folder / "files"
    return with_marks(msgspec.to_builtins(value), files=files, output=folder / RUN / OUTPUT)


def _case(request: Request, errand: Errand, folder: Path, listen: Listener) -> object:
    from trtbench.workflows.sweep.case import carry_out_case

    config = load_config()
    return carry_out_case(
        errand.asked,
        folder=folder,
        output=folder / RUN / OUTPUT,
        config=config,
        conduct=_conduct(request, config, listen),
    )


def _conduct(request: Request, config: Config, listen: Listener) -> Conduct:
    return Conduct(
        machine=config.machine or (request.machine and boundary.check_tag(request.machine)),
        timeout_s=request.timeout_s,
        memory_bytes=request.memory_bytes,
        command=request.command,
        tags=request.tags,
        listen=listen,
    )


def _done(errand: Errand, output: Path, store: Path, listen: Listener) -> object:
    if errand.verb not in ERRANDS:
        raise UsageError(f"no machine does {boundary.shown(errand.verb)} for another")
    from trtbench import verbs

    carry_out = getattr(verbs, errand.verb)
    kind = getattr(verbs, carry_out.__annotations__["request"])
    asked = dict(errand.asked)
    if errand.output is not None:
        asked["output"] = boundary.inside(output, errand.output, what="output", where="the request")
    if issubclass(kind, StoreFields):
        asked["store"] = store
    for field in fields_of(kind):
        if field.about.travels == "cache" and field.name in asked:  # beside it, it comes back
            beside = f"{asked['output']}.{field.name.replace('_', '.')}"
            asked[field.name] = shutil.copyfile(str(asked[field.name]), beside)
    series = {field.name for field in fields_of(kind) if isinstance(field.default, tuple)}
    for key in series & asked.keys():
        asked[key] = tuple(msgspec.convert(asked[key], type=list))
    return carry_out(kind(**asked), listen=listen)


def _compare(
    request: Request, partner: Partner, target: Path, store: Store, conduct: Conduct
) -> None:
    """Measure two sides in turn; the second folder is moved last."""
    from trtbench.workflows.compare.compare import play_sides
    from trtbench.workflows.compare.sides import Sides
    from trtbench.workflows.request.comparing import CompareRequest

    assert request.spec is not None
    sides = Sides(
        baseline=request.spec, candidate=partner.spec, pythons=(request.python, partner.python)
    )
    turns = CompareRequest(
        baseline=request.spec.model.path,
        candidates=[partner.spec.model.path],
        launches=partner.launches,
        max_launches=partner.most_launches,
        pairs=partner.pairs,
        mode=cast("Mode", partner.mode),
        margin=partner.margin,
        cuda_graph=request.spec.cuda_graph,  # settled where it was asked for
        seed=partner.seed,
    )
    found = play_sides(sides, store=store, request=turns, conduct=replace(conduct, python=None))
    target.mkdir()
    for side, run in enumerate((found.baseline, found.candidate)):
        assert run.path is not None
        run.path.rename(target / str(side))


def _teller(events: str | None, folder: Path) -> Callable[[str], None]:
    if events is None:
        return lambda text: None
    if events == "-":
        threading.Thread(target=_end_with_input, args=(folder,), daemon=True).start()
    descriptor = 1 if events == "-" else int(events)

    def tell(text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(descriptor, " ".join(text.split()).encode() + b"\n")

    return tell


def _end_with_input(folder: Path) -> None:
    """End this process when its standard input does; the kernel then ends the worker.

    Nobody comes for what was measured by then.
    """
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
