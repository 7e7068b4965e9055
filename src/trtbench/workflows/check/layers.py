"""Where does it go wrong? The intermediate tensors of two ONNX files, ranked and drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from trtbench.analysis.inputs import fixed_batch, has_rows
from trtbench.domain.codec import json_from_value
from trtbench.domain.feed import LayerDrift, LayersChecked, LayersOutcome, LayersSpec
from trtbench.domain.job import LayersJob
from trtbench.domain.spec import RunSpec, TensorSpec
from trtbench.errors import InputError, UsageError
from trtbench.host.files import write_output
from trtbench.report.charts import Axis, Line, Lines, Mark, Panel
from trtbench.report.document import Figure
from trtbench.report.renderers.png import png_bytes
from trtbench.store.store import Store
from trtbench.tasks._feed import open_feed
from trtbench.workflows.check.check import feed_of, with_source
from trtbench.workflows.measure.job import outcome_of_job
from trtbench.workflows.request.choice import first_choice
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.judging import CheckRequest
from trtbench.workflows.request.spec import side_spec

ITEMS = 8
"""Inputs to look at layers with: drift hardly varies between inputs, tensors are large."""
MOST_KEPT = 10
KEEP_PART = 0.1
"""A node is worth keeping when it adds at least this part of what the worst one adds."""
PATIENCE_S = 24 * 3600.0
NO_DRIFT = 1e-12
"""Drawn in place of zero, which a logarithmic axis cannot show."""


def run_layers(
    request: CheckRequest, number: int, *, store: Store, config: Config, conduct: Conduct
) -> LayersChecked:
    """Compare all tensors that the reference and one candidate share, rank the drift, draw it.

    Only what shapes the inputs matters: the graphs run on ONNX Runtime's CPU as written.
    """
    reference, candidate = str(request.reference), str(request.candidates[number])
    for path in (reference, candidate):
        if Path(path).suffix.lower() != ".onnx":
            raise UsageError(
                "--layers looks into ONNX files", facts={"given": path}, fix="leave --layers out"
            )
    plain = replace(request, threads=None, device=None, options={})
    spec = side_spec(plain, reference, first_choice("onnx"), config)
    with store.scratch() as folder:
        inputs = _write_inputs(spec, request, folder)
        job = LayersSpec(
            reference=str(Path(reference).absolute()),
            candidate=str(Path(candidate).absolute()),
            inputs=str(inputs),
        )
        outcome = outcome_of_job(
            LayersJob(spec=job), LayersOutcome, folder=folder / "layers",
            conduct=conduct.part(0.0, 1.0, name="layers"), patience_s=PATIENCE_S,
            failure="the layers could not be compared",
        )  # fmt: skip
    keep = worth_keeping(outcome.drifts)
    files = _write(outcome, reference, candidate, Path(request.output), keep, number=number)
    return LayersChecked(
        reference=reference,
        candidate=candidate,
        outcome=outcome,
        keep=keep,
        files=tuple(str(path) for path in files),
    )


def worth_keeping(drifts: Sequence[LayerDrift]) -> tuple[str, ...]:
    """List nodes that add most drift of their own; those that lose finite values come first."""
    broken = [each for each in drifts if each.diff.nonfinite]
    first = min(broken, key=lambda each: each.position, default=None)
    added = _added_by_owner(drifts)
    least = KEEP_PART * max(added.values(), default=0.0)
    chosen = sorted((name for name in added if added[name] >= least > 0), key=lambda n: -added[n])
    if first is not None:
        chosen.insert(0, first.owner or first.node)
    return tuple(dict.fromkeys(chosen))[:MOST_KEPT]


def _added_by_owner(drifts: Sequence[LayerDrift]) -> dict[str, float]:
    """Compute what nodes computed together added: the drift behind them less that before."""
    before: dict[str, float] = {}
    behind: dict[str, float] = {}
    for each in drifts:
        owner = each.owner or each.node
        before.setdefault(owner, each.before or 0.0)
        behind[owner] = max(behind.get(owner, 0.0), each.diff.rel_l2 or 0.0)
    return {name: math.sqrt(max(0.0, behind[name] ** 2 - before[name] ** 2)) for name in behind}


def _write_inputs(spec: RunSpec, request: CheckRequest, folder: Path) -> Path:
    """Make the first few items of the check, all sides' inputs by the reference's names."""
    from trtbench.build.onnx_file import load_onnx
    from trtbench.build.onnx_read import input_specs

    path = Path(spec.model.path)
    tensors: tuple[TensorSpec, ...] = input_specs(load_onnx(path, weights=False))
    sides = [Path(each) for each in (request.reference, *request.candidates)]
    source = open_feed(feed_of(request, sides), tensors, spec=with_source(spec, request))
    rows = {each.name for each in tensors if has_rows(each, tensors)}
    size = (fixed_batch(tensors) if rows else None) or 1
    count = max(size, min(ITEMS, len(source.names)) // size * size) if rows else 1
    if len(source.names) < count:
        raise InputError(
            f"the model takes batches of {size}, and there are fewer inputs", fix=f"--random {size}"
        )
    items = [source.prepare(source.load(index)) for index in range(count)]
    arrays = {
        t.name: np.stack([item[t.name] for item in items]) if t.name in rows else items[0][t.name]
        for t in tensors
    }
    target = folder / "inputs.npz"
    np.savez(target, **arrays)  # type: ignore[arg-type]
    return target


def _write(
    outcome: LayersOutcome,
    reference: str,
    candidate: str,
    folder: Path,
    keep: Sequence[str],
    *,
    number: int,
) -> list[Path]:
    stem = f"layers-{number}" if number else "layers"
    figure = drift_figure(outcome, Path(reference).name, Path(candidate).name, keep, id=stem)
    paths = [folder / f"{stem}.json", folder / f"{stem}.png", folder / f"{stem}-keep.txt"]
    write_output(paths[0], json_from_value(outcome))
    write_output(paths[1], png_bytes(figure))
    write_output(paths[2], "".join(f"{name}\n" for name in keep))
    return paths


def drift_figure(
    outcome: LayersOutcome, reference: str, candidate: str, keep: Sequence[str], *, id: str
) -> Figure:
    """Compute drift along the network, and what every node added to it."""
    usable = [each for each in outcome.drifts if each.diff.rel_l2 is not None]
    x = tuple(float(each.position) for each in usable)
    own = tuple(max(each.diff.rel_l2 or 0.0, NO_DRIFT) for each in usable)
    kept = [each for each in usable if (each.owner or each.node) in keep and each.added]
    added = Line(
        name="added by a node worth keeping in FP32",
        role="error",
        x=tuple(float(each.position) for each in kept),
        y=tuple(max(each.added or 0.0, NO_DRIFT) for each in kept),
        style="both",
    )
    marks = tuple(
        Mark(at=float(each.position), text=each.node)
        for each in sorted(kept, key=lambda e: -(e.added or 0.0))[:3]
    )
    panel = Panel(
        lines=(Line(name="drift", role="d2h", x=x, y=own, style="both"), added), marks=marks
    )
    caption = (
        f"{len(outcome.drifts)} tensors of {reference} that {candidate} has too, "
        f"{outcome.items} inputs, ONNX Runtime on the CPU without optimizations."
    )
    return Figure(
        id=id,
        title=f"Drift along the network: {candidate} against {reference}",
        chart=Lines(
            x=Axis(title="node of the reference"),
            y=Axis(title="relative L2 difference", scale="log"),
            panels=(panel,),
        ),
        caption=caption,
    )
