"""What a number is of, told by what ran: batch and precision. What was asked for is no evidence.

What nobody knows is ``None``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trtbench.domain.spec import batch_from_shapes

Shape = Sequence[int | str | None]

LOWEST_FIRST = (
    "int2", "fp4", "int4", "fp8", "int8", "int16", "fp16", "half", "bf16", "tf32", "fp32", "fp64",
)  # fmt: skip
"""Order in which the types of a mixed precision are named; FP32 beside others goes unsaid."""

LEAST_SIDE, MOST_ASPECT = 8, 4
"""What images are rarely smaller or longer than; sequences are."""
_FULL = frozenset({"fp32", "tf32"})
_SPELLINGS = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float": "fp32", "float8": "fp8",
}  # fmt: skip


def batch_that_ran(
    shapes: Iterable[Shape], *, asked: int | None, told: object, outputs: Iterable[Shape] = ()
) -> int | None:
    """Count the items of a query: as the program that ran it says, else by its inputs.

    A program says 1 of every explicit batch, so its 1 comes last. Inputs that differ in their
    leading dimension leave the choice open; one that has the size asked for settles it.
    """
    items = told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else None
    if items is not None and items > 1:
        return items
    ran = list(shapes)
    if asked is not None and any(shape and shape[0] == asked for shape in ran):
        return asked
    size = batch_from_shapes(ran)
    return size if size is not None and _counts_items(size, ran, list(outputs)) else items


def _counts_items(size: int, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> bool:
    """Tell a batch from channels or samples: outputs have as many items, next to their front.

    Four dimensions are images with a batch in front; fewer may be a single one without, and colours
    in front of an output that is an image again tell nothing.
    """
    if all(map(may_be_colours, inputs)):
        outputs = [shape for shape in outputs if not may_be_colours(shape)]
        if not outputs:
            return False
    fronts = [shape[:2] for shape in outputs]
    untold = any(not isinstance(dim, int) or dim < 0 for front in fronts for dim in front)
    bare = size > 1 and max(map(len, inputs)) < len("NCHW")
    return not bare or not fronts or untold or any(size in front for front in fronts)


def may_be_colours(shape: Shape) -> bool:
    """Tell whether a shape is one of a single image, colours first: 3 x height x width."""
    sides = [dim for dim in shape[1:] if isinstance(dim, int)]
    likely = len(shape) == len(sides) + 1 == len("CHW") and shape[0] == len("RGB")
    return likely and min(sides) >= LEAST_SIDE and max(sides) <= MOST_ASPECT * min(sides)


def precision_that_ran(told: object, *, asked: str | None) -> str | None:
    """Name the precision that is on record, by the name it was asked for where the two agree."""
    types = types_of(told)
    if not types:
        return None
    if asked is not None and fits(asked, types):
        return asked
    return name_of(types)


def types_of(told: object) -> frozenset[str]:
    """Take a precision as somebody wrote it apart: ``FP32+FP16`` allows two types."""
    words = str(told).lower().replace(",", "+").split("+") if told is not None else ()
    found = (_SPELLINGS.get(word.strip(), word.strip()) for word in words)
    return frozenset(word for word in found if word in LOWEST_FIRST or word == "best")


def fits(asked: str, types: frozenset[str]) -> bool:
    """Tell whether what ran is what a precision means: the lowest type, and above it any."""
    if asked == "best":
        return "best" in types or len(types - _FULL) > 1
    if asked in _FULL:
        return types <= _FULL and (asked == "tf32" or "tf32" not in types or "fp32" in types)
    below = LOWEST_FIRST[: LOWEST_FIRST.index(asked)] if asked in LOWEST_FIRST else ()
    return asked in types and not types.intersection(below)


def may_be_alike(one: str | None, other: str | None) -> bool:
    """Tell whether two precisions are one as far as anybody knows: by their lowest types."""
    return len({lowest_type(one), lowest_type(other)} - {None}) < 2


def lowest_type(precision: str | None) -> str | None:
    """Name the lowest type of a precision, TF32 as FP32; ``None`` when nobody knows."""
    types = types_of(precision)
    lowest = name_of(types).split("+")[0] if types else None
    return "fp32" if lowest == "tf32" else lowest


def name_of(types: frozenset[str]) -> str:
    """Write the types that ran, the lowest first: ``int8+fp16``; FP32 and FP64 only alone."""
    if "best" in types:
        return "best"
    types = types - {"fp64"} or types
    lower = [name for name in LOWEST_FIRST if name in types and name not in _FULL]
    full = [name for name in ("tf32", "fp32") if name in types]
    return "+".join(lower) or full[0]
