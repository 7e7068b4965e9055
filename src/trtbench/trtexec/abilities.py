"""What a trtexec can be told: the flags of its ``--help``, or of a version where none is at hand.

TensorRT 11 turned three defaults round and removed weak typing, so the same experiment needs
other flags there; ``Abilities.inverted`` says which side of that change a trtexec is on.
"""

from __future__ import annotations

import re

from trtbench.domain.spec import Value
from trtbench.errors import ParseError, UsageError
from trtbench.trtexec._log_lines import banner_from_text, lines_from_data
from trtbench.trtexec.version import version_key

_FLAG = re.compile(r"--[A-Za-z][A-Za-z0-9]{1,60}")

_FIRST = {
    "5.0": "--loadEngine --saveEngine --onnx --iterations --avgRuns --percentile --device "
    "--verbose --useSpinWait --useDLACore --allowGPUFallback --fp16 --int8 --calib "
    "--workspace",
    "6.0": "--plugins",
    "7.0": "--duration --warmUp --sleepTime --shapes --minShapes --optShapes --maxShapes "
    "--loadInputs --streams --exposeDMA --useCudaGraph --best --buildOnly --exportTimes "
    "--exportProfile --exportOutput --dumpProfile --nvtxMode",
    "7.1": "--refit --noTF32",
    "7.2": "--noDataTransfers --separateProfileRun",
    "8.0": "--timingCacheFile --sparsity",
    "8.2": "--idleTime --profilingVerbosity --exportLayerInfo --dumpLayerInfo",
    "8.4": "--memPoolSize",
    "8.6": "--skipInference --infStreams --builderOptimizationLevel --versionCompatible "
    "--hardwareCompatibilityLevel --staticPlugins --fp8",
    "10.0": "--bf16 --stronglyTyped --stripWeights --useProfile",
    "11.0": "--includeDataTransfers --noCudaGraph --noSpinWait",
}
"""Flags by the first TensorRT whose trtexec has them."""
_LAST = {
    "8.99": "--workspace --buildOnly --nvtxMode",
    "10.14": "--plugins",
    "10.99": "--useSpinWait --fp16 --int8 --calib --streams --useCudaGraph --best "
    "--noDataTransfers --separateProfileRun --fp8 --bf16 --stronglyTyped",
}
"""Flags by the last one that obeys them; later ones may accept them and do nothing."""
SINCE: dict[str, tuple[str, str | None]] = {
    flag: (first, next((last for last, gone in _LAST.items() if flag in gone.split()), None))
    for first, flags in _FIRST.items()
    for flag in flags.split()
}
"""First and last TensorRT whose trtexec obeys a flag."""


class TrtexecAbilities(Value, frozen=True, kw_only=True):
    """What one trtexec can be told."""

    version: str | None = None
    flags: frozenset[str] = frozenset()

    def has(self, flag: str) -> bool:
        """Say whether the flag exists and has an effect."""
        return flag in self.flags and not (self.inverted and _last(flag) == 10)

    @property
    def inverted(self) -> bool:
        """True from TensorRT 11 on: no transfers, CUDA graph and spinning unless told otherwise."""
        if self.flags:
            return "--includeDataTransfers" in self.flags
        return self.at_least(11) is True

    @property
    def name(self) -> str:
        """The version in words, for messages."""
        return f"TensorRT {self.version}" if self.version else "this version of trtexec"

    def at_least(self, *version: int) -> bool | None:
        """Say whether the version is at least the given one; ``None`` when it is not known."""
        key = version_key(self.version)
        return None if key is None else key >= version

    def require(self, flag: str, *, what: str, fix: str | None = None) -> str:
        """Write the flag back, or say which version has what was asked for."""
        if self.has(flag):
            return flag
        raise UsageError(
            f"{what} cannot be expressed for trtexec of {self.name}",
            facts={"flag": flag, "needs": versions_with(flag)},
            fix=fix,
        )


def _last(flag: str) -> int | None:
    last = SINCE.get(flag, ("", None))[1]
    return int(last.split(".")[0]) if last else None


def versions_with(flag: str) -> str:
    """Name the versions whose trtexec has a flag, in words."""
    if flag not in SINCE:
        return "a trtexec whose --help lists it"
    first, last = SINCE[flag]
    if last is None:
        return f"TensorRT {first} or later"
    return f"TensorRT {first} to {last.removesuffix('.99')}"


def abilities_from_help(text: str | bytes, *, where: str = "trtexec --help") -> TrtexecAbilities:
    """Read the flags that a ``--help`` text lists, and the version of its banner if it has one."""
    version, flags = None, set[str]()
    for line in lines_from_data(text):
        banner = banner_from_text(line) if "&&&& " in line else None
        if banner is not None:
            version = version or banner.version
        elif line.lstrip().startswith("--"):
            flags.update(_FLAG.findall(line.lstrip().split("  ", 1)[0][:200]))
    if not flags:
        raise ParseError(
            f"{where} lists no flags",
            facts={"expected": "lines such as '  --loadEngine=<file>   ...'"},
        )
    return TrtexecAbilities(version=version, flags=frozenset(flags))


def abilities_of_version(version: str) -> TrtexecAbilities:
    """Tell what trtexec of a version can be told, where there is none to ask."""
    key = version_key(version)
    if key is None:
        raise UsageError(f"{version!r} is not a TensorRT version", fix="write it like 10.9")
    flags = frozenset(
        flag
        for flag, (first, last) in SINCE.items()
        if (version_key(first) or ()) <= key and (last is None or key <= (version_key(last) or ()))
    )
    return TrtexecAbilities(version=version, flags=flags)
