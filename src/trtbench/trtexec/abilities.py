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

SINCE: dict[str, tuple[str, str | None]] = {
    "--loadEngine": ("5.0", None),
    "--saveEngine": ("5.0", None),
    "--onnx": ("5.0", None),
    "--iterations": ("5.0", None),
    "--avgRuns": ("5.0", None),
    "--percentile": ("5.0", None),
    "--device": ("5.0", None),
    "--verbose": ("5.0", None),
    "--useSpinWait": ("5.0", "10.99"),
    "--useDLACore": ("5.0", None),
    "--allowGPUFallback": ("5.0", None),
    "--fp16": ("5.0", "10.99"),
    "--int8": ("5.0", "10.99"),
    "--calib": ("5.0", "10.99"),
    "--workspace": ("5.0", "8.99"),
    "--duration": ("7.0", None),
    "--warmUp": ("7.0", None),
    "--sleepTime": ("7.0", None),
    "--shapes": ("7.0", None),
    "--minShapes": ("7.0", None),
    "--optShapes": ("7.0", None),
    "--maxShapes": ("7.0", None),
    "--loadInputs": ("7.0", None),
    "--plugins": ("6.0", "10.14"),
    "--streams": ("7.0", "10.99"),
    "--exposeDMA": ("7.0", None),
    "--useCudaGraph": ("7.0", "10.99"),
    "--best": ("7.0", "10.99"),
    "--buildOnly": ("7.0", "8.99"),
    "--exportTimes": ("7.0", None),
    "--exportProfile": ("7.0", None),
    "--exportOutput": ("7.0", None),
    "--dumpProfile": ("7.0", None),
    "--nvtxMode": ("7.0", "8.99"),
    "--refit": ("7.1", None),
    "--noTF32": ("7.1", None),
    "--noDataTransfers": ("7.2", "10.99"),
    "--separateProfileRun": ("7.2", "10.99"),
    "--timingCacheFile": ("8.0", None),
    "--sparsity": ("8.0", None),
    "--idleTime": ("8.2", None),
    "--profilingVerbosity": ("8.2", None),
    "--exportLayerInfo": ("8.2", None),
    "--dumpLayerInfo": ("8.2", None),
    "--memPoolSize": ("8.4", None),
    "--skipInference": ("8.6", None),
    "--infStreams": ("8.6", None),
    "--builderOptimizationLevel": ("8.6", None),
    "--versionCompatible": ("8.6", None),
    "--hardwareCompatibilityLevel": ("8.6", None),
    "--staticPlugins": ("8.6", None),
    "--fp8": ("8.6", "10.99"),
    "--bf16": ("10.0", "10.99"),
    "--stronglyTyped": ("10.0", "10.99"),
    "--stripWeights": ("10.0", None),
    "--useProfile": ("10.0", None),
    "--includeDataTransfers": ("11.0", None),
    "--noCudaGraph": ("11.0", None),
    "--noSpinWait": ("11.0", None),
}
"""First and last TensorRT whose trtexec obeys a flag; later ones may accept it and do nothing."""


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
