"""Compare the outputs of a sweep's artefacts with those of the model as it was given."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from trtbench.workflows.check.check import SettledSide, run_check
from trtbench.workflows.check.check_files import rows_of, write_check
from trtbench.workflows.check.evaluate import EvalSide
from trtbench.workflows.request.judging import CheckRequest
from trtbench.workflows.sweep.cache import Made, made_from_step
from trtbench.workflows.sweep.graph import SweepStep
from trtbench.workflows.sweep.judge import problems_of, step_of_sides
from trtbench.workflows.sweep.specs import arrays_of
from trtbench.workflows.sweep.steps import Workshop


def check_sides(
    step: SweepStep, reference: SettledSide, sides: Sequence[EvalSide], shop: Workshop
) -> Made:
    """Run all sides on the same inputs; what was compared before, and is the same, is taken."""
    step = step_of_sides(step, sides)
    return shop.cache.find(step) or _checked(step, reference, sides, shop)


def _checked(
    step: SweepStep, reference: SettledSide, sides: Sequence[EvalSide], shop: Workshop
) -> Made:
    began, problems = time.monotonic(), problems_of(sides)
    usable = {str(place): sides[place] for place, told in enumerate(problems) if told is None}
    made = msgspec.structs.replace(
        made_from_step(step), checks=(None,) * len(sides), problems=tuple(problems)
    )
    if not usable:
        return made
    request = CheckRequest(
        reference=reference[0].model.path,
        candidates=list(usable),  # called by their places, which tell them apart
        random=step.settings["count"],
        inputs=arrays_of(shop.matrix),
        limit=step.settings["count"],
        floor="off",
        output=shop.cache.folder(step),
    )
    settled = [reference, *((side.spec, side.python) for side in usable.values())]
    found = run_check(
        request, store=shop.store, config=shop.config, conduct=shop.conduct, sides=settled
    )
    failed = {each.model: each.reason for each in found.failed}
    passed = iter(found.candidates)
    made = msgspec.structs.replace(
        made,
        seconds=time.monotonic() - began,
        checks=tuple(
            rows_of(found, next(passed)) if str(place) in usable and str(place) not in failed
            else None
            for place in range(len(sides))
        ),
        problems=tuple(failed.get(str(place), told) for place, told in enumerate(problems)),
    )  # fmt: skip
    write_check(found, shop.cache.folder(step))
    return made if failed else shop.cache.keep(step, made)
