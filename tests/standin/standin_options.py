"""The flags of the stand-in: what each version has, and what was given."""

from typing import NamedTuple


class Flag(NamedTuple):
    """One flag: its first and last major version, whether it takes a value, and its section."""

    first: int
    last: int
    value: bool
    section: str


def _flags(section: str, first: int, last: int, *, value: bool, names: str) -> dict[str, Flag]:
    return {f"--{name}": Flag(first, last, value, section) for name in names.split()}


FLAGS: dict[str, Flag] = {
    **_flags("Model", 8, 11, value=True, names="onnx"),
    **_flags("Model", 8, 8, value=True, names="uff model deploy output"),
    **_flags(
        "Build",
        8,
        11,
        value=True,
        names="saveEngine loadEngine minShapes optShapes maxShapes memPoolSize avgTiming "
        "builderOptimizationLevel timingCacheFile profilingVerbosity hardwareCompatibilityLevel "
        "sparsity tacticSources preview tempdir inputIOFormats outputIOFormats",
    ),
    **_flags("Build", 8, 11, value=False, names="versionCompatible refit noTF32 skipInference"),
    **_flags("Build", 8, 8, value=True, names="batch maxBatch workspace minTiming nvtxMode"),
    **_flags("Build", 8, 8, value=False, names="explicitBatch buildOnly heuristic"),
    **_flags("Build", 8, 10, value=False, names="fp16 int8 fp8 best"),
    **_flags("Build", 8, 10, value=True, names="calib layerPrecisions precisionConstraints"),
    **_flags("Build", 10, 10, value=False, names="bf16"),
    **_flags("Build", 10, 11, value=False, names="stripWeights stronglyTyped"),
    **_flags(
        "Inference",
        8,
        11,
        value=True,
        names="shapes iterations duration warmUp sleepTime idleTime infStreams loadInputs",
    ),
    **_flags("Inference", 8, 11, value=False, names="exposeDMA threads useManagedMemory"),
    **_flags("Inference", 8, 10, value=True, names="streams"),
    **_flags("Inference", 10, 11, value=True, names="useProfile"),
    **_flags(
        "Inference",
        8,
        11,
        value=False,
        names="noDataTransfers useSpinWait useCudaGraph separateProfileRun",
    ),
    **_flags("Inference", 11, 11, value=False, names="includeDataTransfers noSpinWait noCudaGraph"),
    **_flags(
        "Reporting",
        8,
        11,
        value=True,
        names="avgRuns percentile exportTimes exportOutput exportProfile exportLayerInfo",
    ),
    **_flags("Reporting", 8, 11, value=False, names="verbose dumpProfile dumpLayerInfo dumpOutput"),
    **_flags("System", 8, 11, value=True, names="device useDLACore staticPlugins dynamicPlugins"),
    **_flags("System", 8, 10, value=True, names="plugins"),
    **_flags("System", 8, 11, value=False, names="allowGPUFallback"),
    **_flags("Help", 8, 11, value=False, names="help"),
}
WITHOUT_EFFECT_FROM_11 = (
    "--stronglyTyped",
    "--noDataTransfers",
    "--useSpinWait",
    "--useCudaGraph",
    "--separateProfileRun",
)


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

    def _switch(self, on: str, off: str, *, default: bool) -> bool:
        """Look at the flag that departs from the default; 11 turned the defaults round."""
        return not self.has(off) if default else self.has(on)

    @property
    def transfers(self) -> bool:
        name = "--includeDataTransfers" if self.major >= 11 else "--noDataTransfers"
        return self._switch(name, name, default=self.major < 11)

    @property
    def graph(self) -> bool:
        name = "--noCudaGraph" if self.major >= 11 else "--useCudaGraph"
        return self._switch(name, name, default=self.major >= 11)

    @property
    def spin(self) -> bool:
        name = "--noSpinWait" if self.major >= 11 else "--useSpinWait"
        return self._switch(name, name, default=self.major >= 11)

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
