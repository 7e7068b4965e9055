"""Builds an engine with TensorRT's Python API, whatever its version and flavour.

Runs in a worker of its own, because TensorRT may crash. What is built, how and with what is told
in the outcome; the engine appears under its name only when it is whole.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.build.builders._calibration import attach_calibrator
from trtbench.build.builders._failures import build_error, parser_error, too_new
from trtbench.build.builders._plan import asked_from_spec, refuse_other_version
from trtbench.build.builders._precision import PrecisionPlan, precision_plan, quantized_ahead
from trtbench.build.builders._prepare import PreparedModel, made_ahead, prepare_model
from trtbench.build.builders._report import LOG, describe, outcome
from trtbench.build.builders._shapes import profiles_of
from trtbench.domain.job import BuildOutcome, Stage
from trtbench.domain.result import Scalar
from trtbench.domain.spec import BuildSpec
from trtbench.errors import JobError, UnavailableError, UsageError
from trtbench.host.tensorrt import Abilities, Flavour, keep_until_exit, load
from trtbench.host.tensorrt_config import (
    add_profile,
    configure,
    make_profile,
    refuse_unknown,
)
from trtbench.host.tensorrt_device import driver_problem
from trtbench.host.tensorrt_listen import Heard, LogProgress, make_logger, make_monitor
from trtbench.host.tensorrt_network import (
    create_network,
    inputs_of,
    load_plugins,
    parse_onnx,
)
from trtbench.host.tensorrt_timing import TimingCache
from trtbench.models.onnx_outline import ModelOutline, outline_of

if TYPE_CHECKING:
    from tensorrt import IBuilder, IBuilderConfig, IHostMemory, INetworkDefinition, OnnxParser

NEEDS_GPU = "TensorRT needs a GPU to build; TensorRT-RTX does not"


@dataclass
class BuildWork:
    """One build under way."""

    spec: BuildSpec
    trt: ModuleType
    abilities: Abilities
    plan: PrecisionPlan
    outline: ModelOutline
    folder: Path
    stage: Stage
    gpu: bool
    heard: Heard = field(default_factory=Heard)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Scalar] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Further files in the folder to keep, by the ending of their names beside the engine."""
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def monitored(self) -> bool:
        """Whether TensorRT itself tells how far it has come, and asks whether to go on."""
        return self.abilities.has("IBuilderConfig.progress_monitor")

    def tell(self, done: float, text: str) -> None:
        """Say how far the build has come."""
        self.stage.progress(done, text)


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
