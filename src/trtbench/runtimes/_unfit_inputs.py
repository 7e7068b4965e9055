"""What to do when a model loads and then does not run on its inputs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from trtbench.analysis.inputs import TOKEN_LIMIT
from trtbench.analysis.open_shapes import with_ones
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError, first_line
from trtbench.units import text_from_shape

_NO_SUCH_ROW = re.compile(
    r"out of (data )?bounds|index out of range|out of bounds for|device-side assert", re.IGNORECASE
)


def unfit_inputs(
    problem: Exception, inputs: Sequence[TensorSpec], *, drawn: bool, ranged: bool = False
) -> InputError:
    """Say that a model does not run on its inputs, what they were, and what would help.

    ``drawn`` at random, and not read from a file; ``ranged`` where --range says how far they go.
    """
    reason = first_line(problem)
    shown = ", ".join(f"{each.name} {text_from_shape(each.shape)} {each.dtype}" for each in inputs)
    facts = {"reason": reason, "inputs": f"{shown}{', drawn at random' if drawn else ''}"}
    flags = " ".join(f"--shape {shlex.quote(with_ones(each))}" for each in inputs)
    if not drawn:
        fix = f"data that the model takes, or other shapes: {flags}"
    elif _NO_SUCH_ROW.search(reason) and any(_counts(each) for each in inputs):
        facts["integers"] = f"0 to {TOKEN_LIMIT - 1}, where the model does not tell its rows"
        fix = "--inputs FILE (.npz) with numbers that the model has rows for"
        fix = f"--range 0:99 (the last row), or {fix}" if ranged else fix
    else:
        fix = f"--inputs FILE (.npz) with what the model takes, or other shapes: {flags}"
    return InputError("the model does not run on these inputs", facts=facts, fix=fix)


def _counts(tensor: TensorSpec) -> bool:
    return tensor.dtype.startswith(("int", "uint"))
