"""What ``--json`` prints, verb by verb, as values; the published schemas are made from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from trtbench.analysis.builds import Lottery, NetworksCompared, Upgrade
from trtbench.analysis.check import Checked
from trtbench.analysis.history import Series
from trtbench.analysis.inspection import Inspection
from trtbench.analysis.memory import MemoryUse
from trtbench.analysis.pass_times import Evaluation
from trtbench.analysis.stored_comparison import Rung
from trtbench.analysis.summary import Summary, summary_from_run
from trtbench.core.results import (
    Artefact,
    Compared,
    Comparison,
    GateResult,
    Localization,
    Sidecar,
)
from trtbench.core.run import AnyRecord, FailedRun, LoadSearch, Run, RunRecord, Score, Scores
from trtbench.core.spec import Value
from trtbench.executors.ssh import HostsFile
from trtbench.importing.files import Unused, plain
from trtbench.importing.run import ImportResult
from trtbench.layers.diff import Reconciliation, Row
from trtbench.layers.table import EngineFacts, PrecisionTruth
from trtbench.report.run_facts import memory_of
from trtbench.requests.settings import ConfigFile
from trtbench.store.directory import Entry
from trtbench.store.store import Checkup
from trtbench.sweep.matrix import Matrix
from trtbench.workflows.demo import Demo
from trtbench.workflows.doctor import Diagnosis
from trtbench.workflows.export import Exported

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class RunOutput(Value, frozen=True, kw_only=True):
    """A run with its statistics."""

    run: RunRecord
    path: str
    summary: Summary
    load: LoadSearch | None = None
    """The search for the highest rate, where ``--slo`` asked for one; the run is its answer's."""
    memory: MemoryUse | None = None
    """What an engine took of the GPU, part by part, and how many fit."""


class ComparisonOutput(Value, frozen=True, kw_only=True):
    """One candidate against the baseline."""

    comparison: Comparison
    mode: str
    interference: tuple[float, float] | None
    builds: tuple[Lottery, Lottery] | None = None
    """The engines of each network, where networks were compared by several builds."""


class CheckOutput(Value, frozen=True, kw_only=True):
    """What a check found."""

    check: Checked


class GateOutput(Value, frozen=True, kw_only=True):
    """Whether the gate is open, and what each rule came to."""

    model: str
    open: bool
    candidate: str | None = None
    """The run that was judged."""
    results: tuple[GateResult, ...] = ()
    comparison: Comparison | None = None
    closed_by: tuple[str, ...] = ()
    failed: str | None = None
    """Why it could not be measured, where it is one of several."""


class SweepRowOutput(Value, frozen=True, kw_only=True):
    """One case; its options and scores stand beside these fields under their own names."""

    model: str
    runtime: str
    precision: str | None
    batch: int | None
    engine: str | None
    size: int | None
    layers: int | None
    parameters: int | None
    reason: str | None
    remark: str | None
    runs: tuple[str, ...]
    on_front: bool
    findings: tuple[str, ...]
    summary: Summary | None
    scores: dict[str, Score]


class SweepOutput(Value, frozen=True, kw_only=True):
    """The rows of a sweep, and what they advise; with ``--where`` ``chosen`` and ``unknown``."""

    title: str
    rows: tuple[SweepRowOutput, ...]
    folder: str
    advice: tuple[str, ...] = ()
    chosen: tuple[tuple[str, ...], ...] = ()
    unknown: dict[str, int] = {}


class HistoryOutput(Value, frozen=True, kw_only=True):
    """Series, and how many runs could not take part, by the reason."""

    series: tuple[Series, ...]
    left_out: dict[str, int]


class ConversionOutput(Sidecar, frozen=True, kw_only=True):
    """What a conversion left beside its file, and where that is."""

    path: str


class DemoRun(Value, frozen=True, kw_only=True):
    """One run of the demo."""

    run: RunRecord
    summary: Summary


class DemoOutput(Value, frozen=True, kw_only=True):
    """All that the demo measured and wrote."""

    runs: tuple[DemoRun, ...]
    scores: dict[str, Scores]
    comparisons: dict[str, Comparison]
    files: tuple[str, ...]


class ProfileOutput(Value, frozen=True, kw_only=True):
    """The layers of an engine, or groups of them."""

    run: str | None = None
    """The stored run they are of, and its folder."""
    path: str | None = None

    engine: str
    count: int | None
    sum_s: float | None
    gpu: str | None
    facts: EngineFacts
    precision: PrecisionTruth
    reconciliation: Reconciliation | None
    notes: list[str]
    layers: list[Row] = []
    groups: list[Row] = []


class DiffOutput(Value, frozen=True, kw_only=True):
    """Two engines, layer by layer."""

    a: str
    b: str
    a_s: float | None
    b_s: float | None
    delta_s: float | None
    explained: float | None
    changes: list[Row]
    notes: list[str]


class CauseOutput(Value, frozen=True, kw_only=True, rename={"try_": "try"}):
    """Why an engine is slower than it should be, what that costs, and what to try."""

    code: str
    title: str
    cost_s: float | None
    explains_s: float | None
    share: float | None
    layers: list[str]
    evidence: list[str]
    try_: str | None
    command: str | None


class WhyOutput(Value, frozen=True, kw_only=True):
    """What a candidate should have gained, what it did, and why not."""

    baseline: str
    candidate: str
    baseline_s: float | None
    candidate_s: float | None
    expected_s: float | None
    gain: float | None
    shortfall_s: float | None
    gains_s: float | None
    unexplained_s: float | None
    causes: list[CauseOutput]
    notes: list[str]


class ExplainOutput(Value, frozen=True, kw_only=True):
    """The difference between two runs, rung by rung."""

    run: str
    against: str
    measured: bool
    metric: tuple[str, str]
    from_s: float
    to_s: float
    rungs: list[Rung]
    unexplained_s: float | None


class ImportedOutput(Value, frozen=True, kw_only=True):
    """One run made of files."""

    record: AnyRecord
    path: str | None
    known_as: str | None
    samples: int
    median_s: float | None
    median_of: str | None
    files: list[str]


class ImportOutput(Value, frozen=True, kw_only=True):
    """What became of every file."""

    runs: list[ImportedOutput]
    unused: tuple[Unused, ...]
    warnings: tuple[str, ...]
    summaries: int
    summary_runs: int
    lost: tuple[str, ...]
    written: list[str]


OUTPUTS: dict[str, object] = {
    "bench": RunOutput,
    "build": Artefact,
    "check": CheckOutput,
    "compare": (ComparisonOutput | list[ComparisonOutput], ExplainOutput, Lottery, Upgrade),
    "demo": DemoOutput,
    "diff": (DiffOutput, WhyOutput),
    "doctor": Diagnosis,
    "eval": Evaluation,
    "export": ConversionOutput,
    "gate": GateOutput | list[GateOutput],
    "history": HistoryOutput,
    "import": ImportOutput,
    "inspect": Inspection,
    "localize": Localization,
    "profile": ProfileOutput,
    "quantize": ConversionOutput,
    "runs": list[Entry],
    "runs export": Exported,
    "runs fsck": Checkup,
    "runs show": (RunOutput, FailedRun),
    "sweep": SweepOutput,
}
"""What each verb prints with ``--json``, or one of several; a dry run prints its plan."""

FILES: dict[str, tuple[object, str]] = {
    "run.json": (AnyRecord, "the record of a run: what was asked, where, what is thought of it"),
    "scores.json": (Scores, "the accuracy of a run's model"),
    "load.json": (LoadSearch, "the search for a rate that ended with a run"),
    "sweep.toml": (Matrix, "the matrix of a sweep, under any name; YAML too"),
    "hosts.toml": (HostsFile, "machines that are reached by ssh"),
    "trtbench.toml": (ConfigFile, "settings of a project, or of a user"),
}
"""Files that people write or programs may read: what each holds, and what it is."""


def schema_of(name: str) -> dict[str, object]:
    """Make the JSON Schema of what a verb prints, or of a file."""
    printed = OUTPUTS[name] if name in OUTPUTS else FILES[name][0]
    kinds = printed if isinstance(printed, tuple) else (printed,)
    schemas, shared = msgspec.json.schema_components(kinds)
    made = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
    title = f"trtbench {name} --json" if name in OUTPUTS else name
    return {
        "$schema": DIALECT,
        "title": title,
        **{key: _with_unknown_numbers(each) for key, each in {**made, "$defs": shared}.items()},
    }


def write_schemas(folder: Path) -> list[Path]:
    """Write every schema as ``<verb>.json``, those of files as ``files/<name>.json``."""
    (folder / "files").mkdir(parents=True, exist_ok=True)
    paths = {verb: folder / f"{verb.replace(' ', '-')}.json" for verb in OUTPUTS}
    paths |= {name: folder / "files" / f"{name.partition('.')[0]}.json" for name in FILES}
    for name, path in paths.items():
        path.write_bytes(msgspec.json.format(msgspec.json.encode(schema_of(name))) + b"\n")
    return list(paths.values())


def _with_unknown_numbers(part: object) -> object:
    """Let every fraction be null: JSON has no word for what is not a number or not finite."""
    if isinstance(part, list):
        return [_with_unknown_numbers(each) for each in part]
    if not isinstance(part, dict):
        return part
    inside = {key: _with_unknown_numbers(each) for key, each in part.items()}
    return {**inside, "type": ["number", "null"]} if part.get("type") == "number" else inside


def run_output(run: Run) -> RunOutput:
    """Describe a run for programs."""
    summary = summary_from_run(run)
    return RunOutput(
        run=run.record, path=str(run.path), summary=summary, load=run.load, memory=memory_of(run)
    )


def comparison_output(
    found: Sequence[Compared | NetworksCompared],
) -> ComparisonOutput | list[ComparisonOutput]:
    """Describe one comparison, or a list of several."""
    made = [
        ComparisonOutput(
            comparison=each.comparison,
            mode=each.mode,
            interference=each.interference,
            builds=(each.baseline, each.candidate) if isinstance(each, NetworksCompared) else None,
        )
        for each in found
    ]
    return made[0] if len(made) == 1 else made


def demo_output(found: Demo) -> DemoOutput:
    """Describe the demo for programs."""
    return DemoOutput(
        runs=tuple(DemoRun(run=run.record, summary=summary_from_run(run)) for run in found.runs),
        scores=found.scores,
        comparisons={str(batch): each.comparison for batch, each in found.compared.items()},
        files=tuple(str(path) for path in found.files),
    )


def import_output(result: ImportResult) -> ImportOutput:
    """Describe an import for programs."""
    runs = [
        ImportedOutput(
            record=each.record,
            path=str(each.path) if each.path else None,
            known_as=each.known_as,
            samples=each.samples,
            median_s=each.median_s,
            median_of=each.median_of,
            files=[plain(path) for path in each.files],
        )
        for each in result.runs
    ]
    return ImportOutput(
        runs=runs,
        unused=result.unused,
        warnings=result.warnings,
        summaries=result.summaries,
        summary_runs=result.summary_runs,
        lost=result.lost,
        written=[str(path) for path in result.written],
    )
