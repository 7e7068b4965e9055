"""A case of a sweep on another machine: it quantizes, builds, measures and judges there.

The machine plans the steps itself, by its own GPU and tools, and keeps what they make; what comes
back is the run with its scores, and the records of the steps.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import msgspec

from trtbench.boundary import file_name_from_text
from trtbench.domain.artefact import Artefact
from trtbench.domain.codec import json_from_value
from trtbench.domain.result import Run
from trtbench.domain.spec import RunSpec, Value
from trtbench.errors import writing
from trtbench.executors import AGAIN, Errand
from trtbench.host.unfinished import remove_abandoned, scratch_directory, temporary_folder
from trtbench.store.directory import write_record
from trtbench.store.store import Store
from trtbench.workflows.measure.errand import (
    format_of_model,
    needs_gpu,
    send_errand,
    value_of_answer,
)
from trtbench.workflows.measure.luggage import Luggage
from trtbench.workflows.measure.remote import record_of, take_in
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.fields import fields_of
from trtbench.workflows.request.progress import Event
from trtbench.workflows.request.sweeping import SweepRequest
from trtbench.workflows.sweep.matrix import MACHINE, Case, Matrix

VERB = "case"
RUN = "run"
MADE = "made"
"""In what comes back, on request: the model that was measured, if it was made there."""
ENGINES = "engines"
"""In the folder of a sweep: what came back, by machine and case."""
STEPS = "steps.json"
"""In the directory of a run: what was made for it on the machine that measured."""


class StepDone(Value, frozen=True, kw_only=True):
    """What a step made on the machine that measured; the file stays there."""

    kind: str
    title: str
    seconds: float
    file: str | None = None
    sha256: str | None = None
    notes: tuple[str, ...] = ()
    artefact: Artefact | None = None
    """The record of an engine."""


class CaseDone(Value, frozen=True, kw_only=True):
    """A case that was carried out; its run lies beside this, measured or failed."""

    spec: RunSpec
    steps: tuple[StepDone, ...] = ()
    remark: str | None = None


def bench_elsewhere(
    matrix: Matrix, case: Case, run_id: str, *, store: Store, conduct: Conduct, folder: Path
) -> tuple[Run, str | None]:
    """Have a case carried out by an executor, and keep its run as if it had been measured here.

    What was built there is put into the folder of the sweep, where that is asked for.
    """
    errand, luggage = case_errand(matrix, case, run_id)
    options = {key: str(value) for key, value in case.own("opt.").items()}
    device, machine = case.settings.get("device"), case.settings.get(MACHINE)
    gpu = needs_gpu(
        case.model, case.runtime, device=str(device) if device else None, options=options
    )
    lost: list[str] = []

    def listen(event: Event) -> None:
        if event.text.endswith(AGAIN):
            lost.append(event.text)
        conduct.listen(event)

    with temporary_folder() as own:
        answer = send_errand(
            errand,
            own,
            luggage=luggage,
            conduct=replace(conduct, listen=listen),
            gpu=gpu,
            title=case.name,
            machine=str(machine) if machine is not None else None,
        )
        done = value_of_answer(answer, CaseDone, luggage=luggage, output=own)
        output = own / "output"
        run = _keep(output / RUN, done, run_id, store, conduct)
        if (output / MADE).is_dir():
            _put_engine(output / MADE, folder / ENGINES, case, run.record.environment.label)
        return run, "; ".join(filter(None, [done.remark, *lost])) or None


def case_errand(matrix: Matrix, case: Case, run_id: str) -> tuple[Errand, Luggage]:
    """Put a case into words that can travel: the matrix with this model alone, and its files."""
    luggage = Luggage(task=matrix.task, settings=matrix.task_settings)
    travels = {each.name: each.about.travels for each in fields_of(SweepRequest)}
    named = {
        name: luggage.take(travels[name], value)
        for name in Matrix.__struct_fields__
        if travels.get(name) and name != "models" and (value := getattr(matrix, name))
    }
    model = luggage.model(case.model)
    if "opt.binary" not in case.settings:  # else it is said where the program is
        luggage.need(f"runtime:{case.runtime}")
    if format_of_model(case.model) == "torch":
        luggage.need("format:torch")
    own = matrix.having(
        **named,
        models=(model,),
        runtime=(case.runtime,),
        options=luggage.axes(matrix.options),
        task_settings=luggage.take("settings", matrix.task_settings),
        exclude=(),
    )
    case = case.having(
        model=model, options=luggage.axes(case.options), fixed=luggage.axes(case.fixed)
    )
    asked = {"matrix": own, "case": case, "run_id": run_id}
    return Errand(verb=VERB, asked=msgspec.to_builtins(asked)), luggage


def _put_engine(source: Path, folder: Path, case: Case, host: str) -> None:
    """Put an engine where people look for it: by the machine it belongs to and its case."""
    target = folder / file_name_from_text(host) / file_name_from_text(case.name)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target.parent)
        with scratch_directory(target.parent) as made:
            shutil.copytree(source, made / "new")
            if target.exists():  # of an earlier try
                target.rename(made / "old")
            (made / "new").rename(target)


def _keep(source: Path, done: CaseDone, run_id: str, store: Store, conduct: Conduct) -> Run:
    """Store a run that came back, under the id that it was asked for with."""
    record = record_of(run_id, source)
    with store.new_run(run_id) as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        (folder / STEPS).write_bytes(json_from_value(done.steps))
        write_record(folder, record.having(spec=done.spec, tags=conduct.tags))
    return take_in(store, store.directory(run_id))
