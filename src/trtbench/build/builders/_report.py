"""What is told about an engine that was built: its layers, facts, and how it came about."""

from __future__ import annotations

import resource
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.build.builders._plan import reproduce_line
from trtbench.build.builders._precision import FLAGS
from trtbench.build.builders._prepare import PreparedModel
from trtbench.build.builders._shapes import Ranges
from trtbench.domain.codec import json_from_value
from trtbench.domain.job import BuildOutcome
from trtbench.domain.result import Fact, Scalar
from trtbench.errors import ParseError
from trtbench.host.tensorrt_inspect import inspect_engine
from trtbench.host.tensorrt_network import inputs_of, layers_of, outputs_of
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.log import log_from_text
from trtbench.units import text_from_shape

if TYPE_CHECKING:
    from tensorrt import IHostMemory, ILogger, INetworkDefinition

    from trtbench.build.builders._python_api import BuildWork

LOG, GRAPH = "build.log", "graph.json"
BANNER = "&&&& RUNNING TensorRT.trtbench # trtbench build"
"""What the reader of trtexec's logs begins with; the lines that follow are the same."""


def describe(
    work: BuildWork,
    logger: ILogger,
    network: INetworkDefinition,
    data: IHostMemory,
    profiles: list[Ranges],
) -> None:
    """Write the layers: the engine's own where it can be loaded, else those of the network."""
    work.facts["network_layers"] = int(network.num_layers)
    for name, tensors in (("inputs", inputs_of(network)), ("outputs", outputs_of(network))):
        shown = (f"{each.name} {each.dtype} " + text_from_shape(each.shape) for each in tensors)
        work.facts[name] = ", ".join(shown)
    shapes = {name: span.opt for name, span in profiles[0].items()} if profiles else {}
    loads = work.gpu and not work.spec.strip_weights
    found = inspect_engine(work.trt, logger, data, shapes=shapes) if loads else None
    if found is None:
        (work.folder / GRAPH).write_bytes(json_from_value(layers_of(network)))
        work.facts["layers_from"] = "network"
        return
    text, facts = found
    (work.folder / GRAPH).write_text(text, encoding="utf-8")
    work.facts.update(facts)
    work.facts["layers_from"] = "engine"
    _check_precision(work, text)


def _check_precision(work: BuildWork, text: str) -> None:
    """Tell what precision was really built: a weakly typed builder is free to choose FP32."""
    try:
        graph = graph_from_json(text, where=GRAPH)
    except ParseError:
        return
    kinds = Counter(each.dtype for layer in graph.layers for each in layer.outputs if each.dtype)
    if not kinds:
        return
    work.facts["layer_outputs"] = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common())
    asked = work.spec.precision
    if asked in FLAGS and asked not in kinds and work.plan.typing == "weak":
        work.notes.append(
            f"{asked} was allowed, and the builder chose it for no layer: this engine "
            f"computes in {kinds.most_common(1)[0][0]}"
        )


def outcome(work: BuildWork, prepared: PreparedModel) -> BuildOutcome:
    plan, spec = work.plan, work.spec
    endings = {".build.log": LOG, ".graph.json": GRAPH, **prepared.files, **work.files}
    facts = {**_logged(work.folder / LOG), **work.facts}
    build_s = facts.pop("build_s", None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return BuildOutcome(
        command=reproduce_line(spec),
        version=work.abilities.version,
        build_s=float(build_s) if isinstance(build_s, int | float) else None,
        conditions={
            "flavour": Fact(value=work.abilities.flavour),
            "typing": Fact(value=plan.typing),
            "precision": Fact(value=plan.precision),
            "tf32": Fact(value=plan.tf32),
        },
        facts={**facts, "peak_host_bytes": peak},
        files={end: name for end, name in endings.items() if (work.folder / name).is_file()},
        notes=tuple(dict.fromkeys(work.notes)),
    )


def _logged(path: Path) -> dict[str, Scalar]:
    """What TensorRT's own lines state: memory, times, sizes."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        runs = log_from_text(f"{BANNER}\n{text}", where=path.name)
    except (OSError, ParseError):
        return {}
    wanted = ("peak_cpu_bytes", "peak_gpu_bytes", "scratch_bytes", "weights_bytes", "optimize_s")
    facts = runs[-1].facts if runs else None
    found = {name: getattr(facts, name, None) for name in wanted}
    # Without a GPU its allocators count nothing and print zero, which is not a measurement.
    return {name: value for name, value in found.items() if value}
