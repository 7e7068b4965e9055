"""Which runtime or builder is taken when nobody names one: the plug-ins themselves say.

Knows the contracts; names no runtime and no builder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trtbench.build.builders import BUILDERS
from trtbench.build.builders.contract import Builder
from trtbench.domain.spec import ModelFormat, ModelRef
from trtbench.errors import TrtbenchError, UnavailableError, UsageError
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes.contract import Runtime
from trtbench.trtexec.plan import flavour_of
from trtbench.workflows.request.config import Config

ENGINE = "engine"


def default_runtime(
    reference: ModelRef, config: Config, *, with_outputs: bool = False
) -> str | None:
    """Choose what executes a model when nobody says: the first of its runtimes that works here.

    ``with_outputs`` leaves out programs, which measure and hand out no outputs.
    """
    flavour = _flavour(reference)
    ranked = [
        (name, runtime)
        for name, runtime in for_format(reference.format)
        if (flavour is None or runtime.FLAVOUR in ("", flavour))
        and (runtime.open_session is not None or not with_outputs)
    ]
    usable = (name for name, runtime in ranked if _works(name, runtime, config))
    return next(usable, ranked[0][0] if ranked else None)


def first_choice(model_format: ModelFormat) -> str:
    """Name the runtime that comes first for a format, whether or not it works here.

    For a format that nothing executes it is empty.
    """
    return next((name for name, _ in for_format(model_format)), "")


def default_builder(config: Config, options: Mapping[str, str]) -> str:
    """Choose what builds when nobody says: the first that works here, else the first.

    An option that only some builders know, such as the path of a program, names them.
    """
    ranked = sorted(BUILDERS.loaded(), key=lambda each: (each[1].CHOSEN, each[0]))
    meant = [each for each in ranked if all(key in each[1].OPTIONS for key in options)]
    if meant and len(meant) < len(ranked):
        ranked = meant
    usable = (name for name, builder in ranked if _works(name, builder, config))
    return next(usable, ranked[0][0])


def refuse_without_builder(config: Config, options: Mapping[str, str]) -> None:
    """Say that nothing here builds engines, and what would: one of them needs no GPU.

    Settings, or an option, may say where a builder is that is not found by itself.
    """
    if options or any(config.python_for(name) for name in BUILDERS.names()):
        return
    reasons = {name: builder.available() for name, builder in BUILDERS.loaded()}
    if all(reasons.values()):
        raise UnavailableError(
            "nothing that builds engines is installed here",
            facts=reasons,
            fix="pip install 'trtbench[rtx]', which builds without a GPU; "
            "for TensorRT: sudo apt install libnvinfer-bin, or pip install tensorrt",
        )


def unusable(runtime: str, config: Config, *, lenient: bool) -> str | None:
    """Say why a runtime cannot be used here; another interpreter is not asked."""
    try:
        module = RUNTIMES.load(runtime)
    except UsageError as problem:
        if not lenient:
            raise
        return problem.message
    if config.python_for(runtime):
        return None
    reason = module.available()
    if reason is None:
        return None
    way = module.fix()
    return f"{runtime} is not usable here: {reason}" + (f" ({way})" if way else "")


def for_format(model_format: ModelFormat) -> list[tuple[str, Runtime]]:
    """List the runtimes that are chosen for a format, the first choice first."""
    chosen = [
        (runtime.CHOSEN_FOR[model_format], name, runtime)
        for name, runtime in _loadable()
        if model_format in runtime.CHOSEN_FOR
    ]
    return [(name, runtime) for _, name, runtime in sorted(chosen, key=lambda each: each[:2])]


def _loadable() -> Iterator[tuple[str, Runtime]]:
    """Load the runtimes; another package's broken one is no reason not to measure with ours."""
    for name in RUNTIMES.names():
        try:
            yield name, RUNTIMES.load(name)
        except TrtbenchError:
            continue


def _flavour(reference: ModelRef) -> str | None:
    """Tell which TensorRT an engine is for; ``None`` for other models."""
    if reference.format != ENGINE:
        return None
    with open(reference.path, "rb") as file:
        return flavour_of(file.read(4)) or "tensorrt"


def _works(name: str, plugin: Runtime | Builder, config: Config) -> bool:
    """Tell whether it can be used here, or in the interpreter that settings name for it."""
    return config.python_for(name) is not None or plugin.available() is None
