"""Jobs: what a worker process does and the results it writes, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from trtbench.core.errors import ERROR_KINDS, JobError, TrtbenchError
from trtbench.core.results import ExportSpec, Feed, LocalizeSpec, QuantSpec, VerifySpec
from trtbench.core.run import Fact, Finding, LaunchFacts, LoadSearch, Scalar
from trtbench.core.samples import LayerProfile
from trtbench.core.spec import BuildSpec, RunSpec, TensorSpec, Value
from trtbench.core.units import text_from_seconds

PROGRESS_MARK = "~"  # begins a line of progress: `~0.420 Tactic timing`
DONE = "done"  # the stage after a job has written all results and only has to exit
NO_MEMORY = "memory"
CHANGED = "ModelChanged"  # the model's file changed during the job
FAILURES = {"bug", NO_MEMORY, "StoreError", "ProgramError", "JobError", "CudaError", CHANGED}
"""Worker errors that are failures of a job, not of the request."""
_SIGNAL_HINTS = {
    "SIGKILL": " (the kernel does that when memory runs out)",
    "SIGSEGV": " (a crash in native code)",
    "SIGABRT": " (native code gave up)",
}


def progress_from_line(line: str) -> tuple[float, str] | None:
    """Read the progress of a stage, and its step; ``None`` for any other line."""
    done, _, text = line.removeprefix(PROGRESS_MARK).partition(" ")
    return (float(done), text) if line.startswith(PROGRESS_MARK) else None


class Stage:
    """Receives the name of each stage of a job as it begins, and its progress."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def __call__(self, name: str) -> None:
        self.begun.append(name)

    def progress(self, done: float, text: str) -> None:
        """Report the progress of the stage, from 0 to 1, and its step."""


class BenchJob(Value, frozen=True, kw_only=True, tag="bench", tag_field="job"):
    spec: RunSpec
    launch: int = 0
    search: LoadSearch | None = None  # searches for a rate, from what is known so far


class DuetJob(Value, frozen=True, kw_only=True, tag="duet", tag_field="job"):
    """Measure two sides in turn, iteration by iteration; a process runs one side or both."""

    sides: tuple[RunSpec, RunSpec]
    mine: Literal[0, 1] | None = None  # the side this process runs; `None` runs both here
    pairs: int | None = None  # iterations of each side; `None` is as many as a launch has time for
    seed: int = 0
    launch: int = 0
    series: bool = False  # series of queries take turns instead of single ones, for GPUs
    bursts: bool = True  # bursts of queries take turns before the series, for GPU time
    load_order: int = 0  # position among processes that load one after the other


class InferJob(Value, frozen=True, kw_only=True, tag="infer", tag_field="job"):
    """Run a model once over every item of a feed, batch by batch, and keep the outputs."""

    spec: RunSpec
    feed: Feed
    decode: bool = False  # whether the task decodes outputs to predictions before they are kept


class LocalizeJob(Value, frozen=True, kw_only=True, tag="localize", tag_field="job"):
    spec: LocalizeSpec


class BuildJob(Value, frozen=True, kw_only=True, tag="build", tag_field="job"):
    spec: BuildSpec  # `output` is in the folder of the job


class ExportJob(Value, frozen=True, kw_only=True, tag="export", tag_field="job"):
    """Make an ONNX file from a PyTorch model, and keep its inputs and outputs for one call."""

    spec: ExportSpec


class QuantizeJob(Value, frozen=True, kw_only=True, tag="quantize", tag_field="job"):
    spec: QuantSpec


class VerifyJob(Value, frozen=True, kw_only=True, tag="verify", tag_field="job"):
    spec: VerifySpec


ConversionJob = ExportJob | QuantizeJob | VerifyJob
Job = BenchJob | DuetJob | InferJob | LocalizeJob | BuildJob | ConversionJob


class BenchOutcome(Value, frozen=True, kw_only=True):
    """What one launch writes besides its samples: ``outcome.json``."""

    facts: LaunchFacts
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    conditions: dict[str, Fact] = {}
    versions: dict[str, str] = {}
    python: str | None = None
    notes: tuple[str, ...] = ()
    reported: dict[str, Scalar] = {}  # what a program (trtexec) printed, and its command
    evidence: dict[str, Scalar] = {}  # for findings; becomes `facts` of the record
    layers: LayerProfile | None = None


class BuildOutcome(Value, frozen=True, kw_only=True):
    """What a build writes besides the engine: ``outcome.json``."""

    command: str | None = None
    version: str | None = None
    build_s: float | None = None
    conditions: dict[str, Fact] = {}
    facts: dict[str, Scalar] = {}
    files: dict[str, str] = {}  # in the folder of the job, by suffix to the engine's name
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


class ReportedError(Value, frozen=True, kw_only=True):
    """An error that another process or machine reported: ``error.json``."""

    kind: str  # name of a class of trtbench.core.errors; `bug` for any other exception
    message: str
    facts: dict[str, str] = {}
    fix: str | None = None
    stage: str = "start"
    program_status: int | None = None
    log_tail: tuple[str, ...] = ()

    @classmethod
    def from_error(cls, problem: TrtbenchError, *, stage: str = "start") -> ReportedError:
        names = ("message", "facts", "fix", "program_status", "log_tail")
        parts = {name: getattr(problem, name) for name in names}
        return cls(kind=type(problem).__name__, stage=stage, **parts)

    def error(self, default: type[TrtbenchError] = TrtbenchError) -> TrtbenchError:
        """Return the exception; an unknown kind becomes the default one."""
        kind = ERROR_KINDS.get(self.kind, default)
        return kind(self.message, facts=self.facts, fix=self.fix, log_tail=self.log_tail)


class JobEnd(Value, frozen=True, kw_only=True):
    seconds: float
    stage: str
    exit_status: int | None = None
    signal: str | None = None
    timed_out: bool = False
    error: ReportedError | None = None
    log_tail: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it has left its results; native libraries may crash once it only has to exit."""
        return self.error is None and (self.exit_status == 0 or self.stage == DONE)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user of its results is told."""
        failed = self.ok and self.exit_status != 0
        note = f"a process failed while it exited: {self.reason}; its results are kept"
        return (note,) if failed else ()

    @property
    def reason(self) -> str:
        if self.timed_out:
            return f"timed out after {text_from_seconds(self.seconds, digits=3)}"
        if self.error is not None:
            return self.error.message
        if self.signal is not None:
            return f"ended by {self.signal}{_SIGNAL_HINTS.get(self.signal, '')}"
        return f"ended with exit status {self.exit_status}"

    @property
    def refused(self) -> TrtbenchError | None:
        """The error of a worker that refused its job; ``None`` for a failure."""
        return None if self.error is None or self.error.kind in FAILURES else self.error.error()

    def failure(
        self, what: str, *, facts: Mapping[str, object] | None = None, fix: str | None = None
    ) -> TrtbenchError:
        """Return the error for a job that did not finish: the worker's, or one with its log."""
        return self.refused or JobError(
            f"{what}: {self.reason}",
            facts=facts or {"stage": self.stage},
            fix=fix,
            log_tail=self.log_tail,
        )
