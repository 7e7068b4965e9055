"""Which shapes an engine is built for, input by input."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from trtbench.analysis.open_shapes import refuse_open, unknown_input, with_ones
from trtbench.domain.spec import BuildSpec, ShapeProfile, TensorSpec
from trtbench.errors import UsageError
from trtbench.units import text_from_shape

Ranges = dict[str, ShapeProfile]


def profiles_of(spec: BuildSpec, inputs: Sequence[TensorSpec]) -> list[Ranges]:
    """Settle the optimization profiles; none for a model whose shapes are all fixed."""
    known = {each.name: each for each in inputs}
    wanted = [spec.shapes, *({**spec.shapes, **each} for each in spec.more_profiles)]
    for ranges in wanted:
        for name, span in ranges.items():
            if name not in known:
                raise unknown_input(name, inputs)
            _check(known[name], span)
    dynamic = [each for each in inputs if not each.is_static]
    without = [each for each in dynamic if any(each.name not in ranges for ranges in wanted)]
    refuse_open(without, flag="--shape-opt")
    return [dict(ranges) for ranges in wanted] if dynamic else []


def _check(tensor: TensorSpec, span: ShapeProfile) -> None:
    for end, shape in (("min", span.min), ("opt", span.opt), ("max", span.max)):
        fits = len(shape) == len(tensor.shape) and all(
            dim is None or dim == given for dim, given in zip(tensor.shape, shape, strict=True)
        )
        if not fits:
            raise UsageError(
                f"the {end} shape of {tensor.name!r} does not fit the model",
                facts={"given": text_from_shape(shape), "model": text_from_shape(tensor.shape)},
                fix=f"--shape-{end} {shlex.quote(with_ones(tensor))}",
            )
