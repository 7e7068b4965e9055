"""Pieces of command lines that running and building share."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from trtbench.domain.spec import Precision
from trtbench.errors import UsageError, refuse_unknown_options
from trtbench.trtexec.abilities import TrtexecAbilities, versions_with

GRAPH = "graph.json"
_SWITCHES = ("verbose", "plugins", "binary", "typing")
"""Options that are not simply a flag with a value; ``binary`` is the caller's."""

_OWN_FLAGS = {
    "--iterations": "--iterations N",
    "--duration": "--duration 3s",
    "--warmUp": "--warmup 200ms",
    "--shapes": "--shape NAME:1x3x224x224",
    "--device": "--device cuda:N",
    "--infStreams": "--streams N",
    "--idleTime": "--gap 10ms",
    "--useProfile": "--profile-index N",
    "--useCudaGraph": "--cuda-graph on",
    "--noDataTransfers": "--no-transfers",
    "--useSpinWait": "--spin-wait",
    "--minShapes": "--shape-min NAME:1x3x224x224",
    "--optShapes": "--shape-opt NAME:1x3x224x224",
    "--maxShapes": "--shape-max NAME:1x3x224x224",
    "--timingCacheFile": "--timing-cache FILE",
    "--builderOptimizationLevel": "--optimization-level N",
}
"""How the same is said to trtbench, which then records it."""

MODEL_FLAGS = dict.fromkeys(
    ("--onnx", "--loadEngine", "--uff", "--model", "--deploy"),
    "the model is the one that trtbench was given, whose hash is recorded",
)
"""Flags that say which model it is, and why they are not passed on."""
DEVICE_FLAG = {"--device": "trtbench locks the GPU and records which one it is"}

_PLUGINS = ("--plugins", "--staticPlugins", "--dynamicPlugins", "--setPluginsToSerialize")
"""Flags that may be given once for each library."""

_WEAK: dict[Precision, str] = {
    "fp16": "--fp16",
    "bf16": "--bf16",
    "int8": "--int8",
    "fp8": "--fp8",
    "best": "--best",
}


def check_options(options: Mapping[str, str], *, known: Mapping[str, str]) -> None:
    """Refuse an option nobody knows, with the near miss."""
    refuse_unknown_options("runtime trtexec", options, (*known, *_SWITCHES))


def own_options(
    options: Mapping[str, str], *, known: Mapping[str, str], abilities: TrtexecAbilities
) -> list[str]:
    """Write the options of the runtime itself as flags."""
    arguments = [f"{flag}={options[name]}" for name, flag in known.items() if name in options]
    plugins = tuple(path for path in options.get("plugins", "").split(",") if path)
    arguments += plugin_flags(plugins, abilities=abilities)
    return arguments + (["--verbose"] if _is_on(options.get("verbose")) else [])


def _is_on(text: str | None) -> bool:
    return (text or "").lower() in ("1", "true", "yes", "on")


def shapes_flag(flag: str, shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Write shapes; a name with a colon or a comma is put in quotes of trtexec's own."""
    if not shapes:
        return []
    parts = []
    for name, dims in shapes.items():
        quoted = f"'{name}'" if set(name) & set(":,") else name
        parts.append(f"{quoted}:{'x'.join(map(str, dims)) or 'scalar'}")
    return [f"{flag}={','.join(parts)}"]


def with_extra(
    arguments: list[str], extra: Sequence[str], *, refused: Mapping[str, str] = MODEL_FLAGS
) -> list[str]:
    """Add what the user passes on: no flag twice, and none that trtbench must be told itself."""
    passed = {_flag(each): each for each in arguments[1:]}
    for each in extra:
        flag = _flag(each)
        own = _OWN_FLAGS.get(flag)
        fix = f"{own} before the --" if own else f"leave {each} out"
        if flag in passed and flag not in _PLUGINS:
            raise UsageError(
                f"{flag} is passed to trtexec already",
                facts={"passed": passed[flag], "given again": each},
                fix=fix,
            )
        if flag in refused:
            raise UsageError(f"{flag} is not trtexec's alone to know: {refused[flag]}", fix=fix)
        if flag.startswith("-"):
            passed[flag] = each
    return [*arguments, *extra]


def _flag(argument: str) -> str:
    """Name a flag as the older of its two names, where a version gave it another."""
    name = argument.partition("=")[0]
    return {"--streams": "--infStreams", "--buildOnly": "--skipInference"}.get(name, name)


def precision_flags(precision: Precision, *, model: str, abilities: TrtexecAbilities) -> list[str]:
    """Write a precision for the weakly typed builder; TensorRT 11 has none."""
    if precision == "tf32":
        return []
    if precision == "fp32":
        return ["--noTF32"] if abilities.has("--noTF32") else []
    flag = _WEAK[precision]
    if abilities.inverted:
        raise UsageError(
            f"{precision} cannot be asked of TensorRT 11: networks are strongly typed, "
            "cast the model first",
            facts={"model": model, "needs": versions_with(flag)},
            fix=f"trtbench quantize {shlex.quote(model)} --precision {precision}",
        )
    return [abilities.require(flag, what=f"the precision {precision}")]


def plugin_flags(paths: tuple[str, ...], *, abilities: TrtexecAbilities) -> list[str]:
    """Write one flag per plugin library."""
    flag = "--staticPlugins" if abilities.has("--staticPlugins") else "--plugins"
    return [f"{abilities.require(flag, what='a plugin')}={path}" for path in paths]
