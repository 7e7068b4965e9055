"""Builds the RunSpec of a request, and chooses the default runtime."""

import contextlib
import re
import shlex
from pathlib import Path

from trtbench.analysis.onnx_graph import RANDOM
from trtbench.core import spec as core
from trtbench.core.errors import TrtbenchError, UsageError, near_miss, refuse_unknown_options
from trtbench.core.run import matches_precision, types_of
from trtbench.host.arrays import check_inputs_exist
from trtbench.host.files import utf8_path
from trtbench.models.identity import SUFFIXES as FORMATS
from trtbench.models.identity import model_ref, precision_of_engine, with_parts
from trtbench.models.inputs import given_values
from trtbench.models.torch_models import is_library_model
from trtbench.requests import fields
from trtbench.requests.measure import BenchRequest
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes.contract import Runtime
from trtbench.tasks import TASKS
from trtbench.tasks._feed import task_of_data
from trtbench.tasks.contract import settings_with_defaults
from trtbench.trtexec.version import flavour_of

MIN_QUERIES = 10  # minimum number of queries, however short the requested time, as in trtexec
COMPUTED_FIELDS = (
    "model", "runtime", "shapes", "inputs", "warmup", "launches", "device", "options", "protocol",
    "cuda_graph", "transfers", "lock_clocks", "profile",
)  # fmt: skip
"""Fields of a spec that are computed here; all others are copied from the request."""


def default_runtime(
    reference: core.ModelRef, config: Config, *, with_outputs: bool = False
) -> str | None:
    """Return the first runtime for a model that works here (and has outputs), else the first."""
    flavour = None
    if reference.format == "engine":
        with open(reference.path, "rb") as file:
            flavour = flavour_of(file.read(4)) or "tensorrt"
    ranked = [
        (name, runtime)
        for name, runtime in runtimes_for_format(reference.format)
        if (flavour is None or runtime.FLAVOUR in ("", flavour))
        and (runtime.open_session is not None or not with_outputs)  # programs return none
    ]
    for name, runtime in ranked:  # here, or in the interpreter configured for it
        if config.python_for(name) is not None or runtime.available() is None:
            return name
    return ranked[0][0] if ranked else None


def first_choice(model_format: core.ModelFormat) -> str:
    """Return the first runtime for a format, whether or not it works here; empty if none."""
    return next((name for name, _ in runtimes_for_format(model_format)), "")


def runtimes_for_format(model_format: core.ModelFormat) -> list[tuple[str, Runtime]]:
    """Return the runtimes for a format, the preferred one first."""
    chosen = []
    for name in RUNTIMES.names():
        with contextlib.suppress(TrtbenchError):  # a broken plug-in of another package
            runtime = RUNTIMES.load(name)
            if model_format in runtime.CHOSEN_FOR:
                chosen.append((runtime.CHOSEN_FOR[model_format], name, runtime))
    return [(name, runtime) for _, name, runtime in sorted(chosen, key=lambda each: each[:2])]


def why_unusable(runtime: str, config: Config, *, lenient: bool) -> str | None:
    """Return why a runtime cannot be used here; one with its own interpreter is not checked."""
    try:
        module = RUNTIMES.load(runtime)
    except UsageError as problem:
        if not lenient:
            raise
        return problem.message
    if config.python_for(runtime) or (reason := module.available()) is None:
        return None
    fix = module.fix()
    return f"{runtime} is not usable here: {reason}" + (f" ({fix})" if fix else "")


def run_spec(
    request: BenchRequest, config: Config, reference: core.ModelRef | None = None
) -> core.RunSpec:
    """Return a run's spec, by flags, settings, defaults; ``reference``: a model not made yet."""
    if reference is None and is_library_model(str(request.model)):
        reference = core.ModelRef(path=str(request.model), format="torch")
    elif reference is None:
        formats = RUNTIMES.load(request.runtime).FORMATS if request.runtime else ()
        reference = model_ref(Path(request.model), folders="folder" in formats)
    asked = fields.with_settings(request, config.defaults)
    name = asked.runtime or default_runtime(reference, config)
    if name is None:
        names = ", ".join(RUNTIMES.names())
        raise UsageError(f"no runtime is known for {reference.name}", fix=f"-r NAME, of {names}")
    module = RUNTIMES.load(name)
    built = ("onnx",) if "engine" in module.FORMATS else ()  # an engine is built from it
    if reference.format not in ("unknown", *module.FORMATS, *built):
        other = first_choice(reference.format)
        message = f"the runtime {name} does not execute {reference.format} files"
        facts = {"file": reference.name, "it executes": ", ".join(module.FORMATS)}
        raise UsageError(message, facts=facts, fix=f"-r {other}" if other else None)
    if asked.extra_args and not module.TAKES_ARGUMENTS:
        facts = {"given": shlex.join(asked.extra_args)}
        fix = "one model at a time; trtbench sweep measures several, compare compares them"
        raise UsageError(f"the runtime {name} takes no further arguments", facts=facts, fix=fix)
    if asked.profile_index and not module.EXECUTES_ENGINES:
        raise UsageError("only engines have optimization profiles", fix="leave --profile-index out")
    refuse_other_precision(reference, asked.precision)
    usual: core.Protocol = module.DEFAULT_PROTOCOL if asked.slo is None else "server"
    protocol = asked.protocol or usual
    on_device = protocol in core.ON_DEVICE
    if on_device and asked.cuda_graph == "off":
        fix = "--protocol pipeline --no-transfers, or leave --cuda-graph out"
        raise UsageError(f"the protocol {protocol} is measured with a CUDA graph", fix=fix)
    given = _given_options(asked, runtime=name)
    if module.OPTIONS:  # a runtime of another package need not list them
        refuse_unknown_options(f"runtime {name}", given, module.OPTIONS)
    options = {**config.options_for(name), **given}
    if module.model_parts is not None:
        files, made_with = module.model_parts(reference.path, options)
        reference = with_parts(reference, files, made_with=made_with)
    telemetry_s = None if asked.telemetry is None else fields.seconds(asked.telemetry)
    if telemetry_s is not None and telemetry_s < 0.001:
        raise UsageError("the shortest interval of telemetry is 1 ms", fix="--telemetry 100ms")
    clock = asked.lock_clocks
    if clock is not None and clock not in ("base", "max") and not clock.isdecimal():
        raise UsageError(f"--lock-clocks {clock} is not valid", fix="base, max, or 1500 (in MHz)")
    warmup, stop = _lengths(asked)
    if asked.values and module.open_session is None:
        raise UsageError(f"{name} makes its inputs itself", fix="leave out --input")
    usual_profile = bool(asked.top or module.DEFAULT_PROFILE)
    spec = core.RunSpec(
        model=reference,
        runtime=name,
        shapes={key: tuple(shape) for key, shape in asked.shapes.items()},
        inputs=_inputs(asked, reference),
        warmup=warmup,
        stop=stop,
        launches=asked.launches or 1,
        device=device_name(asked.device),
        options=options,
        protocol=protocol,
        cuda_graph=asked.cuda_graph or ("on" if on_device else "off"),
        transfers=asked.transfers and not on_device,
        gap_s=fields.seconds(asked.gap) if asked.gap is not None else 0.0,
        rate_hz=None if asked.rate is None else fields.hertz(asked.rate),
        telemetry_s=telemetry_s,
        lock_clocks=clock,
        profile=usual_profile if asked.profile is None else asked.profile,
    )
    same = {
        field.name: getattr(asked, field.name)
        for field in fields.fields_of(BenchRequest)
        if field.name in core.RunSpec.__struct_fields__ and field.name not in COMPUTED_FIELDS
    }
    spec = spec.having(**same)
    if module.check is not None:  # before anything waits for the device, or is built
        searched = {"rate_hz": spec.rate_hz or 1.0, "stop": core.Length(iterations=1)}
        module.check(spec.having(**searched) if asked.slo is not None else spec)
    return spec


def side_spec(
    request: fields.VerbRequest,
    model: fields.File,
    runtime: str | None,
    config: Config,
    *,
    launches: int | None = None,
    place: tuple[int, int] = (0, 1),
) -> core.RunSpec:
    """Return a side's spec, without layer times; ``place``: its index, and the number of sides."""
    own: dict[str, object] = {
        "model": model,
        "runtime": runtime,
        "profile": False,
        "launches": launches,
        "device": value_of_side(getattr(request, "device", None), *place, what="--device"),
    }
    if not isinstance(request, fields.LengthFields):  # data are fed, item by item
        own |= {"data": None, "task": None, "settings": {}}
    if FORMATS.get(Path(model).suffix.lower(), "torch") != "torch":  # flags of the other sides
        own |= {"weights": "default", "factory": None, "trust": False}
    if arguments := value_of_side(getattr(request, "args", None), *place, what="--args"):
        own["extra_args"] = tuple(shlex.split(arguments))
    return run_spec(fields.converted(request, BenchRequest, **own), config)


def value_of_side(given: fields.PerSide | None, index: int, sides: int, *, what: str) -> str | None:
    """Return the value for one side: the common one, or that of the side."""
    values = (given,) if given is None or isinstance(given, str | Path) else given
    if len(values) <= 1:
        return values[0] if values else None
    if len(values) != sides:
        fix = "give it once, or once per side in order"
        raise UsageError(f"{what} is given {len(values)} times for {sides} sides", fix=fix)
    return values[index]


def refuse_other_precision(reference: core.ModelRef, precision: str | None) -> None:
    """Raise an error if an engine was built in another precision than the requested one."""
    built = precision_of_engine(reference) if precision is not None else None
    if precision and built and not matches_precision(precision, types_of(built)):
        message = f"{reference.name} was built in {built}, not in {precision}"
        fix = f"leave --precision out, or trtbench build MODEL.onnx --precision {precision}"
        raise UsageError(message, facts={"recorded in": f"{reference.path}.json"}, fix=fix)


def _given_options(asked: BenchRequest, *, runtime: str) -> dict[str, str]:
    """Return the options that a request has for a runtime: of ``torch:half``, only torch's."""
    loading = {"weights": str(asked.weights), "factory": asked.factory or "default"}
    loading["trust"] = "on" if asked.trust else "default"
    given = {key: value for key, value in loading.items() if value != "default"}
    for key, value in asked.options.items():
        owner, colon, option = key.partition(":")
        if colon and owner not in RUNTIMES.names():
            guess = near_miss(owner, RUNTIMES.names())
            fix = f"--opt {guess}:{option}={value}" if guess else f"--opt {option}={value}"
            raise UsageError(f"--opt {key} names no runtime", fix=fix)
        if not colon:
            given[key] = value
        elif owner == runtime:
            given[option] = value
    return given


def _lengths(asked: BenchRequest) -> tuple[core.Warmup, core.Length]:
    warmup, stop = core.Warmup(until_steady=asked.until_steady), core.Length(seconds=3.0)
    if asked.warmup is not None or asked.warmup_iterations is not None:
        warm_s = fields.seconds(asked.warmup) if asked.warmup is not None else None
        floor = core.Length(seconds=warm_s, iterations=asked.warmup_iterations)
        warmup = warmup.having(floor=floor, cap_s=max(warmup.cap_s, warm_s or 0.0))
    if asked.duration is not None or asked.iterations is not None:
        duration_s = fields.seconds(asked.duration) if asked.duration is not None else None
        if not duration_s and asked.iterations is None:
            raise UsageError("--duration must be longer than 0 s", fix="--duration 3s")
        stop = core.Length(seconds=duration_s)
    return warmup, stop.having(iterations=asked.iterations or MIN_QUERIES)


def _inputs(asked: BenchRequest, model: core.ModelRef) -> core.InputSpec:
    """Return where inputs come from; images need a task that prepares them."""
    task, given = task_of_data(asked.data, asked.task, asked.settings, [model])
    source, values = None, given_values(asked.values, data=asked.data)
    if asked.data is not None and asked.data != RANDOM:
        path = Path(asked.data).absolute()
        check_inputs_exist(path, folders=task is not None)
        source = str(utf8_path(path))
    if task is None:
        return core.InputSpec(source=source, seed=asked.seed, settings={**values})
    flags = TASKS.load(task).FLAGS
    own = {"usual_size", *(flag.key for flag in flags if flag.preprocessing)}
    settings = {k: v for k, v in settings_with_defaults(flags, given).items() if k in own}
    return core.InputSpec(source=source, seed=asked.seed, task=task, settings=settings)


def device_name(name: str | None) -> str | None:
    """Return a device's one name; CPU runtimes ignore it, so an invalid one is refused here."""
    if name is None or re.fullmatch(r"[a-z_]+(:\d+)?", name):
        return name and re.sub(r"^cuda$", "cuda:0", re.sub(r"^gpu\b", "cuda", name))
    number = re.search(r"\d+", name)
    fix = f"--device cuda:{number[0] if number else 0}, or cpu"
    raise UsageError(f"{name!r} is not a device", fix=fix)
