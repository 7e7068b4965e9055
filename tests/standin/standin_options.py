"""The flags of the stand-in: what each version has, and what was given."""

from typing import NamedTuple


class Flag(NamedTuple):
    """One flag: its first and last major version, whether it takes a value, and its section."""

    first: int
    last: int
    value: bool
    section: str


# Section, first and last version, what follows the flag, names
_TABLE = """
Model 8 11 = onnx
Model 8 8 = uff model deploy output
Build 8 11 = saveEngine loadEngine minShapes optShapes maxShapes memPoolSize avgTiming
Build 8 11 = builderOptimizationLevel timingCacheFile profilingVerbosity sparsity tacticSources
Build 8 11 = hardwareCompatibilityLevel preview tempdir inputIOFormats outputIOFormats
Build 8 11 - versionCompatible refit noTF32 skipInference
Build 8 8 = batch maxBatch workspace minTiming nvtxMode
Build 8 8 - explicitBatch buildOnly heuristic
Build 8 10 - fp16 int8 fp8 best
Build 8 10 = calib layerPrecisions precisionConstraints
Build 10 10 - bf16
Build 10 11 - stripWeights stronglyTyped
Inference 8 11 = shapes iterations duration warmUp sleepTime idleTime infStreams loadInputs
Inference 8 11 - exposeDMA threads useManagedMemory
Inference 8 10 = streams
Inference 10 11 = useProfile
Inference 8 11 - noDataTransfers useSpinWait useCudaGraph separateProfileRun
Inference 11 11 - includeDataTransfers noSpinWait noCudaGraph
Reporting 8 11 = avgRuns percentile exportTimes exportOutput exportProfile exportLayerInfo
Reporting 8 11 - verbose dumpProfile dumpLayerInfo dumpOutput
System 8 11 = device useDLACore staticPlugins dynamicPlugins
System 8 10 = plugins
System 8 11 - allowGPUFallback
Help 8 11 - help
"""
FLAGS = {
    f"--{name}": Flag(int(first), int(last), mark == "=", section)
    for section, first, last, mark, *names in map(str.split, _TABLE.strip().splitlines())
    for name in names
}
WITHOUT_EFFECT_FROM_11 = (
    "--stronglyTyped", "--noDataTransfers", "--useSpinWait", "--useCudaGraph",
    "--separateProfileRun",
)  # fmt: skip


class Options:
    """What was given on the command line, as one version understands it."""

    def __init__(self, arguments: list[str], *, major: int) -> None:
        self.major = major
        self.given: dict[str, str] = {}
        self.unknown: str | None = None
        for argument in arguments:
            name, equals, value = argument.partition("=")
            flag = FLAGS.get(name)
            fits = flag is not None and flag.first <= major <= flag.last
            if flag is None or not fits or flag.value != bool(equals):
                self.unknown = f"{name} {value}".rstrip()
                return
            self.given[name] = value
        self.ignored = [f for f in WITHOUT_EFFECT_FROM_11 if major >= 11 and f in self.given]

    def has(self, flag: str) -> bool:
        return flag in self.given

    def text(self, flag: str, default: str = "") -> str:
        return self.given.get(flag, default)

    def number(self, flag: str, default: float) -> float:
        return float(self.given.get(flag, default))

    # 11 turned these defaults round, and has flags for the opposite.

    @property
    def transfers(self) -> bool:
        if self.major >= 11:
            return self.has("--includeDataTransfers")
        return not self.has("--noDataTransfers")

    @property
    def graph(self) -> bool:
        return not self.has("--noCudaGraph") if self.major >= 11 else self.has("--useCudaGraph")

    @property
    def spin(self) -> bool:
        return not self.has("--noSpinWait") if self.major >= 11 else self.has("--useSpinWait")

    @property
    def profile(self) -> bool:
        return self.has("--dumpProfile")

    @property
    def separate(self) -> bool:
        return self.major >= 11 or self.has("--separateProfileRun")

    @property
    def only_builds(self) -> bool:
        return self.has("--skipInference") or self.has("--buildOnly")

    @property
    def precision(self) -> str:
        if self.major >= 11 or self.has("--stronglyTyped"):
            return "Strongly Typed"
        names = ["fp16", "bf16", "int8", "fp8"]
        chosen = names if self.has("--best") else [n for n in names if self.has(f"--{n}")]
        return "+".join(["FP32", *(name.upper() for name in chosen)])

    def shapes(self, flag: str) -> dict[str, str]:
        parts = [part for part in self.text(flag).split(",") if part]
        return {p.rpartition(":")[0].strip("'"): p.rpartition(":")[2] for p in parts}


def help_text(*, major: int) -> str:
    """List the flags of one version, by section."""
    lines = []
    for section in ("Model", "Build", "Inference", "Reporting", "System", "Help"):
        lines.append(f"=== {section} Options ===")
        for name, flag in FLAGS.items():
            if flag.section != section or not flag.first <= major <= flag.last:
                continue
            shown = f"{name}=<value>" if flag.value else name
            old = major >= 11 and name in WITHOUT_EFFECT_FROM_11
            lines.append(
                f"  {shown:<36}{'[Deprecated] has no effect' if old else 'see the manual'}"
            )
        lines.append("")
    return "\n".join(lines)
