"""Builds an engine with TensorRT's Python API, whatever its version and flavour.

Runs in a worker of its own, because TensorRT may crash. What is built, how and with what is told
in the outcome; the engine appears under its name only when it is whole.
"""

from __future__ import annotations

import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.build.builders._calibration import attach_calibrator
from trtbench.build.builders._failures import build_error, parser_error, too_new
from trtbench.build.builders._plan import (
    BuildWork,
    asked_from_spec,
    refuse_other_version,
    reproduce_line,
)
from trtbench.build.builders._precision import FLAGS, precision_plan, quantized_ahead
from trtbench.build.builders._prepare import PreparedModel, made_ahead, prepare_model
from trtbench.build.builders._shapes import Ranges, profiles_of
from trtbench.domain.codec import json_from_value
from trtbench.domain.job import BuildOutcome, Stage
from trtbench.domain.result import Fact, Scalar
from trtbench.domain.spec import BuildSpec
from trtbench.errors import JobError, ParseError, UnavailableError, UsageError
from trtbench.host.tensorrt import Abilities, Flavour, keep_until_exit, load
from trtbench.host.tensorrt_config import add_profile, configure, make_profile, refuse_unknown
from trtbench.host.tensorrt_device import driver_problem
from trtbench.host.tensorrt_inspect import inspect_engine
from trtbench.host.tensorrt_listen import LogProgress, make_logger, make_monitor
from trtbench.host.tensorrt_network import (
    create_network,
    inputs_of,
    layers_of,
    load_plugins,
    outputs_of,
    parse_onnx,
)
from trtbench.host.tensorrt_timing import TimingCache
from trtbench.models.onnx_outline import outline_of
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.log import log_from_text
from trtbench.units import text_from_shape

if TYPE_CHECKING:
    from tensorrt import (
        IBuilder,
        IBuilderConfig,
        IHostMemory,
        ILogger,
        INetworkDefinition,
        OnnxParser,
    )


NEEDS_GPU = "TensorRT needs a GPU to build; TensorRT-RTX does not"


def build(spec: BuildSpec, *, folder: Path, stage: Stage, flavour: Flavour) -> BuildOutcome:
    """Build one engine; log and layers are left in the folder."""
    stage("load")
    ahead = made_ahead(folder)
    outline = outline_of(ahead or Path(spec.model.path))
    trt, abilities = load(flavour)
    refuse_other_version(spec, abilities=abilities)
    refuse_unknown(spec, abilities=abilities)
    asked = asked_from_spec(spec, outline)
    plan = precision_plan(quantized_ahead(asked) if ahead else asked, abilities=abilities)
    gpu = _demand_gpu(spec, abilities)
    work = BuildWork(
        spec=spec, trt=trt, abilities=abilities, plan=plan, outline=outline, folder=folder,
        stage=stage, gpu=gpu,
    )  # fmt: skip
    for text in too_new(outline, abilities=abilities):
        work.notes.append(text)
        work.tell(0.0, text)
    prepared = prepare_model(spec, plan, folder=folder, stage=stage)
    work.notes += prepared.notes
    return _build(work, prepared)


def _demand_gpu(spec: BuildSpec, abilities: Abilities) -> bool:
    """Look for a driver before TensorRT does, because that may crash; say whether there is one."""
    problem = driver_problem()
    if problem is None:
        return True
    if not abilities.targets:
        raise UnavailableError(
            NEEDS_GPU, facts={"here": problem}, fix="build where a GPU is, or -r tensorrt-rtx"
        )
    if spec.refit or spec.strip_weights:
        flag = "--refit" if spec.refit else "--strip-weights"
        raise UnavailableError(
            f"{abilities.title} needs a GPU for {flag}", facts={"here": problem},
            fix=f"leave {flag} out, or build where a GPU is",
        )  # fmt: skip
    return False


def _build(work: BuildWork, prepared: PreparedModel) -> BuildOutcome:
    trt, spec = work.trt, work.spec
    by_log = LogProgress(work.tell)
    logger = make_logger(
        trt,
        path=work.folder / LOG,
        heard=work.heard,
        verbose=spec.verbose,
        watch=None if work.monitored else by_log,
    )
    if not work.abilities.targets:
        load_plugins(trt, logger, spec.plugins)
    builder = trt.Builder(logger)
    _demand_platform(work, builder)
    network = create_network(
        trt, builder, abilities=work.abilities, strong=work.plan.typing == "strong"
    )
    parser = trt.OnnxParser(network, logger)
    config = builder.create_builder_config()
    keep_until_exit(logger, builder, network, parser, config)
    _parse(work, parser, prepared)
    by_log.layers = int(network.num_layers)
    configure(
        trt, config, spec, abilities=work.abilities, flags=work.plan.flags, tf32=work.plan.tf32
    )
    profiles = profiles_of(spec, inputs_of(network))
    for ranges in profiles:
        add_profile(config, make_profile(builder, network, ranges), ranges)
    calibrator = attach_calibrator(work, builder, config, network, profiles)
    cache = _timing_cache(work, config)
    data = _serialize(work, builder, network, config)
    keep_until_exit(calibrator, cache, data)
    if calibrator is not None:
        calibrator.finish()
    if cache is not None:
        _tell_cache(work, cache)
    _write(Path(spec.output), data)
    describe(work, logger, network, data, profiles)
    return outcome(work, prepared)


def _demand_platform(work: BuildWork, builder: IBuilder) -> None:
    """Refuse a precision that this GPU would have to emulate or silently replace."""
    for flag, name in (("FP16", "platform_has_fast_fp16"), ("INT8", "platform_has_fast_int8")):
        if flag not in work.plan.flags or not work.abilities.has(f"Builder.{name}"):
            continue
        if not getattr(builder, name):
            raise UsageError(
                f"this GPU does not compute in {flag}",
                fix="--precision fp32, or build on another GPU",
            )


def _parse(work: BuildWork, parser: OnnxParser, prepared: PreparedModel) -> None:
    started = time.perf_counter()
    problems = parse_onnx(parser, path=prepared.path)
    if problems:
        raise parser_error(
            problems,
            spec=work.spec,
            outline=work.outline,
            abilities=work.abilities,
            warnings=too_new(work.outline, abilities=work.abilities),
        )
    work.facts["parse_s"] = time.perf_counter() - started


def _timing_cache(work: BuildWork, config: IBuilderConfig) -> TimingCache | None:
    if work.spec.timing_cache is None:
        return None
    return TimingCache(config, path=Path(work.spec.timing_cache), abilities=work.abilities)


def _tell_cache(work: BuildWork, cache: TimingCache) -> None:
    used = cache.save()
    work.notes.append(used.text)
    work.facts["timing_cache"] = used.use
    work.facts["timing_cache_before_bytes"] = used.before_bytes
    work.facts["timing_cache_after_bytes"] = used.after_bytes
    if used.use == "refused":
        work.files[".timing.cache.old"] = f"{Path(str(work.spec.timing_cache)).name}.old"
    if used.entries is not None:
        work.facts["timing_cache_entries"] = used.entries


def _serialize(
    work: BuildWork, builder: IBuilder, network: INetworkDefinition, config: IBuilderConfig
) -> IHostMemory:
    work.stage("build")
    if work.monitored:
        monitor = make_monitor(work.trt, tell=work.tell, cancelled=work.cancelled.is_set)
        config.progress_monitor = monitor
    started = time.perf_counter()
    with _cancelled_by_signal(work.cancelled, able=work.monitored):
        data = builder.build_serialized_network(network, config)
    work.facts["build_s"] = time.perf_counter() - started
    if work.cancelled.is_set():
        raise JobError("the build was cancelled")
    if data is None:
        raise build_error(work.heard, spec=work.spec, abilities=work.abilities)
    return data


@contextmanager
def _cancelled_by_signal(cancelled: threading.Event, *, able: bool) -> Iterator[None]:
    """Let a signal end the build at its next step, where TensorRT asks whether to go on.

    Where it does not ask, the signal ends the process as it always does.
    """
    if not able or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, lambda *_: cancelled.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(path: Path, data: IHostMemory) -> None:
    partial = path.with_name(f"{path.name}.part")
    with open(partial, "wb") as file:
        file.write(memoryview(data))
    partial.replace(path)


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
    kinds = Counter(each.dtype for made in graph.layers for each in made.outputs if each.dtype)
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
    """Tell what TensorRT's own lines state: memory, times, sizes."""
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
