"""A pass that changes between two shapes, or profiles, after the measurement."""

from __future__ import annotations

import time
from collections.abc import Callable

from trtbench.analysis.switching import facts_from_blocks
from trtbench.domain.result import Scalar
from trtbench.domain.spec import InputSpec, RunSpec, TensorSpec
from trtbench.errors import InputError, UsageError
from trtbench.runtimes._session import Session, resolve_inputs, shapes_of_batch
from trtbench.units import text_from_shape

BLOCK = 4
"""Queries of one shape in a row: the one after the change, and those that stay."""
MOST, LEAST, ENOUGH_S = 30, 6, 10.0
"""Changes there and back; six are the fewest that an interval of a median needs."""


Shapes = dict[str, tuple[int, ...]]


def places(
    session: Session, spec: RunSpec, settled: tuple[TensorSpec, ...]
) -> tuple[Shapes, Shapes, int]:
    """Settle the shapes here and there, and the profile there; refuse what is no change."""
    here = {each.name: tuple(int(dim or 0) for dim in each.shape) for each in settled}
    there = {**here, **spec.switch_shapes}
    profile = spec.profile_index if spec.switch_profile is None else spec.switch_profile
    if spec.switch_profile is not None and not session.has_profiles:
        raise UsageError(
            f"the runtime {spec.runtime} has no optimization profiles",
            fix="leave --switch-profile out",
        )
    if there == here and profile == spec.profile_index:
        raise UsageError(
            "the shape to change to is the one that was measured",
            facts={name: text_from_shape(shape) for name, shape in here.items()},
            fix="give --switch-shape another shape, or --switch-profile another profile",
        )
    try:
        shapes_of_batch(*_at(session, spec, there))
    except InputError as problem:  # an input, or a shape of it, that there is not
        problem.fix = problem.fix and problem.fix.replace("--shape", "--switch-shape")
        raise
    return here, there, profile


def switch_facts(
    session: Session, spec: RunSpec, settled: tuple[TensorSpec, ...]
) -> dict[str, Scalar]:
    """Run blocks of both in turn, and tell what the first query of each costs."""
    here, there, profile = places(session, spec, settled)
    queries = {
        "there": _query(session, spec, there, profile=profile),
        "back": _query(session, spec, here, profile=spec.profile_index),
    }
    blocks: dict[str, list[list[float]]] = {direction: [] for direction in queries}
    until = time.perf_counter() + ENOUGH_S
    for number in range(MOST + 1):
        for direction, query in queries.items():
            times = [_timed(query) for _ in range(BLOCK)]
            if number:  # the first of both load what later ones find
                blocks[direction].append(times)
        if number >= LEAST and time.perf_counter() >= until:
            break
    return facts_from_blocks(_words(here, there, profile, spec), blocks)


def _query(
    session: Session, spec: RunSpec, shapes: Shapes, *, profile: int
) -> Callable[[], object]:
    asked = _at(session, spec, shapes)
    return session.query(resolve_inputs(*asked, limits=session.index_limits)[1], profile=profile)


def _at(session: Session, spec: RunSpec, shapes: Shapes) -> tuple[tuple[TensorSpec, ...], RunSpec]:
    """Ask for these shapes of the inputs, with values at random."""
    inputs = InputSpec(seed=spec.inputs.seed)
    asked = spec.having(shapes=shapes, batch=None, inputs=inputs)
    tensors = session.inputs
    if session.free_shapes:
        tensors = tuple(t.having(shape=shapes[t.name]) for t in tensors)
    return tensors, asked


def _timed(query: Callable[[], object]) -> float:
    before = time.perf_counter_ns()
    query()
    return (time.perf_counter_ns() - before) * 1e-9


def _words(here: Shapes, there: Shapes, profile: int, spec: RunSpec) -> str:
    """Name what changes; the name of an only input says nothing."""
    changed = [
        text_from_shape(shape) if len(there) == 1 else f"{name} {text_from_shape(shape)}"
        for name, shape in there.items()
        if shape != here[name]
    ]
    changed += [f"profile {profile}"] if profile != spec.profile_index else []
    return ", ".join(changed)
