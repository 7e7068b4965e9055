"""A decoder that the user wrote: ``--decoder FILE.py:FUNCTION`` or ``package.module:function``."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from trtbench import boundary
from trtbench.domain.arrays import AnyArray
from trtbench.errors import InputError, UsageError
from trtbench.tasks._candidates import Candidates, Detections, Suggested
from trtbench.units import text_from_shape


@dataclass(frozen=True, kw_only=True)
class DecodedImage:
    """What a decoder is told about one image."""

    width: int
    height: int
    input_width: int
    input_height: int


Decode = Callable[[dict[str, AnyArray], list[DecodedImage]], Sequence[AnyArray]]


def found_by_hook(batch: Detections) -> Suggested:
    """Ask the user's function for rows: x0, y0, x1, y1 in the input's pixels, score, class."""
    name = str(batch.settings["decoder"])
    high, wide = batch.target
    pictures = [
        DecodedImage(
            width=item.pixels.shape[1], height=item.pixels.shape[0], input_width=wide,
            input_height=high,
        )
        for item in batch.items
    ]  # fmt: skip
    try:
        told = [np.asarray(rows, np.float64).reshape(-1, 6) for rows in
                load_function(name)(dict(batch.arrays), pictures)]  # fmt: skip
    except (InputError, UsageError):
        raise
    except Exception as problem:  # a user's function may raise anything
        raise InputError(
            f"the decoder {name} failed on these outputs",
            facts={"reason": f"{type(problem).__name__}: {problem}", **{
                f"output {key}": text_from_shape(array.shape)
                for key, array in batch.arrays.items()
            }},
            fix="it returns an array [n, 6] per image: x0, y0, x1, y1, score, class",
        ) from None  # fmt: skip
    if len(told) != len(batch.items):
        raise InputError(
            f"the decoder {name} returned {len(told)} arrays for {len(batch.items)} images"
        )
    images = [Candidates(boxes=r[:, :4], scores=r[:, 4], labels=r[:, 5]) for r in told]
    return Suggested(images=images, fractions=False, suppressed=True)


@functools.lru_cache(maxsize=1)
def load_function(name: str) -> Decode:
    """Import what a name says; a file must be the user's own, as settings must."""
    place, _, function = name.rpartition(":")
    try:
        module = (
            _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        )
        found: Decode = getattr(module, function)
    except UsageError:
        raise
    except Exception as problem:  # whatever the file itself raises when it is run
        raise UsageError(
            f"--decoder {name} cannot be loaded",
            facts={"reason": f"{type(problem).__name__}: {problem}"},
            fix="--decoder FILE.py:FUNCTION",
        ) from None
    return found


def _from_file(path: Path) -> ModuleType:
    try:
        reason = boundary.stranger(path)
    except OSError as problem:
        raise UsageError(f"{path} cannot be read", facts={"reason": problem.strerror}) from None
    if reason is not None:
        raise UsageError(
            f"{boundary.clean_line(str(path))} is not yours, and is not run",
            facts={"reason": reason, "it can": "do whatever you can"},
            fix="copy it to a folder of your own, after reading it",
        )
    spec = importlib.util.spec_from_file_location(f"trtbench_decoder_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
