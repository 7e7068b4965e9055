"""Do one step of a sweep: export, quantize or build, through their workflows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trtbench.build.onnx_file import load_onnx
from trtbench.build.onnx_read import input_specs
from trtbench.build.quantize_data import settled_items
from trtbench.domain.spec import ShapeProfile, TensorSpec
from trtbench.errors import InputError
from trtbench.store.store import Store
from trtbench.workflows.make.build import build_spec, run_build
from trtbench.workflows.make.export import export_spec, run_export
from trtbench.workflows.make.quantize import Data, quant_spec, run_quantize
from trtbench.workflows.request.choice import first_choice
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.making import (
    BuildRequest,
    ExportRequest,
    QuantizeRequest,
    build_settings,
)
from trtbench.workflows.sweep.cache import Cache, Made, made_from_file
from trtbench.workflows.sweep.content import prepares, preparing_of
from trtbench.workflows.sweep.graph import SweepStep
from trtbench.workflows.sweep.matrix import Matrix
from trtbench.workflows.sweep.plan import SweepPlan
from trtbench.workflows.sweep.shapes import Shapes


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Where and with what steps are done."""

    store: Store
    config: Config
    cache: Cache
    matrix: Matrix
    conduct: Conduct


def do_step(step: SweepStep, source: Path | str, shop: Workshop, plan: SweepPlan) -> Made:
    """Do a step, or take what was made before; whatever goes wrong is raised.

    What was made of something else than the plan is of is not kept.
    """
    found = shop.cache.find(step)
    if found is not None:
        return found
    began = time.monotonic()
    folder = shop.cache.folder(step)
    make = {"export": _export, "quantize": _quantize, "build": _build}[step.kind]
    file, notes = make(step, source, folder, shop)
    plan.demand_same(step.source, shop.matrix.calibration)
    made = made_from_file(step, file, seconds=time.monotonic() - began, notes=notes)
    return shop.cache.keep(step, made)


Product = tuple[Path, tuple[str, ...]]


def _export(step: SweepStep, source: Path | str, folder: Path, shop: Workshop) -> Product:
    loading = step.settings["loading"]
    request = ExportRequest(
        source=source,
        output=folder / f"{step.network}.onnx",
        input_shapes=step.settings["inputs"],
        weights=loading.get("weights", "default"),
        factory=loading.get("factory"),
        trust=loading.get("trust") == "on",
        seed=int(loading.get("seed", 0)),
    )
    spec = export_spec(request)
    sidecar = run_export(spec, conduct=_conduct(shop, first_choice("torch")))
    return Path(spec.output), sidecar.notes


def _quantize(step: SweepStep, source: Path | str, folder: Path, shop: Workshop) -> Product:
    precision = step.settings["precision"]
    request = QuantizeRequest(
        model=source,
        precision=precision,
        output=folder / f"{step.network}.{precision}.onnx",
        keep_io=step.settings["keep_io"],
    )
    spec = quant_spec(request)
    calibrated = spec.via != "cast"
    data = Data(
        calibration=(shop.matrix.calibration or "random") if calibrated else None,
        shapes=step.settings["shapes"],
        **_preparing(shop.matrix, calibrated),
    )
    sidecar = run_quantize(spec, data=data, conduct=shop.conduct)
    return Path(spec.output), sidecar.notes


def _build(step: SweepStep, source: Path | str, folder: Path, shop: Workshop) -> Product:
    settings = step.settings
    kind = ".dynamic" if settings["engine"] == "dynamic" else ""
    precision = f".{settings['precision']}" if settings["precision"] else ""
    shapes = engine_shapes(Path(source), settings["batches"], settings["shapes"])
    ends: dict[str, Any] = {
        f"shapes_{end}": {name: getattr(p, end) for name, p in shapes.items()}
        for end in ("min", "opt", "max")
    }
    calibration = shop.matrix.calibration if settings["calibration"] else None
    prepared = _preparing(shop.matrix, calibration is not None)
    request = BuildRequest(
        model=source,
        output=folder / f"{step.network}{kind}{precision}.engine",
        runtime=settings["builder"],
        precision=settings["precision"],
        calibration=calibration,
        task=prepared.get("task"),
        settings=prepared.get("settings", {}),
        options={"typing": "strong"} if settings["typed"] else {},
        **ends,
        **build_settings({key: str(value) for key, value in settings["options"].items()}),
    )
    spec = build_spec(request, shop.config)
    artefact = run_build(spec, conduct=_conduct(shop, settings["builder"]))
    return Path(spec.output), artefact.notes


def _preparing(matrix: Matrix, calibrated: bool) -> dict[str, Any]:
    """Have images for calibration prepared as those that accuracies are taken on."""
    if not calibrated or not prepares(matrix):
        return {}
    return {"task": matrix.task, "settings": preparing_of(matrix)}


def engine_shapes(
    model: Path, batches: tuple[int, int, int], given: Sequence[Shapes]
) -> dict[str, ShapeProfile]:
    """Find for every input with open dimensions the ranges that the engine is built for.

    ``given`` has shapes for the least, the best and the largest end; batches stand in front.
    """
    inputs = input_specs(load_onnx(model, weights=False))
    ends = [settled_items(inputs, shapes, model=model)[0] for shapes in given]
    found = {}
    for place, tensor in enumerate(inputs):
        if tensor.is_static:
            _refuse_fixed(tensor, batches)
            continue
        low, best, high = (
            (batch, *(dim for dim in end[place].shape[1:] if isinstance(dim, int)))
            for batch, end in zip(batches, ends, strict=True)
        )
        found[tensor.name] = ShapeProfile(min=low, opt=best, max=high)
    return found


def _refuse_fixed(tensor: TensorSpec, batches: tuple[int, int, int]) -> None:
    if tensor.shape and tensor.shape[0] != batches[1]:
        raise InputError(
            f"the batch of {tensor.name!r} is fixed at {tensor.shape[0]}, not {batches[1]}",
            fix="export the model with an open batch",
        )


def _conduct(shop: Workshop, runtime: str) -> Conduct:
    return replace(shop.conduct, python=shop.config.python_for(runtime))
