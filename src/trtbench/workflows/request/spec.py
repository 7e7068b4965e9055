"""From words to a RunSpec: what the command line and the Python API both say."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

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
from trtbench.errors import UsageError, near_miss
from trtbench.host.arrays import refuse_missing
from trtbench.models.identity import model_ref
from trtbench.models.sidecar import precision_of_engine
from trtbench.models.torch_models import is_named
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes.contract import Runtime
from trtbench.units import hertz_from_text, seconds_from_text
from trtbench.workflows.request.choice import default_runtime, first_choice
from trtbench.workflows.request.config import Config

"""What executes a model of this format when nobody says."""


LEAST_QUERIES = 10
"""Measured at the least, however short the time that was asked for, as trtexec does."""

Duration = str | float | int


def run_spec(
    model: str | Path,
    *,
    config: Config,
    runtime: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch: int | None = None,
    warmup: Duration | None = None,
    warmup_iterations: int | None = None,
    until_steady: bool = True,
    duration: Duration | None = None,
    iterations: int | None = None,
    inputs: str | Path | None = None,
    seed: int = 0,
    threads: int | None = None,
    launches: int | None = None,
    device: str | None = None,
    options: Mapping[str, str] | None = None,
    protocol: Protocol | None = None,
    cuda_graph: CudaGraph | None = None,
    transfers: bool = True,
    gap: Duration | None = None,
    streams: int = 1,
    rate: str | float | None = None,
    telemetry: Duration | None = None,
    lock_clocks: str | None = None,
    profile: bool | None = None,
    **rest: Any,
) -> RunSpec:
    """Settle a run: flags first, then configuration, then defaults."""
    reference = _reference(model, runtime)
    defaults = config.defaults
    name = runtime or defaults.runtime or default_runtime(reference, config)
    if name is None:
        raise UsageError(
            f"no runtime is known for {reference.name}",
            facts={"runtimes": ", ".join(RUNTIMES.names())},
            fix="say which with -r",
        )
    module = _refuse_format(name, reference.format, reference.name)
    refuse_other_precision(reference, rest.get("precision"))
    _refuse_numbers(
        batch=batch,
        iterations=iterations if iterations is not None else defaults.iterations,
        launches=launches if launches is not None else defaults.launches,
        threads=threads if threads is not None else defaults.threads,
        streams=streams,
    )
    _refuse_numbers(least=0, seed=seed, warmup_iterations=warmup_iterations)
    _refuse_shapes(shapes or {})
    default: Protocol = module.DEFAULT_PROTOCOL
    chosen = protocol or default
    _refuse_contradiction(chosen, cuda_graph)
    return RunSpec(
        model=reference,
        runtime=name,
        shapes={key: tuple(shape) for key, shape in (shapes or {}).items()},
        batch=batch,
        inputs=InputSpec(source=_source(inputs), seed=seed),
        warmup=_warmup(warmup or defaults.warmup, warmup_iterations, until_steady=until_steady),
        stop=_stop(duration, iterations, config),
        launches=launches or defaults.launches or 1,
        threads=threads or defaults.threads,
        device=_device(device or defaults.device),
        options={**config.options_for(name), **own_options(options or {}, name)},
        protocol=chosen,
        cuda_graph=cuda_graph or ("on" if chosen in ON_DEVICE else "off"),
        transfers=transfers and chosen not in ON_DEVICE,
        gap_s=seconds(gap) if gap is not None else 0.0,
        streams=streams,
        rate_hz=_rate(rate),
        telemetry_s=_interval(telemetry),
        lock_clocks=_clock(lock_clocks),
        profile=module.DEFAULT_PROFILE if profile is None else profile,
        **rest,
    )


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


def seconds(value: Duration) -> float:
    """Take a number as seconds, and a text with its unit."""
    number = seconds_from_text(value) if isinstance(value, str) else float(value)
    if not 0 <= number < math.inf:
        raise UsageError(f"a length of {number} s has no meaning", fix="write it like 500ms or 3s")
    return number


def _source(inputs: str | Path | None) -> str | None:
    """Where inputs come from, which must be there before anything is started."""
    if inputs is None:
        return None
    source = Path(inputs).absolute()
    refuse_missing(source)
    return str(source)


def _rate(value: str | float | None) -> float | None:
    rate = hertz_from_text(value) if isinstance(value, str) else value
    if rate is not None and rate <= 0:
        raise UsageError("a rate of arrivals is above zero", fix="--rate 100/s")
    return rate


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
    if value is None or value in ("base", "max") or value.isdigit():
        return value
    raise UsageError(f"--lock-clocks {value} cannot be read", fix="base, max, or 1500 (in MHz)")


def _refuse_contradiction(protocol: Protocol, cuda_graph: CudaGraph | None) -> None:
    """A CUDA graph without transfers is what these are; one without a graph is another."""
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
        fix=f"-r {other}" if (other := first_choice(model_format)) else None,
    )


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


def _refuse_numbers(*, least: int = 1, **numbers: int | None) -> None:
    for name, number in numbers.items():
        if number is not None and number < least:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} must be at least {least}, not {number}", fix=f"{flag} {least}"
            )


def pick(values: Sequence[str | None], index: int, sides: int, *, what: str) -> str | None:
    """Take the one value for all sides, or the side's own."""
    if len(values) <= 1:
        return values[0] if values else None
    if len(values) != sides:
        raise UsageError(
            f"{what} is given {len(values)} times for {sides} sides",
            fix="give it once, or once per side in order",
        )
    return values[index]


def _refuse_shapes(shapes: Mapping[str, Sequence[int]]) -> None:
    for name, shape in shapes.items():
        if any(dim < 1 for dim in shape):
            text = "x".join(str(dim) for dim in shape)
            raise UsageError(
                f"the shape {text} of {name!r} holds nothing", fix="give dimensions of at least 1"
            )


def _warmup(length: Duration | None, iterations: int | None, *, until_steady: bool) -> Warmup:
    standard = Warmup()
    if length is None and iterations is None:
        return msgspec.structs.replace(standard, until_steady=until_steady)
    floor = Length(seconds=seconds(length) if length is not None else None, iterations=iterations)
    cap_s = max(standard.cap_s, floor.seconds or 0.0)
    return Warmup(floor=floor, until_steady=until_steady, cap_s=cap_s)


def _stop(duration: Duration | None, iterations: int | None, config: Config) -> Length:
    """A length by time, by count or both; what is given by neither comes from configuration."""
    if duration is None and iterations is None:
        duration, iterations = config.defaults.duration, config.defaults.iterations
    if duration is None and iterations is None:
        return Length(seconds=3.0, iterations=LEAST_QUERIES)
    length = seconds(duration) if duration is not None else None
    if not length and iterations is None:
        raise UsageError("a duration of 0 s measures nothing", fix="--duration 3s")
    return Length(seconds=length, iterations=LEAST_QUERIES if iterations is None else iterations)
