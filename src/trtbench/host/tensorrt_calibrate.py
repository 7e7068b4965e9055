"""INT8 calibrators of TensorRT up to 10, with a cache that knows what it was made from.

The scales of a cache are worth something only for the same model, data, batch and algorithm. They
are kept beside the cache in ``<cache>.json``, and a cache made from something else is not used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from trtbench.domain.arrays import AnyArray
from trtbench.domain.codec import json_from_value
from trtbench.domain.result import Scalar
from trtbench.domain.spec import ModelRef, Value
from trtbench.errors import InputError, UsageError
from trtbench.host.tensorrt_device import DeviceArray

if TYPE_CHECKING:
    from tensorrt import IHostMemory, IInt8Calibrator

Arrays = Mapping[str, AnyArray]

BASES = {"entropy2": "IInt8EntropyCalibrator2", "minmax": "IInt8MinMaxCalibrator"}


class CacheKey(Value, frozen=True, kw_only=True):
    """What scales depend on."""

    model: str
    """sha256 of the ONNX file."""
    data: str
    """sha256 of the arrays as they are fed."""
    batch: int
    algorithm: str
    tensorrt: str
    prepared: dict[str, Scalar] = {}
    """How a task prepared the images that the arrays were made of."""


class CalibrationData:
    """Arrays by input name, cut into batches of the shapes that the network is calibrated with."""

    def __init__(
        self, rows: Arrays, *, constant: Arrays, shapes: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.shapes = dict(shapes)
        self.constant = dict(constant)
        self.arrays = {name: _fitting(rows, name, shapes[name]) for name in rows}
        self.batch = shapes[next(iter(rows))][0]
        self.batches = min(len(values) for values in self.arrays.values()) // self.batch
        if not self.batches:
            items = min(len(values) for values in self.arrays.values())
            raise InputError(
                "there are fewer items to calibrate with than one batch holds",
                facts={"items": items, "batch": self.batch},
                fix="give more data, or a smaller --shape-opt",
            )

    def rows(self, index: int) -> dict[str, AnyArray]:
        part = slice(index * self.batch, (index + 1) * self.batch)
        mine = {name: np.ascontiguousarray(values[part]) for name, values in self.arrays.items()}
        return {**mine, **self.constant}

    def sha256(self) -> str:
        digest = hashlib.sha256()
        fed = {name: each[: self.batches * self.batch] for name, each in self.arrays.items()}
        for name, values in sorted({**fed, **self.constant}.items()):
            digest.update(f"{name} {values.dtype} {values.shape}".encode())
            digest.update(np.ascontiguousarray(values).data)
        return digest.hexdigest()


def _fitting(arrays: Arrays, name: str, shape: tuple[int, ...]) -> AnyArray:
    values = arrays[name]
    if tuple(values.shape[1:]) != tuple(shape[1:]):
        raise InputError(
            f"the data for {name!r} do not have the shape of the input",
            facts={"data": values.shape, "input": shape},
        )
    return values


class ScaleCache:
    """A file of scales that is used only when its key is the one of this build."""

    def __init__(self, path: Path, *, key: CacheKey | None) -> None:
        self.path = path
        self.key = key
        self.used = False
        self.written = False

    @property
    def _beside(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def read(self) -> bytes | None:
        """Find the scales; none when they were made from something else, or nobody knows what."""
        if not self.path.is_file() or (self.key is not None and self.made_from() != self.key):
            return None
        self.used = True
        return self.path.read_bytes()

    def made_from(self) -> CacheKey | None:
        try:
            return msgspec.json.decode(self._beside.read_bytes(), type=CacheKey)
        except (OSError, msgspec.MsgspecError):
            return None

    def write(self, data: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for path, content in ((self.path, data), (self._beside, json_from_value(self.key))):
            partial = path.with_name(f"{path.name}.part")
            partial.write_bytes(content)
            partial.replace(path)
        self.written = True


def preparation_of_scales(path: Path, model: ModelRef) -> dict[str, Scalar]:
    """Tell how the images were prepared that a cache comes from; another model's is refused.

    A cache that nobody wrote down the origin of is taken as it is, and tells nothing.
    """
    made = ScaleCache(path, key=None).made_from()
    if made is not None and model.sha256 is not None and made.model != model.sha256:
        raise UsageError(
            f"the scales in {path.name} were made for another model",
            facts={"made for": f"sha256 {made.model[:12]}",
                   model.name: f"sha256 {model.sha256[:12]}"},
            fix="--calibration DATA.npz makes new ones",
        )  # fmt: skip
    return made.prepared if made is not None else {}


def make_calibrator(
    trt: ModuleType,
    *,
    algorithm: str,
    cache: ScaleCache,
    data: CalibrationData | None,
    tell: Callable[[int, int], None],
) -> IInt8Calibrator:
    """Make a calibrator of TensorRT's own kind; without data it only hands out the cache."""
    base = getattr(trt, BASES[algorithm])
    arrays: dict[str, DeviceArray] = {}

    class Calibrator(base):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            base.__init__(self)
            self.next = 0
            self.problem: Exception | None = None
            """What went wrong in a call from native code, which must not see an exception."""

        def get_batch_size(self) -> int:
            return data.batch if data is not None else 1

        def get_batch(self, names: list[str], *_: object) -> list[int] | None:
            if data is None or self.next >= data.batches:
                return None
            try:
                rows = data.rows(self.next)
                tell(self.next, data.batches)
                self.next += 1
                return [_on_device(arrays, name, rows[name]) for name in names]
            except Exception as problem:
                self.problem = problem
                return None

        def read_calibration_cache(self, *_: object) -> bytes | None:
            return cache.read()

        def write_calibration_cache(self, scales: IHostMemory, *_: object) -> None:
            try:
                cache.write(bytes(scales))
            except OSError as problem:
                self.problem = problem

    return Calibrator()


def _on_device(arrays: dict[str, DeviceArray], name: str, values: AnyArray) -> int:
    if name not in arrays:
        arrays[name] = DeviceArray(values.nbytes)
    arrays[name].fill(values)
    return arrays[name].pointer
