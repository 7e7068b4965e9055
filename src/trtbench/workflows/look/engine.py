"""Engines of any TensorRT, installed or not: header, sidecar, and whether one would load here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trtbench.analysis.inspection import (
    Inspection,
    edges_of,
    inspection_from_graph,
    parameter_difference,
    parameters_of,
    weight_difference,
)
from trtbench.analysis.memory import MemoryUse, predicted, profiles_from_facts
from trtbench.boundary import read_bytes
from trtbench.build.onnx_read import read_onnx
from trtbench.domain.artefact import Artefact
from trtbench.domain.result import Gpu, Scalar
from trtbench.domain.samples import EngineGraph
from trtbench.domain.spec import BuildSpec, ShapeProfile, TensorSpec
from trtbench.errors import InputError
from trtbench.host.gpu_names import gpu_in_use
from trtbench.host.versions import distribution_versions
from trtbench.models.identity import sha256_of, still_there
from trtbench.models.sidecar import kept_value
from trtbench.report.run_memory import words_from_memory
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.plan import HEADER_BYTES, PlanHeader, plan_from_bytes
from trtbench.units import text_from_bytes

_PACKAGES = {"tensorrt": "tensorrt", "tensorrt_rtx": "tensorrt-rtx"}
_WORDS = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}
_TENSOR = re.compile(r"(?P<name>.+?) (?P<dtype>[a-z]+\d*\w*) (?P<dims>[\dx?]*)(?:, |$)")
_SAME_PARTS = 3
"""Major, minor and patch must agree; an engine is bound to the version that built it."""


def inspect_engine(
    path: Path,
    *,
    onnx: Path | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    batch: int | None = None,
    use: MemoryUse | None = None,
) -> Inspection:
    """Describe an engine by its header and by what lies beside it.

    Open dimensions are filled in by what is given, to tell the memory of inputs and outputs.
    ``use`` is the memory that was measured, if it was loaded here.
    """
    with open(path, "rb") as file:
        header = plan_from_bytes(file.read(HEADER_BYTES), where=str(path))
    artefact, graph, aside = _beside(path)
    found = inspection_from_graph(graph, path=str(path)) if graph else None
    seen = [gpu for gpu in (gpu_in_use(),) if gpu is not None]
    size = path.stat().st_size
    installed = distribution_versions(_PACKAGES[header.flavour])
    loads, reasons = would_load(header, artefact, installed=installed, gpus=seen)
    if use is not None:
        loads, reasons = True, ()
    elif (header.plan_bytes or 0) > size:
        loads = False
    inputs, outputs = _edges(artefact, graph)
    filled = [_filled(each, shapes or {}, batch) for each in inputs + outputs]
    stated = header.weight_bytes if (header.weight_bytes or 0) <= size else None
    held = stated or _number(artefact, "weights_bytes")
    expected = _expected_use(artefact, held or size, filled, seen)
    return Inspection(
        kind="engine",
        path=str(path),
        facts={
            "flavour": _WORDS[header.flavour],
            "version": header.version,
            "size_bytes": size,
            "weight_bytes": held,
            **dict(words_from_memory(use or expected)),
            "built_for": ", ".join(header.compute_capabilities) or None,
            **_artefact_facts(artefact),
            "layers": len(graph.layers) if graph else None,
            "parameters": parameters_of(graph) if graph else None,
            "loads_here": {True: "yes", False: "no", None: "not known"}[loads],
        },
        inputs=inputs,
        outputs=outputs,
        summary=found.summary if found else None,
        layers=found.layers if found else None,
        memory=use or expected,
        notes=(
            *_damage(header, size),
            *aside,
            *reasons,
            *_source_notes(graph, artefact, onnx, held),
            *_graph_note(graph, artefact),
        ),
    )


def _damage(header: PlanHeader, size: int) -> Iterator[str]:
    """Name what a header states that the file cannot hold."""
    if header.plan_bytes is not None and header.plan_bytes > size:
        yield f"it is cut short: {size} of {header.plan_bytes} bytes are there"
    elif header.weight_bytes is not None and header.weight_bytes > size:
        stated = text_from_bytes(header.weight_bytes)
        yield f"its header states {stated} of weights, which are not in it: stripped, or damaged"


def would_load(
    header: PlanHeader,
    artefact: Artefact | None,
    *,
    installed: Mapping[str, str],
    gpus: Sequence[Gpu],
) -> tuple[bool | None, tuple[str, ...]]:
    """Judge by version and GPU; ``None`` when nothing speaks against it but too little is known."""
    name = _WORDS[header.flavour]
    reasons = []
    version = next(iter(installed.values()), None)
    compatible = artefact is not None and artefact.spec.version_compatible
    if version is None:
        reasons.append(f"{name} is not installed in this interpreter")
    elif header.version and not compatible and _parts(version) != _parts(header.version):
        reasons.append(f"it was built by {name} {header.version}, and {version} is installed here")
    if not gpus:
        reasons.append("no GPU can be seen here")
    else:
        reasons += _gpu_reasons(header, artefact, gpus[0])
    if reasons:
        return False, tuple(reasons)
    known = artefact is not None or header.flavour == "tensorrt_rtx"
    return (True if known else None), ()


def _gpu_reasons(header: PlanHeader, artefact: Artefact | None, gpu: Gpu) -> list[str]:
    here = gpu.compute_capability
    if header.compute_capabilities and here and here not in header.compute_capabilities:
        built = ", ".join(header.compute_capabilities)
        return [f"it was built for compute capability {built}, and {gpu.name} has {here}"]
    built_on = artefact.gpus[0] if artefact is not None and artefact.gpus else None
    if built_on is None or artefact is None or artefact.spec.hardware_compatible:
        return []
    if here and built_on.compute_capability and built_on.compute_capability != here:
        return [
            f"it was built on {built_on.name} ({built_on.compute_capability}), and here is "
            f"{gpu.name} ({here})"
        ]
    return []


def _parts(version: str) -> list[str]:
    return version.split("+")[0].split(".")[:_SAME_PARTS]


def _beside(path: Path) -> tuple[Artefact | None, EngineGraph | None, tuple[str, ...]]:
    """Read the record and the layers beside an engine, and leave aside those of another one."""
    artefact = read_artefact(path)
    if artefact is not None and artefact.sha256 != sha256_of(path):
        return None, None, ("what lies beside it is of another engine, and was left aside",)
    return artefact, read_graph(path), ()


def read_artefact(engine: Path) -> Artefact | None:
    """Tell what a build left beside its engine."""
    return kept_value(engine.with_name(f"{engine.name}.json"), Artefact)


def read_graph(engine: Path) -> EngineGraph | None:
    """Read the layers that a build left beside its engine."""
    for name in (f"{engine.name}.graph.json", f"{engine.stem}.graph.json"):
        path = engine.with_name(name)
        if path.is_file():
            return graph_from_json(read_bytes(path), where=str(path))
    return None


def _artefact_facts(artefact: Artefact | None) -> dict[str, Scalar]:
    if artefact is None:
        return {}
    spec = artefact.spec
    return {
        "model": spec.model.path,
        "precision": _condition(artefact, "precision") or spec.precision,
        "typing": _condition(artefact, "typing"),
        "built_by": spec.runtime,
        "built_on": ", ".join(gpu.name for gpu in artefact.gpus) or artefact.host,
        "built": artefact.created,
        "build_s": artefact.build_s,
        "profiles": _profiles(spec),
        "command": artefact.command,
    }


def _expected_use(
    artefact: Artefact | None,
    weight_bytes: int,
    tensors: Sequence[TensorSpec],
    gpus: Sequence[Gpu],
) -> MemoryUse:
    """Say what the engine will take of a GPU by its own word, and how many fit on the one here."""
    sizes = [_tensor_bytes(each) for each in tensors]
    known = [size for size in sizes if size is not None]
    return predicted(
        weight_bytes=weight_bytes,
        activation_bytes=_number(artefact, "activation_bytes"),
        io_bytes=sum(known) if sizes and len(known) == len(sizes) else None,
        total_bytes=gpus[0].memory_bytes if gpus else None,
        by_profile=profiles_from_facts(artefact.facts) if artefact is not None else (),
    )


def _filled(
    tensor: TensorSpec, shapes: Mapping[str, tuple[int, ...]], batch: int | None
) -> TensorSpec:
    """Fill in a shape that was given, or the batch where the first dimension is open."""
    shape = shapes.get(tensor.name, tensor.shape)
    if batch is not None and shape and not isinstance(shape[0], int):
        shape = (batch, *shape[1:])
    return tensor.having(shape=tuple(shape))


def _tensor_bytes(tensor: TensorSpec) -> int | None:
    """Compute the size of a tensor by its shape; ``None`` where a dimension is open."""
    bits = re.search(r"\d+", tensor.dtype)
    if not tensor.is_static:
        return None
    elements = math.prod(dim for dim in tensor.shape if isinstance(dim, int))
    return elements * (int(bits[0]) if bits else 8) // 8


def _condition(artefact: Artefact, name: str) -> str | None:
    fact = artefact.conditions.get(name)
    return None if fact is None or fact.value is None else str(fact.value)


def _profiles(spec: BuildSpec) -> str | None:
    """Write every optimization profile: least, best and largest shape of each input."""
    wanted = [spec.shapes, *({**spec.shapes, **each} for each in spec.more_profiles)]
    texts = [
        ", ".join(f"{name} {_span(each)}" for name, each in profile.items()) for profile in wanted
    ]
    numbered = texts if len(texts) == 1 else [f"{i}: {text}" for i, text in enumerate(texts)]
    return "; ".join(text for text in numbered if text) or None


def _span(profile: ShapeProfile) -> str:
    low, best, high = ("x".join(map(str, end)) for end in (profile.min, profile.opt, profile.max))
    return low if low == high else f"{low} to {high} (best at {best})"


def _edges(
    artefact: Artefact | None, graph: EngineGraph | None
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Find inputs and outputs as the build told them, or as the layers do."""
    told = artefact.facts if artefact is not None else {}
    if "inputs" in told:
        return _tensors(told["inputs"]), _tensors(told.get("outputs"))
    return edges_of(graph) if graph is not None else ((), ())


def _tensors(text: Scalar) -> tuple[TensorSpec, ...]:
    """Read ``x float32 ?x3, go bool`` back; names may hold blanks."""
    return tuple(
        TensorSpec(
            name=match["name"],
            dtype=match["dtype"],
            shape=tuple(None if d == "?" else int(d) for d in match["dims"].split("x") if d),
        )
        for match in _TENSOR.finditer(str(text or ""))
    )


def _number(artefact: Artefact | None, name: str) -> int | None:
    value = artefact.facts.get(name) if artefact is not None else None
    return value if isinstance(value, int) else None


def _source_notes(
    graph: EngineGraph | None, artefact: Artefact | None, onnx: Path | None, held: int | None
) -> tuple[str, ...]:
    """Compare with the ONNX file: the one given, or the one it was built from if still there."""
    built = artefact.spec.model if artefact is not None else None
    source = onnx or (Path(built.path) if built is not None and still_there(built) else None)
    if source is None or not source.is_file():
        return ()
    try:
        model = read_onnx(source)
    except InputError:
        return ()
    precision = artefact.spec.precision if artefact is not None else None
    counted = parameter_difference(graph, model) if graph is not None else ()
    return (*counted, *weight_difference(held, model, precision=precision))


def _graph_note(graph: EngineGraph | None, artefact: Artefact | None) -> tuple[str, ...]:
    if graph is not None:
        network = artefact is not None and artefact.facts.get("layers_from") == "network"
        return (
            "the layers are those of the network: no GPU was there to ask the engine",
        ) * network
    return ("no layer information lies beside it (ENGINE.graph.json)",)
