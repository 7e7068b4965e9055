"""Settles the dynamic dimensions of an ONNX file by its metadata, its operators, then by trying."""

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path

from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, first_line
from trtbench.core.spec import ModelRef, TensorSpec, Value
from trtbench.core.units import text_from_shape
from trtbench.host.cache import cache_folder
from trtbench.host.files import write_output
from trtbench.host.process import guarded
from trtbench.models import inputs as model_inputs
from trtbench.models.identity import kept_value, known_outline, sha256_of
from trtbench.models.onnx_outline import ModelOutline
from trtbench.version import __version__

SECONDS, LARGEST_BYTES = 15.0, 1 << 29  # a larger file is not loaded just to try sizes
_SIDES = (
    (48, 320), (32, 320), (64, 256), (32, 100), (640, 640), (256, 256), (512, 512), (320, 320),
    (32, 32), (28, 28), (64, 64), (96, 96), (112, 112), (128, 128), (160, 160), (192, 192),
    (299, 299), (384, 384), (416, 416), (448, 448), (800, 800), (1024, 1024),
)  # fmt: skip
_LENGTHS = (512, 576, 16_000, 1024, 256, 77, 64, 80, 3000, 100, 48_000, 32, 16, 8, 4, 2, 1)
_EXPECTED = re.compile(r"Expected: (\d+)|\b(\d+) by \d+|within the inclusive range \[-(\d+),")
"""A size that ONNX Runtime names where a model fails on another one."""


class Settled(Value, frozen=True, kw_only=True):
    """The inputs that a model is run on."""

    tensors: tuple[TensorSpec, ...]
    values: dict[str, str]  # of inputs that are not random, as in `--input`
    note: str | None  # on what was assumed, and why

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the record: sizes that were assumed, and values that are not random."""
        fed = ", ".join(f"{name} {value}" for name, value in self.values.items())
        name = shlex.quote(next(iter(self.values), ""))
        values = f"input values: {fed} (change with --input {name}=VALUE)" if fed else None
        return tuple(filter(None, (self.note, values)))


class _Found(Value, frozen=True, kw_only=True):
    """What a search found: no shapes if the model runs on none that was tried."""

    shapes: dict[str, tuple[int, ...]] = {}
    values: dict[str, str] = {}
    tried: tuple[str, ...] = ()
    reason: str = ""


def settle(
    tensors: Sequence[TensorSpec],
    model: ModelRef,
    *,
    batch: bool = True,
    values: Mapping[str, str] | None = None,
) -> Settled:
    """Return inputs whose dynamic dimensions have sizes that the model runs on, and their values.

    Without ``batch`` the note leaves out a leading one. ``values`` are those of the user.
    """
    outline, given, why = known_outline(model), values or {}, "usual sizes"
    sides, fixed = (outline.sides, outline.fixed) if outline else (None, {})
    why = "image size of its metadata" if sides else why
    shaped = [model_inputs.shape_of_value(each, given.get(each.name)) for each in tensors]
    whole = model_inputs.with_assumed_shapes(shaped, sides, fixed=fixed)
    if whole != model_inputs.with_assumed_shapes(shaped, sides):
        why = "as its operators require"
    if any(each.usual for each in tensors):
        why = "as the engine is optimized for"
    elif shaped and outline and model.format == "onnx":
        found = _search(Path(model.path), outline, shaped, given)
        if not found.shapes:
            opened = (each for each in shaped if not each.is_static)
            flags = (f"--shape {shlex.quote(model_inputs.with_sizes(each))}" for each in opened)
            raise InputError(
                f"{model.name} runs on none of the {len(found.tried)} input shapes that were tried",
                facts={"tried": "; ".join(found.tried[:6]), "reason": found.reason},
                fix=f"{' '.join(flags)} with numbers for the letters",
            )
        whole = tuple(each.having(shape=found.shapes[each.name]) for each in whole)
        if len(found.tried) > 1:
            why = f"it does not run on {found.tried[0]}"
        given = {**found.values, **given}
    fed = {**model_inputs.usual_values(whole, outline), **given}
    note = model_inputs.assumption(shaped, whole, why, batch=batch)
    return Settled(tensors=whole, values=fed, note=note)


def _search(
    path: Path, outline: ModelOutline, tensors: Sequence[TensorSpec], values: Mapping[str, str]
) -> _Found:
    """Return the first shapes and values on which ONNX Runtime runs the model on the CPU.

    Integers that nothing suggests are tried as random numbers, 1 and 0: they may be rows, sizes,
    axes or positions. Results are kept in the cache for the content of the file. A model that
    cannot be loaded, or that takes too long, is not judged: the usual shapes are taken.
    """
    assume = partial(model_inputs.with_assumed_shapes, tensors, fixed=outline.fixed)
    waiting = [assume(outline.sides)]
    if assume((1, 2), 3) != assume((4, 5), 6):  # more than the batch is dynamic
        pairs = product((outline.sides, *_SIDES), (None, *_LENGTHS))
        waiting = list(dict.fromkeys(assume(*each) for each in pairs))
    known = {**model_inputs.usual_values(waiting[0], outline), **values}
    free = [t for t in waiting[0] if t.dtype.startswith(("int", "uint")) and t.name not in known]
    few = [each for each in free if len(each.shape) < 2]  # parameters; others may be data
    ways = [{t.name: x for t in free} for x in ("0..99", "0..9", "0..1", "1", "0") if free]
    ways = [*ways[3:], {}] if few else [{}, *ways]
    guess = _Found(shapes=shapes_of(waiting[0]), values=ways[0])
    single = len(waiting) == 1  # only the batch is dynamic, if anything
    if (single and len(ways) == 1) or path.stat().st_size > LARGEST_BYTES:
        return guess
    key = repr((__version__, sha256_of(path), tensors, ways, sorted(values.items())))
    kept = cache_folder() / "shapes" / f"{sha256(key.encode()).hexdigest()}.json"
    if (before := kept_value(kept, _Found)) is not None:
        return before

    def search() -> _Found | None:
        import onnxruntime

        began, tried, reasons = time.monotonic(), list[str](), list[str]()
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        while waiting and time.monotonic() - began < SECONDS - 1:
            settled = waiting.pop(0)
            shown = ", ".join(text_from_shape(each.shape) for each in settled if each.shape)
            if shown in tried:
                continue
            tried.append(shown)
            usual = model_inputs.usual_values(settled, outline)
            for way in ways:
                drawn = model_inputs.random_inputs(settled, values={**usual, **way, **values})
                try:
                    session.run(None, dict(drawn))
                except Exception as problem:  # of several types, without a common base
                    reasons.append(first_line(problem))
                    named = [int(max(each)) for each in _EXPECTED.findall(str(problem))]
                    waiting[:0] = [assume(outline.sides, size) for size in named if size > 1]
                else:
                    return _Found(shapes=shapes_of(settled), values=way, tried=tuple(tried))
        if single or any(map(model_inputs.NO_SUCH_ROW.search, reasons)):
            return guess  # values are wrong, not shapes
        return None if waiting else _Found(tried=tuple(tried), reason=reasons[0])

    with suppress(Exception):  # of ONNX Runtime, of the disk, or because it takes too long
        found = guarded(search, what="the model", seconds=SECONDS)
        if found is not None:
            guess = found
            write_output(kept, json_from_value(found))
    return guess


def shapes_of(tensors: Sequence[TensorSpec]) -> dict[str, tuple[int, ...]]:
    """Return the sizes of inputs by name."""
    return {t.name: tuple(dim for dim in t.shape if isinstance(dim, int)) for t in tensors}
