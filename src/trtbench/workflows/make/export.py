"""Export a PyTorch model to ONNX, compare the two, and keep how it was made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from trtbench.build.export import INPUTS, OUTPUTS
from trtbench.build.onnx_file import load_onnx
from trtbench.domain.conversion import ExportOutcome, ExportSpec, InputShape, Sidecar, VerifyOutcome
from trtbench.domain.job import ExportJob
from trtbench.domain.spec import Precision
from trtbench.errors import InputError, UsageError, refuse_unknown
from trtbench.models.identity import model_ref
from trtbench.store.directory import now
from trtbench.workflows.make.conversion import (
    conversion_folder,
    made_by,
    put_in_place,
    refuse_folder,
    refuse_overwriting,
    run_conversion,
    verify,
    write_sidecar,
)
from trtbench.workflows.measure.job import read_outcome
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.making import ExportRequest

TARGETS: Mapping[str, int] = {
    "tensorrt-8.6": 17,
    "tensorrt-10": 20,
    "tensorrt-10.15": 24,
    "tensorrt-11": 24,
    "tensorrt-rtx": 24,
}
"""The newest opset that the ONNX parser of each takes."""

OLDEST_DYNAMO = 18
"""The dynamo exporter makes nothing older, and says nothing when asked for it."""

_SHAPE = re.compile(r"(?:(?P<name>[^:]+):)?(?P<dims>-?\d+(?:x-?\d+)*)(?::(?P<dtype>[a-z]+\d*))?")


def export_spec(request: ExportRequest) -> ExportSpec:
    """Settle an export, with the exporter and opset that suit the target."""
    target, opset, exporter = request.target, request.opset, request.exporter
    weights = str(request.weights)
    limit = _limit(target)
    if limit is not None and opset is not None and opset > limit:
        raise UsageError(
            f"the ONNX parser of {target} takes opset {limit} at most, not {opset}",
            fix=f"--opset {limit}",
        )
    wanted = opset or (limit if limit is not None and limit < OLDEST_DYNAMO else None)
    old = wanted is not None and wanted < OLDEST_DYNAMO
    if old and exporter == "dynamo":
        raise UsageError(
            f"the dynamo exporter makes opset {OLDEST_DYNAMO} and later, not {wanted}",
            fix="--exporter legacy",
        )
    name = str(request.source)
    if name.lower().endswith(".onnx"):
        raise UsageError(f"{name} is an ONNX file already", fix=f"trtbench bench {name}")
    path = (
        Path(request.output)
        if request.output
        else Path(f"{Path(name.rpartition(':')[2]).stem}.onnx")
    )
    refuse_folder(path, name=f"{Path(name.rpartition(':')[2]).stem}.onnx")
    if ":" not in name:
        refuse_overwriting(Path(name), path)
        name = str(Path(name).absolute())
    if weights not in ("default", "none"):
        weights = str(Path(weights).absolute())
    return ExportSpec(
        source=name,
        output=str(path.absolute()),
        weights=weights,
        inputs=input_shapes(request.input_shapes),
        opset=wanted,
        exporter=exporter or ("legacy" if old else "dynamo"),
        folder=str(Path.cwd()),
        half=request.half,
        trust=request.trust,
        factory=request.factory,
        seed=request.seed,
    )


def input_shapes(texts: Sequence[str]) -> tuple[InputShape, ...]:
    """Read ``-1x3x224x224``, ``images:-1x3x224x224`` or ``ids:-1x128:int64``."""
    found = []
    for text in texts:
        match = _SHAPE.fullmatch(text.strip().replace(" ", "x").replace(",", "x"))
        if not match:
            raise UsageError(
                f"--input-shape {text} cannot be read",
                fix="write it like -1 3 224 224, images:-1x3x224x224 or ids:-1x128:int64",
            )
        dims = tuple(int(dim) for dim in match["dims"].split("x"))
        if any(dim == 0 or dim < -1 for dim in dims):
            raise UsageError(
                f"--input-shape {text}: a dimension is above 0, or -1 for open",
                fix="--input-shape -1 3 224 224",
            )
        found.append(InputShape(name=match["name"], shape=dims, dtype=match["dtype"]))
    return tuple(found)


def run_export(
    spec: ExportSpec, *, target: str | None = None, conduct: Conduct | None = None
) -> Sidecar:
    """Make the ONNX file and its sidecar; neither is there when anything fails."""
    conduct = conduct or Conduct()
    output = Path(spec.output)
    with conversion_folder(output) as folder:
        work = folder / "work"
        work.mkdir()
        inner = spec.having(output=str(work / output.name))
        end = run_conversion(
            ExportJob(spec=inner), folder=work, conduct=conduct, python=conduct.python
        )
        outcome = read_outcome(work, ExportOutcome)
        made = Path(inner.output)
        _refuse_new_opset(made, target)
        verified = verify(
            made,
            reference=work / OUTPUTS,
            inputs=work / INPUTS,
            precision=_precision(spec),
            folder=folder / "verify",
            conduct=conduct,
        )
        sidecar = _sidecar(spec, made, outcome, verified).having(
            seconds=end.seconds, command=conduct.command
        )
        put_in_place(made, output)
    write_sidecar(sidecar, output)
    return sidecar


def _sidecar(
    spec: ExportSpec, made: Path, outcome: ExportOutcome, verified: VerifyOutcome
) -> Sidecar:
    return Sidecar(
        made_by=made_by(),
        step="export",
        file=made.name,
        sha256=model_ref(made).sha256 or "",
        created=now(),
        source=spec.source,
        source_sha256=outcome.source_sha256,
        precision=_precision(spec),
        method=outcome.kind,
        exporter=outcome.exporter,
        opset=_opset(made),
        facts={"parameters": outcome.parameters, "weights": spec.weights, "seed": spec.seed},
        versions={**outcome.versions, **verified.versions},
        difference=verified.diffs,
        compared_on="one call with random inputs, ONNX Runtime against PyTorch",
        unverified=verified.problem,
        notes=outcome.notes,
    )


def _precision(spec: ExportSpec) -> Precision:
    return "fp16" if spec.half else "fp32"


def _limit(target: str | None) -> int | None:
    if target is None:
        return None
    refuse_unknown(target, TARGETS, f"nothing is known of {target!r}", flag="--for")
    return TARGETS[target]


def _refuse_new_opset(made: Path, target: str | None) -> None:
    limit, have = _limit(target), _opset(made)
    if limit is not None and have is not None and have > limit:
        raise InputError(
            f"the exporter made opset {have}; the ONNX parser of {target} takes {limit} at most",
            fix=f"--opset {limit}",
        )


def _opset(path: Path) -> int | None:
    entries = load_onnx(path, weights=False).opset_import
    return next((entry.version for entry in entries if not entry.domain), None)
