"""Calibrates INT8 with the calibrators of TensorRT up to 10."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.build.builders._plan import BuildWork
from trtbench.build.builders._shapes import Ranges
from trtbench.build.quantize_data import RANDOM, calibration_items
from trtbench.domain.spec import ShapeProfile, TensorSpec
from trtbench.errors import InputError, UsageError
from trtbench.host.tensorrt_calibrate import CacheKey, CalibrationData, ScaleCache, make_calibrator
from trtbench.host.tensorrt_config import make_profile
from trtbench.host.tensorrt_network import inputs_of
from trtbench.models.identity import model_ref

if TYPE_CHECKING:
    from tensorrt import IBuilder, IBuilderConfig, IInt8Calibrator, INetworkDefinition


class Calibration:
    """A calibrator at work; what it did is told when the build is over."""

    def __init__(
        self, work: BuildWork, calibrator: IInt8Calibrator, cache: ScaleCache, *, items: int
    ) -> None:
        self._work = work
        self._calibrator = calibrator
        self._cache = cache
        self._items = items

    def finish(self) -> None:
        """Raise what went wrong inside TensorRT's calls, and say where the scales came from."""
        problem = self._calibrator.problem
        if problem is not None:
            raise InputError("calibration failed", facts={"reason": problem}) from problem
        work, used = self._work, self._cache.used
        work.facts["calibration"] = work.spec.calibration_method
        if self._items:  # nobody knows how many the scales of a file come from
            work.facts["calibration_items"] = self._items
        work.facts["calibration_cache"] = "hit" if used else "new"
        source = f"scales of {self._cache.path}" if used else f"{self._items} items"
        work.notes.append(f"calibrated INT8 ({work.spec.calibration_method}) with {source}")
        if work.spec.calibration == RANDOM:
            work.notes.append("calibrated with random data: no evidence of accuracy")


def attach_calibrator(
    work: BuildWork,
    builder: IBuilder,
    config: IBuilderConfig,
    network: INetworkDefinition,
    profiles: list[Ranges],
) -> Calibration | None:
    """Attach a calibrator where the plan needs one."""
    if not work.plan.calibrate:
        return None
    inputs = inputs_of(network)
    data = _data(work, inputs, profiles)
    cache = _cache(work, data)
    calibrator = make_calibrator(
        work.trt,
        algorithm=work.spec.calibration_method,
        cache=cache,
        data=data,
        tell=lambda done, all_: work.tell(0.0, f"calibrating, batch {done + 1} of {all_}"),
    )
    config.int8_calibrator = calibrator
    if data is not None and profiles:
        fixed = {name: ShapeProfile(min=s, opt=s, max=s) for name, s in data.shapes.items()}
        config.set_calibration_profile(make_profile(builder, network, fixed))
    items = data.batches * data.batch if data is not None else 0
    return Calibration(work, calibrator, cache, items=items)


def _data(
    work: BuildWork, inputs: tuple[TensorSpec, ...], profiles: list[Ranges]
) -> CalibrationData | None:
    if work.spec.calibration is None:
        return None
    ranges = profiles[0] if profiles else {}
    shapes = {
        each.name: ranges[each.name].opt
        if each.name in ranges
        else tuple(int(dim or 1) for dim in each.shape)
        for each in inputs
    }
    items = calibration_items(work.spec, inputs, shapes=shapes)
    return CalibrationData(items.rows, constant=items.constant, shapes=shapes)


def _cache(work: BuildWork, data: CalibrationData | None) -> ScaleCache:
    """Find the cache of this very calibration; one that was named without data is taken as is."""
    spec = work.spec
    given = spec.calibration_cache
    if data is None:
        if given is None or not Path(given).is_file():
            raise UsageError(
                f"there is no calibration cache {given}", fix="--calibration DATA.npz makes one"
            )
        return ScaleCache(Path(given), key=None)
    key = CacheKey(
        model=spec.model.sha256 or model_ref(Path(spec.model.path)).sha256 or "",
        data=data.sha256(),
        batch=data.batch,
        algorithm=spec.calibration_method,
        tensorrt=work.abilities.version,
        prepared=spec.prepared,
    )
    return ScaleCache(Path(given) if given else _default_path(key), key=key)


def _default_path(key: CacheKey) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = f"{key.model[:12]}-{key.data[:12]}-b{key.batch}-{key.algorithm}-{key.tensorrt}.cache"
    return root / "trtbench" / "calibration" / name
