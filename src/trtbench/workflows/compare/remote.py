"""Have two sides measured in turn on another machine, and keep both as runs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from trtbench.domain.result import Run
from trtbench.domain.spec import RunSpec
from trtbench.errors import StoreError
from trtbench.executors import Partner
from trtbench.models.identity import demand_unchanged
from trtbench.store.directory import new_id, read_record, write_record
from trtbench.store.store import Store
from trtbench.workflows.compare.sides import Sides
from trtbench.workflows.measure.luggage import Luggage
from trtbench.workflows.measure.remote import (
    needs_of,
    request_from_spec,
    send,
    take_in,
    with_spec,
)
from trtbench.workflows.request.comparing import PairFields
from trtbench.workflows.request.conduct import Conduct


def pair_elsewhere(
    sides: Sides, *, store: Store, asked: PairFields, conduct: Conduct
) -> tuple[Run, Run]:
    """Have two sides measured in turn on one machine, and store both."""
    assert conduct.executor is not None
    luggage = Luggage()
    other = _partner(sides, asked, luggage)
    first_side = replace(conduct, python=sides.pythons[0])
    request = request_from_spec(sides.baseline, new_id(), first_side, luggage)
    gpu = request.needs.gpu or needs_of(sides.candidate).gpu
    request = request.having(
        partner=other,
        limit_s=None,  # a hung launch ends by itself; their number is not known before
        needs=request.needs.having(gpu=gpu),
    )
    with store.scratch() as folder:
        send(request, conduct.executor, folder, conduct.listen)
        first = _keep_side(folder / "0", sides.baseline, store)
        return first, _keep_side(folder / "1", sides.candidate, store)


def _partner(sides: Sides, asked: PairFields, luggage: Luggage) -> Partner:
    """Describe the second side, and how often the two take turns."""
    demand_unchanged(sides.candidate.model)
    luggage.python = sides.pythons[1]
    return Partner(
        spec=luggage.spec(sides.candidate),
        python=sides.pythons[1],
        launches=asked.launches,
        most_launches=asked.most_launches,
        pairs=asked.pairs,
        mode=asked.mode,
        margin=asked.margin_part,
        seed=asked.seed,
    )


def _keep_side(source: Path, spec: RunSpec, store: Store) -> Run:
    record = read_record(source)
    if record.id in store.index.ids():  # its entry would take the other's place
        raise StoreError("what came back is a run that is here already", facts={"run": record.id})
    ours = spec.having(launches=record.spec.launches)
    with store.new_run(record.id) as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        write_record(folder, with_spec(record, ours))
    return take_in(store, store.directory(record.id))
