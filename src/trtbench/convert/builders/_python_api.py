"""Builds an engine with the Python API of any version of TensorRT or TensorRT-RTX.

Runs in a separate worker process, because TensorRT may crash. The engine gets its final name only
when it is complete.
"""

from __future__ import annotations

import importlib.util
import os
import re
import resource
import shlex
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.convert.builders import _precision as precision
from trtbench.convert.calibration import RANDOM, FeedArrays, calibration_items, feeds_sha256
from trtbench.core import errors
from trtbench.core.codec import json_from_value
from trtbench.core.jobs import BuildOutcome, Stage
from trtbench.core.run import Fact, Scalar
from trtbench.core.spec import BuildSpec, ShapeProfile, TensorSpec
from trtbench.core.units import text_from_shape
from trtbench.host import tensorrt
from trtbench.host.cache import cache_folder
from trtbench.host.cuda import open_cuda
from trtbench.host.machine import distribution_versions
from trtbench.models.identity import model_ref
from trtbench.models.inputs import refuse_unknown_inputs, with_sizes
from trtbench.models.onnx_outline import ModelOutline, outline_of
from trtbench.requests.fields import words_from_flags
from trtbench.tasks.contract import COMMON
from trtbench.trtexec.exports import graph_from_json
from trtbench.trtexec.log import read_log

if TYPE_CHECKING:
    from tensorrt import (
        IBuilder,
        IBuilderConfig,
        IHostMemory,
        INetworkDefinition,
        IOptimizationProfile,
        ITensor,
        OnnxParser,
    )

Ranges = dict[str, ShapeProfile]

OPTIONS = {
    "typing": "strong: hold the builder to the types of the model (TensorRT 10)",
    "calibration_items": "how many items to calibrate with at most (default: 256)",
    "tactic_sources": "none: do without the kernels of cuBLAS, cuDNN and other libraries",
    "version": "version to plan for with --dry-run where TensorRT is not installed",
}
"""The keys of ``--opt key=value``."""
ASSUMED: dict[tensorrt.Flavour, str] = {"tensorrt": "11.0", "tensorrt_rtx": "1.7"}
LOG, GRAPH = "build.log", "graph.json"
PARSER_HINTS = {
    r"plugin not found|no importer registered|unsupported operator|not supported yet": "an "
    "operator this parser does not know: {plugin}, a newer version, or export the model without it",
    r"zero.?point|dequantizelinear.*int32|int32.*dequantizelinear": "quantize symmetrically: "
    "trtbench quantize {model} --precision int8 --data DATA",
    r"static|dynamic|shape|dims|dimension|rank": "fix the shapes when exporting, or simplify the "
    "model (onnxsim) so that they are known",
}
"""What to try, by a pattern in the message of the parser; the first match wins."""
BUILD_HINTS = {
    r"symboladdress for (?:cublas|cudnn)|(?:cublas|cudnn)\S* could not be loaded": "install cuBLAS "
    "and cuDNN as this TensorRT names them, or do without their kernels: --opt tactic_sources=none",
    r"workspace|insufficient memory|no tactics|any implementation for node|out.?of.?memory": "give "
    "more scratch memory (--workspace 4GiB), or leave --workspace out",
    r"hw-specific datatypes": "leave out the targets that lack the type: bf16 needs sm_80, fp8 "
    "needs sm_89",
    r"fp32 gemm is not supported": "--target sm_80 or newer, or --precision fp16",
    r"optimization profile": "--shape-min, --shape-opt and --shape-max for every dynamic input",
}
RTX_LACKS = {
    "tactic_sources": ("--opt tactic_sources", "its kernels are its own"),
    "hardware_compatible": ("--hardware-compatible", "--target names the GPUs"),
    "version_compatible": ("--version-compatible", "the lean runtime it needs does not exist"),
    "timing_cache": ("--timing-cache", "kernels are chosen when the engine runs"),
    "plugins": ("--plugin", "it has no plugins"),
    "dla_core": ("--dla-core", "it builds for GPUs"),
    "calibration_cache": ("--calibration-cache", "it has no calibrators"),
}
"""Settings that TensorRT-RTX does not support, with their flag and the reason."""


def available(flavour: tensorrt.Flavour) -> str | None:
    if importlib.util.find_spec(flavour) is None:
        return f"{flavour} is not installed in this interpreter"
    return tensorrt.driver_problem() if flavour == "tensorrt" else None


def dry_run_lines(spec: BuildSpec, *, flavour: tensorrt.Flavour) -> list[str]:
    """Return the steps of a build and its command; nothing is imported or built."""
    title, given = tensorrt.TITLES[flavour], spec.options.get("version")
    notes = [f"for {title} {given}"] if given else []
    installed = distribution_versions(flavour.replace("_", "-")).values()
    version = given or next(iter(installed), None)
    if version is None:
        version = ASSUMED[flavour]
        another = "10.9" if flavour == "tensorrt" else "1.4"
        notes.append(
            f"{title} is not installed in this interpreter: for {version} (another: --opt "
            f"version={another})"
        )
    abilities = tensorrt.abilities_of_version(version, flavour=flavour)
    outline = outline_of(Path(spec.model.path))
    errors.refuse_unknown_options(f"builder {spec.runtime}", spec.options, OPTIONS)
    plan = precision.precision_plan(spec, outline.carried, abilities=abilities)
    flags = f", allowed: {' '.join(plan.flags)}" if plan.flags else ""
    tf32 = "allowed" if plan.tf32 else "off"
    scales = spec.calibration or spec.calibration_cache
    steps = (
        plan.step,
        f"parse {spec.model.name} (opset {outline.opset}) with {abilities.title}",
        f"calibrate with {scales}" if plan.calibrate else None,
        f"build {plan.precision}, {plan.typing}ly typed{flags}, TF32 {tf32}",
    )
    numbered = [f"# {number}. {text}" for number, text in enumerate(filter(None, steps), start=1)]
    notes += precision.opset_warnings(outline, abilities=abilities)
    return [*(f"# {text}" for text in notes), *numbered, repeat_command(spec)]


def repeat_command(spec: BuildSpec) -> str:
    spans = [each for ranges in (spec.shapes, *spec.more_profiles) for each in ranges.items()]
    switches = ("version_compatible", "hardware_compatible", "strip_weights", "refit", "verbose")
    named = {name: getattr(spec, name) for name in switches}
    named |= {k: value for k, value in spec.task_settings.items() if k not in COMMON}
    given = {
        "-o": spec.output,
        "-r": spec.runtime.replace("_", "-"),
        "--precision": spec.precision,
        "--workspace": None if spec.workspace_bytes is None else f"{spec.workspace_bytes}B",
        "--optimization-level": spec.optimization_level,
        "--timing-cache": spec.timing_cache,
        "--no-timing-cache": spec.timing_cache is None and not spec.runtime.endswith("rtx"),
        "--data": spec.calibration,
        "--calibration-method": spec.calibration_method if spec.calibration else None,
        "--calibration-cache": spec.calibration_cache,
        "--task": spec.task,
        "--dla-core": spec.dla_core,
        "--device": spec.device,
        "--target": ",".join(spec.targets) or None,
        **{
            f"--shape-{end}": [f"{name}:{text_from_shape(getattr(x, end))}" for name, x in spans]
            for end in ("min", "opt", "max")
        },
        **{f"--{name.replace('_', '-')}": value for name, value in named.items()},
        "--plugin": spec.plugins,
        "--opt": [f"{key}={value}" for key, value in spec.options.items() if key != "version"],
    }
    return shlex.join(["trtbench", "build", spec.model.path, *words_from_flags(given)])


def profiles_of(spec: BuildSpec, inputs: Sequence[TensorSpec]) -> list[Ranges]:
    """Return the optimization profiles; none for a model with static shapes."""
    known = {each.name: each for each in inputs}
    wanted = [spec.shapes, *({**spec.shapes, **each} for each in spec.more_profiles)]
    for name, span in (item for ranges in wanted for item in ranges.items()):
        refuse_unknown_inputs({name: span}, [*known])
        tensor = known[name]
        for end, shape in (("min", span.min), ("opt", span.opt), ("max", span.max)):
            fits = len(shape) == len(tensor.shape) and all(
                dim is None or dim == given for dim, given in zip(tensor.shape, shape, strict=True)
            )
            if not fits:
                raise errors.UsageError(
                    f"the {end} shape of {tensor.name!r} does not fit the model",
                    facts={"given": text_from_shape(shape), "model": text_from_shape(tensor.shape)},
                    fix=f"--shape-{end} {shlex.quote(with_sizes(tensor, shape))}",
                )
    dynamic = [each for each in inputs if not each.is_static]
    return [dict(ranges) for ranges in wanted] if dynamic else []


@dataclass
class EngineBuild:
    spec: BuildSpec
    trt: ModuleType
    abilities: tensorrt.Abilities
    plan: precision.PrecisionPlan
    outline: ModelOutline
    folder: Path
    stage: Stage
    logged: tensorrt.LoggedErrors = field(default_factory=tensorrt.LoggedErrors)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Scalar] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Further files to keep next to the engine, by the suffix of their names."""
    cancelled: threading.Event = field(default_factory=threading.Event)

    def build(self, model: Path, *, gpu: bool) -> None:
        """Build the engine, and write it and its layers."""
        trt, spec, abilities, plan = self.trt, self.spec, self.abilities, self.plan
        logger = tensorrt.make_logger(
            trt, path=self.folder / LOG, logged=self.logged, verbose=spec.verbose
        )
        if not abilities.builds_for_other_gpus:
            trt.init_libnvinfer_plugins(logger, "")
            tensorrt.load_plugins(trt, spec.plugins)
        builder = trt.Builder(logger)
        for flag, name in (("FP16", "platform_has_fast_fp16"), ("INT8", "platform_has_fast_int8")):
            known = flag in plan.flags and abilities.has(f"Builder.{name}")
            if known and not getattr(builder, name):  # TensorRT would emulate or replace it
                message = f"this GPU does not compute in {flag}"
                raise errors.UsageError(message, fix="--precision fp32, or build on another GPU")
        flags, kind = 0, trt.NetworkDefinitionCreationFlag  # TensorRT 11 needs neither flag
        if abilities.supports_weakly_typed and tensorrt.version_numbers(abilities.version) < (10,):
            flags |= 1 << int(kind.EXPLICIT_BATCH)
        if plan.typing == "strong" and abilities.supports_strongly_typed:
            flags |= 1 << int(kind.STRONGLY_TYPED)
        network = builder.create_network(flags)
        parser = trt.OnnxParser(network, logger)
        config = builder.create_builder_config()
        tensorrt.keep_until_exit(logger, builder, network, parser, config)
        started = time.perf_counter()
        # From a file, so that external weights are found; the parser keeps them alive.
        if not parser.parse_from_file(os.fspath(model.absolute())):
            raise self._parser_error(parser)
        self.facts["parse_s"] = time.perf_counter() - started
        self._configure(config)
        profiles = profiles_of(spec, tensors_of(network, "input"))
        for ranges in profiles:
            if config.add_optimization_profile(_profile(builder, network, ranges)) < 0:
                given = {name: f"{each.min} {each.opt} {each.max}" for name, each in ranges.items()}
                raise errors.UsageError("the shapes do not fit the model's inputs", facts=given)
        finish = self._calibrate(builder, config, network, profiles) if plan.calibrate else None
        cache = None
        if spec.timing_cache is not None:
            cache = tensorrt.TimingCache(config, path=Path(spec.timing_cache), abilities=abilities)
        data = self._serialize(builder, network, config)
        tensorrt.keep_until_exit(finish, cache, data)
        if finish is not None:
            finish()
        if cache is not None:
            use, facts = cache.save()
            self.notes.append(f"timing cache {tensorrt.USES[use]}")
            self.facts |= facts
            if use == "refused":
                self.files[".timing.cache.old"] = f"{Path(str(spec.timing_cache)).name}.old"
        part = Path(f"{spec.output}.part")
        part.write_bytes(memoryview(data))
        part.replace(spec.output)
        shapes = {name: span.opt for name, span in profiles[0].items()} if profiles else {}
        loads = gpu and not spec.strip_weights
        found = tensorrt.inspect_engine(trt, logger, data, shapes=shapes) if loads else None
        self._describe(network, found)

    def _configure(self, config: IBuilderConfig) -> None:
        """Set the configuration, except profiles and caches."""
        trt, spec, abilities = self.trt, self.spec, self.abilities
        if spec.workspace_bytes is not None:
            config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, spec.workspace_bytes)
        if spec.optimization_level is not None:
            config.builder_optimization_level = spec.optimization_level
        if spec.detailed_layers:
            config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
        (config.set_flag if self.plan.tf32 else config.clear_flag)(trt.BuilderFlag.TF32)
        if spec.strip_weights and not abilities.has("BuilderFlag.STRIP_PLAN"):
            message = f"{abilities.title} cannot leave weights out of an engine"
            facts = {"needs": "TensorRT 10 or later"}
            raise errors.UsageError(message, facts=facts, fix="leave --strip-weights out")
        kinds = {
            "VERSION_COMPATIBLE": spec.version_compatible,
            "STRIP_PLAN": spec.strip_weights,
            "REFIT": spec.refit,
        }
        for name in (*self.plan.flags, *(name for name, needed in kinds.items() if needed)):
            config.set_flag(getattr(trt.BuilderFlag, name))
        if abilities.needs_profile_sharing_flag:  # for --streams; later versions always do it
            config.set_preview_feature(trt.PreviewFeature.PROFILE_SHARING_0806, True)
        if spec.hardware_compatible:
            config.hardware_compatibility_level = trt.HardwareCompatibilityLevel.AMPERE_PLUS
        if spec.dla_core is not None:
            config.default_device_type = trt.DeviceType.DLA
            config.DLA_core = spec.dla_core
            config.set_flag(trt.BuilderFlag.GPU_FALLBACK)
        if "tactic_sources" in spec.options:
            if spec.options["tactic_sources"] != "none":
                raise errors.UsageError("the one value is none", fix="--opt tactic_sources=none")
            config.set_tactic_sources(0)
        if not spec.targets:
            return
        names = [name for name in trt.ComputeCapability.__members__ if name.startswith("SM")]
        facts = {"known": " ".join(f"sm_{name[2:]}" for name in names)}
        config.num_compute_capabilities = len(spec.targets)
        for index, text in enumerate(spec.targets):
            match = re.match(r"(?:sm_?)?(\d{1,2})\.?(\d)\Z", text.strip(), re.IGNORECASE)
            name = f"SM{match[1]}{match[2]}" if match else ""
            if name not in names:
                message = f"{text!r} is no GPU that {abilities.title} knows"
                fix = "write it like --target sm_86,sm_89"
                raise errors.UsageError(message, facts=facts, fix=fix)
            if not config.set_compute_capability(getattr(trt.ComputeCapability, name), index):
                raise errors.UsageError(f"{abilities.title} cannot build for {text}", facts=facts)

    def _parser_error(self, parser: OnnxParser) -> errors.InputError:
        """Return the error for a model that cannot be parsed: the node, its operator and a fix."""
        count, abilities, model = parser.num_errors, self.abilities, self.spec.model
        text, index, name, operator = "the parser gave no reason", -1, "", ""
        if count:
            problem = parser.get_error(0)
            text, index = str(problem.desc()), int(problem.node())
            if hasattr(problem, "node_name"):
                name, operator = problem.node_name() or "", problem.node_operator() or ""
        if 0 <= index < len(self.outline.nodes):
            node = self.outline.nodes[index]
            operator, name = operator or node.operator, name or node.name or node.outputs[0]
        facts: dict[str, object] = {"model": model.name}
        if operator:
            facts["node"] = f"number {index}, {name!r}" if name else f"number {index}"
            facts["operator"] = operator
        facts["reason"] = _one_line(text)
        if count > 1:
            facts["further"] = f"{count - 1} more, see the log"
        facts["parser"] = abilities.title
        what = f"the operator {operator}" if operator else "the model"
        plugin = "--plugin LIB that has it"
        plugin = f"-r tensorrt with {plugin}" if abilities.builds_for_other_gpus else plugin
        newer = next(iter(precision.opset_warnings(self.outline, abilities=abilities)), None)
        hint = _hint(PARSER_HINTS, text, model=model.path, plugin=plugin)
        fix = newer or hint or "look into the log with --verbose"
        return errors.InputError(f"{abilities.title} cannot parse {what}", facts=facts, fix=fix)

    def _calibrate(
        self,
        builder: IBuilder,
        config: IBuilderConfig,
        network: INetworkDefinition,
        profiles: list[Ranges],
    ) -> Callable[[], None]:
        """Attach a calibrator (TensorRT up to 10); return a function to call after the build."""
        spec, feeds, items = self.spec, list[FeedArrays](), 0
        if spec.calibration is not None:
            inputs, ranges = tensors_of(network, "input"), profiles[0] if profiles else {}
            shapes = {each.name: tuple(int(dim or 1) for dim in each.shape) for each in inputs}
            shapes |= {name: ranges[name].opt for name in shapes if name in ranges}
            found = calibration_items(spec, inputs, shapes=shapes)
            batch = shapes[next(iter(found.rows or shapes))][0]
            feeds = found.feeds(batch=batch, fixed=True)
            if not feeds:
                raise errors.InputError(
                    "there are fewer items to calibrate with than one batch holds",
                    facts={"items": len(found), "batch": batch},
                    fix="give more data, or a smaller --shape-opt",
                )
            for name, values in feeds[0].items():
                if values.shape != shapes[name]:
                    raise errors.InputError(
                        f"the data for {name!r} do not have the shape of the input",
                        facts={"data": values.shape, "input": shapes[name]},
                    )
            items = len(feeds) * batch
        method, given = spec.calibration_method, spec.calibration_cache
        if feeds:  # a cache for exactly this model and these data
            key = tensorrt.CacheKey(
                model=spec.model.sha256 or model_ref(Path(spec.model.path)).sha256 or "",
                data=feeds_sha256(feeds),
                batch=batch,
                algorithm=method,
                tensorrt=self.abilities.version,
                prepared=spec.prepared,
            )
            name = f"{key.model[:12]}-{key.data[:12]}-b{batch}-{method}-{key.tensorrt}.cache"
            path = Path(given) if given else cache_folder() / "calibration" / name
            scales = tensorrt.ScaleCache(path, key=key)
        elif given is not None and Path(given).is_file():  # used without a check
            scales = tensorrt.ScaleCache(Path(given), key=None)
        else:
            message = f"there is no calibration cache {given}"
            raise errors.UsageError(message, fix="--data DATA.npz makes one")

        def report(done: int, count: int) -> None:
            self.stage.progress(0.0, f"calibrating, batch {done + 1} of {count}")

        calibrator = tensorrt.make_calibrator(
            self.trt, algorithm=method, cache=scales, feeds=feeds, report=report
        )
        config.int8_calibrator = calibrator
        if feeds and profiles:
            fixed = {name: ShapeProfile(min=s, opt=s, max=s) for name, s in shapes.items()}
            config.set_calibration_profile(_profile(builder, network, fixed))

        def finish() -> None:
            failed = calibrator.problem  # an error in a callback from TensorRT
            if failed is not None:
                raise errors.InputError("calibration failed", facts={"reason": failed}) from failed
            self.facts["calibration"] = method
            if items:  # unknown for a given calibration cache
                self.facts["calibration_items"] = items
            self.facts["calibration_cache"] = "hit" if scales.used else "new"
            source = f"scales of {scales.path}" if scales.used else f"{items} items"
            self.notes.append(f"calibrated INT8 ({method}) with {source}")
            if spec.calibration == RANDOM:
                self.notes.append("calibrated with random data: no evidence of accuracy")

        return finish

    def _serialize(
        self, builder: IBuilder, network: INetworkDefinition, config: IBuilderConfig
    ) -> IHostMemory:
        self.stage("build")
        before = {}
        if self.abilities.has("IBuilderConfig.progress_monitor"):
            config.progress_monitor = tensorrt.make_monitor(
                self.trt, report=self.stage.progress, cancelled=self.cancelled.is_set
            )
            if threading.current_thread() is threading.main_thread():
                # The progress monitor cancels: a signal ends the build at its next step.
                for number in (signal.SIGTERM, signal.SIGINT):
                    before[number] = signal.signal(number, lambda *_: self.cancelled.set())
        started = time.perf_counter()
        try:
            data = builder.build_serialized_network(network, config)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        self.facts["build_s"] = time.perf_counter() - started
        if self.cancelled.is_set():
            raise errors.JobError("the build was cancelled")
        if data is None:
            cause = self.logged.cause() or "it gave no reason"
            text = _one_line(cause)
            short = text if len(text) <= 160 else f"{text[:160]}…"
            raise errors.JobError(
                f"{self.abilities.title} did not build the engine: {short}",
                facts={"model": self.spec.model.name, "reason": text},
                fix=_hint(BUILD_HINTS, cause, model=self.spec.model.path),
            )
        return data

    def _describe(
        self, network: INetworkDefinition, found: tuple[str, dict[str, Scalar]] | None
    ) -> None:
        """Write the layers of the engine if it could be loaded, else those of the network."""
        self.facts["network_layers"] = int(network.num_layers)
        for kind in ("input", "output"):
            tensors = tensors_of(network, kind)
            shown = (f"{each.name} {each.dtype} " + text_from_shape(each.shape) for each in tensors)
            self.facts[f"{kind}s"] = ", ".join(shown)
        if found is None:
            (self.folder / GRAPH).write_bytes(json_from_value(_layers(network)))
            self.facts["layers_from"] = "network"
            return
        text, facts = found
        (self.folder / GRAPH).write_text(text, encoding="utf-8")
        self.facts |= {**facts, "layers_from": "engine"}
        try:
            layers = graph_from_json(text, where=GRAPH).layers
        except errors.ParseError:
            return
        kinds = Counter(each.dtype for made in layers for each in made.outputs if each.dtype)
        if not kinds:
            return
        self.facts["layer_outputs"] = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common())
        wanted = self.spec.precision
        if wanted in precision.FLAGS and wanted not in kinds and self.plan.typing == "weak":
            self.notes.append(
                f"{wanted} was allowed, and the builder chose it for no layer: this engine "
                f"computes in {kinds.most_common(1)[0][0]}"
            )


def build(
    spec: BuildSpec, *, folder: Path, stage: Stage, flavour: tensorrt.Flavour
) -> BuildOutcome:
    """Build one engine; the log and the layers are written to the folder."""
    stage("load")
    outline = outline_of(Path(spec.model.path))
    trt, abilities = tensorrt.load(flavour)
    given = spec.options.get("version")
    if given and not f"{abilities.version}.".startswith(f"{given}."):
        fix = "leave --opt version out, or --python PATH of an interpreter that has it"
        raise errors.UsageError(f"{abilities.title} is installed here, not {given}", fix=fix)
    if spec.targets and not abilities.builds_for_other_gpus:
        message = f"{abilities.title} builds for the GPU of this machine, not for a target"
        raise errors.UsageError(message, fix="-r tensorrt-rtx, or leave --target out")
    for name, (flag, reason) in RTX_LACKS.items() if abilities.builds_for_other_gpus else ():
        value = spec.options.get(name) if name in OPTIONS else getattr(spec, name)
        if value is not None and value is not False and value != ():
            message = f"{flag} has no effect with {abilities.title}: {reason}"
            raise errors.UsageError(message, fix=f"leave {flag} out")
    errors.refuse_unknown_options(f"builder {spec.runtime}", spec.options, OPTIONS)
    plan = precision.precision_plan(spec, outline.carried, abilities=abilities)
    missing = tensorrt.driver_problem()  # first, because TensorRT may crash without a driver
    if missing is not None and not abilities.builds_for_other_gpus:
        message = "TensorRT needs a GPU to build; TensorRT-RTX does not"
        fix = "build where a GPU is, or -r tensorrt-rtx"
        raise errors.UnavailableError(message, facts={"here": missing}, fix=fix)
    if spec.device not in (None, "cuda:0") and not abilities.builds_for_other_gpus:
        open_cuda(spec.device)  # TensorRT builds on this process's current device
    if missing is not None and (spec.refit or spec.strip_weights):
        flag = "--refit" if spec.refit else "--strip-weights"
        message = f"{abilities.title} needs a GPU for {flag}"
        fix = f"leave {flag} out, or build where a GPU is"
        raise errors.UnavailableError(message, facts={"here": missing}, fix=fix)
    work = EngineBuild(spec, trt, abilities, plan, outline, folder, stage)
    for text in precision.opset_warnings(outline, abilities=abilities):
        work.notes.append(text)
        stage.progress(0.0, text)
    prepared = precision.prepare_model(spec, plan, folder=folder, stage=stage)
    work.notes += prepared.notes
    work.build(prepared.path, gpu=missing is None)
    facts: dict[str, Scalar] = {}
    with suppress(OSError):  # TensorRT logs memory, times and sizes
        text = (folder / LOG).read_text(encoding="utf-8", errors="replace")
        # The reader of trtexec logs expects a banner; the other lines are the same.
        banner = "&&&& RUNNING TensorRT.trtbench # trtbench build"
        logged = read_log(f"{banner}\n{text}", where=LOG).runs[-1:]
        names = ("peak_cpu_bytes", "peak_gpu_bytes", "scratch_bytes", "weights_bytes", "optimize_s")
        values = {name: getattr(run.facts, name, None) for run in logged for name in names}
        # Without a GPU the allocators print zero, which is not a measurement.
        facts = {name: value for name, value in values.items() if value}
    facts |= work.facts
    build_s = facts.pop("build_s", None)
    facts["peak_host_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    endings = {".build.log": LOG, ".graph.json": GRAPH, **prepared.files, **work.files}
    conditions: dict[str, Scalar] = {
        "flavour": abilities.flavour,
        "typing": plan.typing,
        "precision": plan.precision,
        "tf32": plan.tf32,
    }
    return BuildOutcome(
        command=repeat_command(spec),
        version=abilities.version,
        build_s=float(build_s) if isinstance(build_s, int | float) else None,
        conditions={name: Fact(value=value) for name, value in conditions.items()},
        facts=facts,
        files={end: name for end, name in endings.items() if (folder / name).is_file()},
        notes=tuple(dict.fromkeys(work.notes)),
    )


def _profile(
    builder: IBuilder, network: INetworkDefinition, ranges: Mapping[str, ShapeProfile]
) -> IOptimizationProfile:
    """Return an optimization profile; shape tensors get their values from the ranges too."""
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        if (span := ranges.get(tensor.name)) is not None:
            put = profile.set_shape_input if tensor.is_shape_tensor else profile.set_shape
            put(tensor.name, span.min, span.opt, span.max)
    return profile


def tensors_of(network: INetworkDefinition, kind: str) -> list[TensorSpec]:
    """Return the inputs or outputs of a network; dynamic dimensions are ``None``."""
    inputs = kind == "input"
    found = []
    for index in range(network.num_inputs if inputs else network.num_outputs):
        tensor = network.get_input(index) if inputs else network.get_output(index)
        shape = tuple(dim if dim >= 0 else None for dim in _dims(tensor))
        name = str(getattr(tensor.dtype, "name", tensor.dtype))
        dtype = tensorrt.TYPES.get(name, (name.lower(),))[0]
        found.append(TensorSpec(name=tensor.name, dtype=dtype, shape=shape))
    return found


def _layers(network: INetworkDefinition) -> dict[str, object]:
    """Return the layers of a network before fusion, in the format of the engine inspector."""
    words = {"FLOAT": "Float", "HALF": "Half", "INT8": "Int8", "INT32": "Int32", "BOOL": "Bool"}

    def edge(tensor: ITensor) -> dict[str, object]:
        name = str(getattr(tensor.dtype, "name", tensor.dtype))
        dims = list(_dims(tensor))
        return {"Name": tensor.name, "Dimensions": dims, "Format/Datatype": words.get(name, name)}

    layers = []
    for number in range(network.num_layers):
        layer = network.get_layer(number)
        inputs = [layer.get_input(index) for index in range(layer.num_inputs)]
        outputs = [layer.get_output(index) for index in range(layer.num_outputs)]
        layers.append(
            {
                "Name": layer.name,
                "LayerType": str(getattr(layer.type, "name", layer.type)),
                "Inputs": [edge(tensor) for tensor in inputs if tensor is not None],
                "Outputs": [edge(tensor) for tensor in outputs if tensor is not None],
                "Metadata": layer.metadata,
            }
        )
    names = [t.name for kind in ("input", "output") for t in tensors_of(network, kind)]
    return {"Layers": layers, "Bindings": names, "Source": "network before optimization"}


def _dims(tensor: ITensor) -> tuple[int, ...]:
    try:
        return tuple(int(dim) for dim in tensor.shape)
    except ValueError:  # pybind11 raises it for an unknown rank
        return ()


def _hint(table: Mapping[str, str], text: str, *, model: str, plugin: str = "") -> str | None:
    fits = (hint for pattern, hint in table.items() if re.search(pattern, text.lower()))
    found = next(fits, None)
    return found.format(model=shlex.quote(model), plugin=plugin) if found else None


def _one_line(text: str) -> str:
    """Return a message in one line, without the location in the source of TensorRT."""
    line = " ".join(text.split())
    return re.sub(r"\s*\(?In \S+ at \S+:\d+\)?|\s*\[[^\s[]{1,400}::\d+\]", "", line).strip()
