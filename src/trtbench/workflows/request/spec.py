"""From words to a RunSpec: what the command line and the Python API both say."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from trtbench.domain.labels import fits, types_of
from trtbench.domain.spec import (
    ON_DEVICE,
    CudaGraph,
    InputSpec,
    Length,
    ModelFormat,
    ModelRef,
    Protocol,
    RunSpec,
    Warmup,
)
from trtbench.domain.words import Arrivals
from trtbench.errors import UsageError, near_miss, refuse_unknown_options
from trtbench.formats.arrival_trace import arrivals_from_file
from trtbench.host.arrays import refuse_missing
from trtbench.host.files import utf8_path
from trtbench.host.images import SUFFIXES
from trtbench.models.identity import model_ref, with_parts
from trtbench.models.sidecar import precision_of_engine
from trtbench.models.torch_models import is_named
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes.contract import Runtime
from trtbench.tasks import TASKS
from trtbench.tasks.contract import completed
from trtbench.workflows.request.choice import default_runtime, first_choice
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.fields import VerbRequest, converted, fields_of, settled
from trtbench.workflows.request.kinds import Duration, File, PerSide, hertz, seconds
from trtbench.workflows.request.measuring import BenchRequest

LEAST_QUERIES = 10
"""Measured at the least, however short the time that was asked for, as trtexec does."""

MADE = (
    "model", "runtime", "shapes", "inputs", "warmup", "launches", "device", "options", "protocol",
    "cuda_graph", "transfers", "lock_clocks", "profile", "arrivals", "switch_shapes",
)  # fmt: skip
"""Fields of a spec that are worked out here; all others that a request has are as it says."""


def run_spec(request: BenchRequest, config: Config) -> RunSpec:
    """Settle a run: what is asked for first, then configuration, then defaults."""
    reference = _reference(request.model, request.runtime)
    asked = settled(request, config.defaults)
    name = asked.runtime or default_runtime(reference, config)
    if name is None:
        raise UsageError(
            f"no runtime is known for {reference.name}",
            facts={"runtimes": ", ".join(RUNTIMES.names())},
            fix="say which with -r",
        )
    module = _refuse_format(name, reference.format, reference.name)
    refuse_other_precision(reference, asked.precision)
    if asked.extra_args and not module.TAKES_ARGUMENTS:
        raise UsageError(
            f"the runtime {name} takes no further arguments",
            facts={"given": shlex.join(asked.extra_args)},
            fix="measure one model at a time; compare takes several",
        )
    if module.open_session is None and (asked.switch_shapes or asked.switch_profile is not None):
        raise UsageError(
            f"{name} is a program of its own, and changes no shapes between queries",
            fix=f"-r {other}" if (other := first_choice(reference.format)) != name else None,
        )
    default: Protocol = module.DEFAULT_PROTOCOL
    protocol = asked.protocol or default
    _refuse_contradiction(protocol, asked.cuda_graph)
    layers = module.DEFAULT_PROFILE if asked.profile is None else asked.profile
    given = own_options(asked.options, name)
    if module.OPTIONS:  # a runtime of another package need not list them
        refuse_unknown_options(f"runtime {name}", given, module.OPTIONS)
    options = {**config.options_for(name), **given}
    if module.model_parts is not None:
        files, made_with = module.model_parts(reference.path, options)
        reference = with_parts(reference, files, made_with=made_with)
    kind, times = _arrivals(asked.arrivals)
    spec = RunSpec(
        model=reference,
        runtime=name,
        shapes={key: tuple(shape) for key, shape in asked.shapes.items()},
        switch_shapes={key: tuple(shape) for key, shape in asked.switch_shapes.items()},
        inputs=_inputs(asked),
        warmup=_warmup(asked),
        stop=_stop(asked, arrivals=len(times)),
        launches=asked.launches or 1,
        device=_device(asked.device),
        options=options,
        protocol=protocol,
        cuda_graph=asked.cuda_graph or ("on" if protocol in ON_DEVICE else "off"),
        transfers=asked.transfers and protocol not in ON_DEVICE,
        gap_s=seconds(asked.gap) if asked.gap is not None else 0.0,
        rate_hz=_rate(asked, times),
        arrivals=kind,
        arrival_times_s=times,
        telemetry_s=_interval(asked.telemetry),
        lock_clocks=_clock(asked.lock_clocks),
        profile=layers,
    )
    same = {
        field.name: getattr(asked, field.name)
        for field in fields_of(BenchRequest)
        if field.name in RunSpec.__struct_fields__ and field.name not in MADE
    }
    return spec.having(**same)


def side_spec(
    request: VerbRequest,
    model: File,
    runtime: str | None,
    config: Config,
    *,
    launches: int | None = None,
    place: tuple[int, int] = (0, 1),
) -> RunSpec:
    """Settle one side of several: as they are all asked for, but layers are not timed.

    The place is the number of the side and how many there are, where sides differ in more.
    """
    own: dict[str, object] = {
        "model": model,
        "runtime": runtime,
        "profile": False,
        "launches": launches,
        "device": pick(getattr(request, "device", None), *place, what="--device"),
    }
    arguments = pick(getattr(request, "args", None), *place, what="--args")
    if arguments:
        own["extra_args"] = tuple(shlex.split(arguments))
    return run_spec(converted(request, BenchRequest, **own), config)


def _reference(model: str | Path, runtime: str | None) -> ModelRef:
    """Describe a model, or one that a library has by name; some runtimes execute folders."""
    if is_named(str(model)):
        return ModelRef(path=str(model), format="torch")
    formats = getattr(RUNTIMES.load(runtime), "FORMATS", ()) if runtime else ()
    return model_ref(Path(model), folders="folder" in formats)


def own_options(options: Mapping[str, str], runtime: str) -> dict[str, str]:
    """Keep the options that are for a runtime: ``torch:half`` is for that one alone."""
    found = {}
    for key, value in options.items():
        owner, colon, rest = key.partition(":")
        if colon and owner not in RUNTIMES.names():
            guess = near_miss(owner, RUNTIMES.names())
            raise UsageError(
                f"--opt {key} names no runtime",
                fix=f"--opt {guess}:{rest}={value}" if guess else f"--opt {rest}={value}",
            )
        if not colon or owner == runtime:
            found[rest if colon else key] = value
    return found


def _inputs(asked: BenchRequest) -> InputSpec:
    """Settle inputs; an image needs a task that prepares it."""
    source = _source(asked.inputs)
    if source is None or Path(source).suffix.lower() not in SUFFIXES:
        if asked.task is not None:
            raise UsageError("--task says how an image is prepared", fix="--inputs photo.jpg")
        return InputSpec(source=source, seed=asked.seed)
    if asked.task is None:
        raise UsageError(
            f"nobody says how {Path(source).name} becomes an input",
            fix=f"--task {' or --task '.join(TASKS.names())}: it is prepared as for eval",
        )
    flags = TASKS.load(asked.task).FLAGS
    own = {flag.key for flag in flags if flag.preprocessing}
    settings = {k: v for k, v in completed(flags, asked.settings).items() if k in own}
    return InputSpec(source=source, seed=asked.seed, task=asked.task, settings=settings)


def _source(inputs: str | Path | None) -> str | None:
    """Tell where inputs come from, which must be there before anything is started."""
    if inputs is None:
        return None
    source = Path(inputs).absolute()
    refuse_missing(source)
    return str(utf8_path(source))


def _interval(value: Duration | None) -> float | None:
    if value is None:
        return None
    length = seconds(value)
    if length < 0.001:
        raise UsageError("telemetry looks at most 1000 times a second", fix="--telemetry 100ms")
    return length


def _device(name: str | None) -> str | None:
    """Refuse what is no device's name: a runtime for the CPU would not look at it."""
    if name is None or re.fullmatch(r"[a-z_]+(:\d+)?", name):
        return name and re.sub(r"^gpu\b", "cuda", name)
    number = re.search(r"\d+", name)
    raise UsageError(
        f"{name!r} is no device", fix=f"--device cuda:{number[0] if number else 0}, or cpu"
    )


def _clock(value: str | None) -> str | None:
    if value is None or value in ("base", "max") or value.isdecimal():
        return value
    raise UsageError(f"--lock-clocks {value} cannot be read", fix="base, max, or 1500 (in MHz)")


def _refuse_contradiction(protocol: Protocol, cuda_graph: CudaGraph | None) -> None:
    """Refuse a protocol without the CUDA graph that makes it what it is."""
    if protocol in ON_DEVICE and cuda_graph == "off":
        raise UsageError(
            f"the protocol {protocol} is measured with a CUDA graph",
            fix="--protocol pipeline --no-transfers, or leave --cuda-graph out",
        )


def _refuse_format(runtime: str, model_format: ModelFormat, name: str) -> Runtime:
    module = RUNTIMES.load(runtime)
    if model_format == "unknown" or model_format in module.FORMATS:
        return module
    raise UsageError(
        f"the runtime {runtime} does not execute {model_format} files",
        facts={"file": name, "it executes": ", ".join(module.FORMATS)},
        fix=_way_to(module, model_format, name),
    )


def _way_to(module: Runtime, model_format: ModelFormat, name: str) -> str | None:
    """Say what executes a file as it is, and what makes of it the kind that was asked for."""
    other = first_choice(model_format)
    fix = f"-r {other}" if other else None
    if model_format == "onnx" and "engine" in module.FORMATS:
        return f"trtbench build {shlex.quote(name)}, and bench the engine" + (
            f"; or {fix}" if fix else ""
        )
    return fix


def refuse_other_precision(reference: ModelRef, precision: str | None) -> None:
    """Refuse to call an engine by another precision than the one it was built in."""
    built = precision_of_engine(reference) if precision is not None else None
    if precision is None or built is None or fits(precision, types_of(built)):
        return
    raise UsageError(
        f"{reference.name} was built in {built}, not in {precision}",
        facts={"told by": f"{reference.path}.json"},
        fix=f"leave --precision out, or trtbench build MODEL.onnx --precision {precision}",
    )


def pick(given: PerSide | None, index: int, sides: int, *, what: str) -> str | None:
    """Take the one value for all sides, or the side's own."""
    values = (given,) if given is None or isinstance(given, str | Path) else given
    if len(values) <= 1:
        return values[0] if values else None
    if len(values) != sides:
        raise UsageError(
            f"{what} is given {len(values)} times for {sides} sides",
            fix="give it once, or once per side in order",
        )
    return values[index]


def _warmup(asked: BenchRequest) -> Warmup:
    standard = Warmup()
    length, iterations = asked.warmup, asked.warmup_iterations
    if length is None and iterations is None:
        return standard.having(until_steady=asked.until_steady)
    floor = Length(seconds=seconds(length) if length is not None else None, iterations=iterations)
    cap_s = max(standard.cap_s, floor.seconds or 0.0)
    return Warmup(floor=floor, until_steady=asked.until_steady, cap_s=cap_s)


def _arrivals(given: File) -> tuple[Arrivals, tuple[float, ...]]:
    """Name how queries are spread, or read when they came."""
    if given in ("poisson", "constant"):
        return given, ()  # type: ignore[return-value]
    path = Path(given)
    if not path.exists():
        raise UsageError(
            f"--arrivals {given} is neither poisson nor constant, and there is no such file",
            fix="--arrivals poisson",
        )
    return "trace", arrivals_from_file(path)


def _rate(asked: BenchRequest, times: tuple[float, ...]) -> float | None:
    """Take the rate that was asked for; a trace has one of its own."""
    if asked.rate is not None:
        return hertz(asked.rate)
    return (len(times) - 1) / times[-1] if times and asked.slo is None else None


def _stop(asked: BenchRequest, *, arrivals: int = 0) -> Length:
    """Settle a length by time, by count or both; a trace is sent once, whole."""
    if arrivals and asked.duration is None and asked.iterations is None and asked.slo is None:
        return Length(iterations=arrivals)
    if asked.duration is None and asked.iterations is None:
        return Length(seconds=3.0, iterations=LEAST_QUERIES)
    length = seconds(asked.duration) if asked.duration is not None else None
    if not length and asked.iterations is None:
        raise UsageError("a duration of 0 s measures nothing", fix="--duration 3s")
    least = LEAST_QUERIES if asked.iterations is None else asked.iterations
    return Length(seconds=length, iterations=least)
