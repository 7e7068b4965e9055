"""What a network's numbers of classes mean: places among the categories of the data, or ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trtbench.analysis.detection_scores import Objects
from trtbench.domain.arrays import AnyArray
from trtbench.errors import InputError
from trtbench.tasks._box_truth import NOT_DONE, Truth
from trtbench.tasks._detection_pictures import SHOWN

NUMBERINGS = ("index", "from-one", "id", "coco")
COCO_UNUSED = (0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
"""Of the 91 numbers of COCO's classes those that its data does not have."""
COCO_IDS = tuple(number for number in range(91) if number not in COCO_UNUSED)


@dataclass(frozen=True, kw_only=True)
class Numbering:
    """One way to read the numbers of classes."""

    name: str
    places: Mapping[int, int]
    """The place among the categories of every number that has one."""


def numbering_of(
    rows: Sequence[AnyArray],
    truth: Truth,
    truths: Sequence[Objects],
    *,
    classes: int | None,
    asked: str | None,
    label: str,
) -> tuple[Numbering, str | None]:
    """Tell what numbers mean, by how many there are; by what is annotated, where that leaves two.

    ``rows`` are the objects of every image, [n, 6]. The second value is a note, where a reading
    that was not taken would do as well.
    """
    every = _numberings(truth.ids)
    if asked is not None:
        return _asked(asked, every, len(truth.ids)), None
    said = {int(number) for own in rows for number in np.unique(own[:, 5]) if number >= 0}
    if classes:
        fitting = [
            n for n in _by_count(classes, truth.ids, every) if not _says_lower(rows, every[n])
        ]
    else:
        fitting = [name for name, known in every.items() if said <= known.keys()]
    if not fitting:
        raise _other_classes(label, classes or max(said) + 1, len(truth.ids))
    right = {name: _agreement(rows, truths, every[name]) for name in fitting}
    # Numbers from 1 are rare: only where they cannot be places.
    likely = [name for name in fitting if name != "from-one" or "index" not in fitting]
    best = max(likely, key=lambda name: right[name])
    taken = every[best]
    others = [
        name for name in fitting
        if right[name] >= right[best] and any(every[name].get(n) != taken.get(n) for n in said)
    ]  # fmt: skip
    note = (
        f"{label}: its numbers of classes were taken for {best}; {' or '.join(others)} would do as "
        "well, and --class-map says which"
    )
    return Numbering(name=best, places=every[best]), note if others else None


def _numberings(ids: tuple[int, ...]) -> dict[str, dict[int, int]]:
    count = len(ids)
    every = {
        "index": {place: place for place in range(count)},
        "id": {id: place for place, id in enumerate(ids)},
        "from-one": {place + 1: place for place in range(count)},
    }
    if count == len(COCO_IDS):
        every["coco"] = {id: place for place, id in enumerate(COCO_IDS)}
    return every


def _asked(asked: str, every: Mapping[str, dict[int, int]], count: int) -> Numbering:
    if asked not in every:
        raise InputError(f"the data has {count} classes, and COCO 80", fix="--class-map index")
    return Numbering(name=asked, places=every[asked])


def _by_count(classes: int, ids: tuple[int, ...], every: Mapping[str, dict[int, int]]) -> list[str]:
    """List readings that fit a network of so many classes."""
    if classes == len(ids):
        return ["index"]
    if ids != tuple(range(len(ids))):
        return ["id"] if classes > ids[-1] else []
    return ["coco"] if "coco" in every and classes == COCO_IDS[-1] + 1 else []


def _says_lower(rows: Sequence[AnyArray], places: Mapping[int, int]) -> bool:
    """Say whether a number is likely said that is below all of this reading: it is another one."""
    likely = (own[own[:, 4] >= SHOWN, 5] for own in rows)
    return any((numbers < min(places)).any() for numbers in likely)


def _agreement(
    rows: Sequence[AnyArray], truths: Sequence[Objects], places: Mapping[int, int]
) -> int:
    """Tell how many classes that were likely said in an image are there, over all images."""
    total = 0
    for own, truth in zip(rows, truths, strict=True):
        likely = own[own[:, 4] >= SHOWN, 5]
        total += len({places.get(int(number)) for number in likely} & {*truth.classes.tolist()})
    return total


def _other_classes(label: str, network: int, data: int) -> InputError:
    told = {"network": network, "data": data}
    return InputError(
        f"{label} and the data do not have the same classes",
        facts={**told, "note": NOT_DONE} if network == data + 1 else told,
        fix="--class-map index, if the first ones are the same; --decoder, if the outputs "
        "were taken for others",
    )
