"""Runs made of parts: what was measured, what was printed, and how each condition is known."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Sequence

from trtbench.analysis.findings import findings_from_run
from trtbench.analysis.layers.computing import types_of_layers
from trtbench.analysis.summary import summary_from_run
from trtbench.domain.labels import LOWEST_FIRST
from trtbench.domain.result import (
    UNKNOWN,
    Environment,
    Fact,
    FailedRun,
    LaunchFacts,
    Run,
    RunRecord,
    Scalar,
)
from trtbench.domain.samples import EngineGraph, IterationTimes
from trtbench.domain.spec import TensorSpec
from trtbench.formats.toolkit_files import TorchBenchmark
from trtbench.report.run_facts import remember_summary
from trtbench.store.directory import now
from trtbench.trtexec.conditions import protocol_from_log
from trtbench.trtexec.failure import AFTERMATH
from trtbench.trtexec.log import LogRun, conditions_from_log, time_of_log
from trtbench.trtexec.metadata import log_from_metadata
from trtbench.trtexec.reported import tensors_from_log, warnings_from_log
from trtbench.trtexec.times import TimesArray
from trtbench.units import counted, text_from_seconds
from trtbench.workflows.importing.match import SHARED, Draft
from trtbench.workflows.importing.metadata import (
    gpu_from_device,
    gpu_from_log,
    joined,
    log_from_config,
)
from trtbench.workflows.importing.printed_numbers import numbers_of
from trtbench.workflows.importing.samples import edge_tensors, graph_of, layers_of, times_of
from trtbench.workflows.importing.spec import batch_of, engine_path, spec_from_told
from trtbench.workflows.importing.user_facts import Stated
from trtbench.workflows.measure.model_notes import held_to_layers

_ENDLESS = "the log has no end: cut short, or trtexec did not end by itself"
_FAILED = "trtexec ended with FAILED and named no error"
_OF_THE_BUILD = ("typing", "tf32", "precision")
"""Conditions that a loaded engine does not tell, and the log of its build does."""

_VERSIONS = {
    "7.0": "7.0",
    "7.1": "7.1 or 7.2",
    "8.0": "8.0 to 8.2",
    "8.4": "8.4",
    "8.5": "8.5 or later",
}
"""Which TensorRT writes a schema of times files."""


def told_of(draft: Draft) -> LogRun:
    """Put together what log, metadata and configuration tell, in this order of trust."""
    found: list[LogRun] = []
    for slot in ("log", "failed_log", "profile_metadata"):
        if slot in draft.parts:
            found.append(draft.parts[slot].value)
    if draft.built:
        found.append(draft.parts["build_log"].value)
    if "build_metadata" in draft.parts:
        part = draft.parts["build_metadata"]
        found.append(log_from_metadata(part.value, where=part.file.shown))
    if "run_config" in draft.parts:
        part = draft.parts["run_config"]
        found.append(log_from_config(part.value, where=part.file.shown))
    return joined(found)


def run_from_draft(draft: Draft, stated: Stated, *, run_id: str, told: LogRun | None = None) -> Run:
    """Make a run; what nobody told stays unknown. ``told`` is what its files tell, if known."""
    told = stated.told(told or told_of(draft))
    times, array = times_of(draft, told, warmup_s=stated.warmup_s)
    layers, graph = layers_of(draft), graph_of(draft)
    inputs, outputs = _tensors(told, graph)
    conditions = _conditions(draft, told, times, stated, inputs, outputs)
    conditions["precision"] = _precision(conditions["precision"], told, graph)
    reported = numbers_of(draft)
    notes = (*draft.notes, *_notes(draft, array, told), *stated.words())
    created, known_by = created_of(draft, told, stated)
    record = RunRecord(
        id=run_id,
        created=created,
        spec=spec_from_told(
            draft, told, conditions, engine=stated.engine, warmup_s=stated.warmup_s
        ),
        environment=stated.environment(_environment(draft, told)),
        tags=stated.tags,
        provenance="imported",
        inputs=inputs,
        outputs=outputs,
        launches=_launches(told, array) if len(times) else (),
        conditions=conditions,
        reported=reported,
        sources=sources_of(draft),
        notes=tuple(dict.fromkeys(notes)),
        facts={
            **_facts(draft, told, array, conditions, reported),
            "created_from": known_by,
            **warnings_from_log(told),
        },
    )
    record = held_to_layers(record, graph)
    run = Run(record=record, times=times, layers=layers, graph=graph)
    summary = summary_from_run(run)
    findings = findings_from_run(run, summary=None if summary.reported else summary)
    if draft.built:  # what is said of times does not apply
        findings = tuple(each for each in findings if each.code == "H47")
    record = record.having(findings=findings)
    run = Run(record=record, times=times, layers=layers, graph=graph)
    remember_summary(run, summary)
    return run


def failure_from_draft(draft: Draft, stated: Stated, *, run_id: str) -> FailedRun:
    """Make the record of a run that trtexec did not finish."""
    told = stated.told(told_of(draft))
    conditions = _conditions(draft, told, IterationTimes(), stated)
    created, _ = created_of(draft, told, stated)
    return FailedRun(
        id=run_id,
        created=created,
        spec=spec_from_told(
            draft, told, conditions, engine=stated.engine, warmup_s=stated.warmup_s
        ),
        environment=stated.environment(_environment(draft, told)),
        tags=stated.tags,
        stage=_stage(told),
        reason=failure_reason(told),
        log_tail=told.last_lines,
    )


def failure_reason(run: LogRun) -> str:
    """Write the error that explains most: the first one known, before what only follows from it."""
    errors = [each for each in run.messages if each.level in ("E", "F")]
    telling = [each for each in errors if each.code is not None and each.code not in AFTERMATH]
    error = next(iter(telling or errors), None)
    if error is None:
        return _ENDLESS if run.outcome in ("crashed", "cut") else _FAILED
    return f"{error.text} ({error.meaning})" if error.meaning else error.text


def sources_of(draft: Draft) -> tuple[str, ...]:
    """Name the files of a run, each once."""
    paths = (part.file.place for part in draft.parts.values())
    return tuple(dict.fromkeys(paths))


def _stage(run: LogRun) -> str:
    if run.bindings or run.averages:
        return "measure"
    loads = any(word.startswith("--loadEngine") for word in run.arguments)
    return "load" if loads and run.sections else "build" if run.sections else "start"


def _conditions(
    draft: Draft,
    told: LogRun,
    times: IterationTimes,
    stated: Stated,
    inputs: tuple[TensorSpec, ...] = (),
    outputs: tuple[TensorSpec, ...] = (),
) -> dict[str, Fact]:
    conditions = conditions_from_log(told)
    transfers = conditions["transfers"]
    if transfers.source != "stated" and len(times) and times.stamps:
        # Copies that took exactly no time did not take place.
        moved = times.h2d is not None or times.d2h is not None
        conditions["transfers"] = transfers = Fact(value=moved, source="implied")
    printed = _printed_copies(told)
    if transfers.source == "unknown" and printed is not None:
        conditions["transfers"] = transfers = Fact(value=printed, source="implied")
    if conditions["protocol"].value is None and transfers.value is not None:
        conditions["protocol"] = protocol_from_log(told, transfers, conditions["cuda_graph"])
    if "build_log" in draft.parts:
        built = conditions_from_log(draft.parts["build_log"].value)
        unknown = [key for key in _OF_THE_BUILD if conditions[key].source == "unknown"]
        conditions |= {key: built[key] for key in unknown}
    if draft.of_torch:
        conditions |= _torch_conditions(draft)
    conditions["batch"] = batch_of(draft, conditions["batch"], inputs, outputs, asked=stated.batch)
    return stated.conditions(conditions)


def _precision(known: Fact, told: LogRun, graph: EngineGraph | None) -> Fact:
    """Read the precision off the layers where nothing else tells it."""
    if known.value is not None:
        return known
    types = {*told.layer_types} or types_of_layers(graph)
    found = [name for name in reversed(LOWEST_FIRST) if name in types]
    return Fact(value="+".join(found), source="implied") if found else known


def created_of(draft: Draft, told: LogRun, stated: Stated) -> tuple[str, str]:
    """Tell when a run was, and how that is known: stated, by the log, by its file, or not at all.

    trtexec prints the local time of its machine; that is taken for the local time here.
    """
    if stated.date is not None:
        return stated.date.isoformat(timespec="milliseconds"), "stated"
    config = draft.parts.get("run_config")
    when = (config.value.timestamp_iso or "") if config else ""
    with contextlib.suppress(ValueError):
        written = datetime.datetime.fromisoformat(when.replace("Z", "+00:00"))
        return written.astimezone().isoformat(timespec="milliseconds"), "run_config"
    printed = time_of_log(told)
    if printed is not None:
        return printed.astimezone().isoformat(timespec="milliseconds"), "log"
    with contextlib.suppress(OSError, ValueError, OverflowError):
        measured = [p.file.path for slot, p in draft.parts.items() if slot not in SHARED]
        modified = max(path.stat().st_mtime for path in measured)
        changed = datetime.datetime.fromtimestamp(modified).astimezone()
        return changed.isoformat(timespec="milliseconds"), "file"
    return now(), "import"


def _printed_copies(told: LogRun) -> bool | None:
    """Say whether copies took any time, where a summary tells; ``None`` where it does not."""
    metrics = told.summary.metrics if told.summary is not None else {}
    longest = [metrics[name].max_ms for name in ("H2D Latency", "D2H Latency") if name in metrics]
    known = [value for value in longest if value is not None]
    return any(value > 0 for value in known) if len(known) == 2 else None


def _torch_conditions(draft: Draft) -> dict[str, Fact]:
    """Tell what the evaluation toolkit's PyTorch benchmark always does, and what it recorded."""
    told = draft.parts["torch"].value if "torch" in draft.parts else TorchBenchmark()
    tf32, dtype = told.tf32, told.dtype
    return {
        "transfers": Fact(value=True, source="implied"),
        "cuda_graph": Fact(value=False, source="implied"),
        "cuda_graph_fell_back": Fact(value=False, source="implied"),
        "spin_wait": Fact(value=True, source="implied"),
        "streams": Fact(value=1, source="implied"),
        "protocol": Fact(value="serve", source="implied"),
        "typing": Fact(value="strong", source="implied"),
        "tf32": Fact(value=tf32) if tf32 is not None else Fact(value=None, source="unknown"),
        "precision": Fact(value=dtype) if dtype else Fact(value=None, source="unknown"),
    }


def _tensors(
    told: LogRun, graph: EngineGraph | None
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """List inputs and outputs as the log announces them, else as the engine's layers show them."""
    if told.bindings or graph is None:
        return tensors_from_log(told, outputs=False), tensors_from_log(told, outputs=True)
    return edge_tensors(graph, outputs=False), edge_tensors(graph, outputs=True)


def _environment(draft: Draft, told: LogRun) -> Environment:
    """Describe the machine as far as the files do; trtexec tells neither host nor system."""
    gpu = gpu_from_log(told)
    if gpu is None and "device" in draft.parts and draft.parts["device"].value:
        gpu = gpu_from_device(draft.parts["device"].value[0])
    versions = {}
    version = told.version
    if version is None and "plan" in draft.parts:
        version = draft.parts["plan"].value.version
    if version is not None:
        versions["tensorrt"] = version
    return Environment(
        host=UNKNOWN,
        os=UNKNOWN,
        gpus=(gpu,) if gpu else (),
        versions=versions,
        command=told.command,
    )


def _launches(told: LogRun, array: TimesArray | None) -> tuple[LaunchFacts, ...]:
    facts, summary = told.facts, told.summary
    return (
        LaunchFacts(
            load_s=facts.load_s if facts.load_s is not None else facts.deserialize_s,
            warmup_iterations=(array.warmup_rows or None) if array else None,
            # With the times at hand the wall time is of exactly these rows.
            wall_s=summary.wall_s if summary and array is not None else None,
        ),
    )


def _facts(
    draft: Draft,
    told: LogRun,
    array: TimesArray | None,
    conditions: dict[str, Fact],
    reported: dict[str, Scalar],
) -> dict[str, Scalar]:
    facts: dict[str, Scalar] = {"executes_engine": not draft.of_torch}
    config = draft.parts.get("run_config")
    when = config.value.timestamp_iso if config else None
    if when:
        facts["measured_at"] = when
    if told.outcome not in ("passed", "waived", "cut"):
        facts["outcome"] = told.outcome
    if draft.built:
        facts["built_only"] = True
    engine = engine_path(told)
    if engine is not None:
        facts["engine_path"] = engine
    built = draft.parts["build_log"].value.facts if "build_log" in draft.parts else told.facts
    if built.build_s is not None:
        facts["build_s"] = built.build_s
    if array is not None and array.enqueue_resolution_s is not None:
        facts["enqueue_resolution_s"] = array.enqueue_resolution_s
    rate = reported.get("throughput_qps")
    if isinstance(rate, (int, float)):
        size = 1 if _counts_items(told) else conditions["batch"].value or 1
        facts["items_per_s"] = float(rate) * float(size)
    return facts


def _counts_items(told: LogRun) -> bool:
    """Say whether the printed rate counts items: an implicit batch is multiplied in by trtexec."""
    printed = conditions_from_log(told)["batch"]
    implicit = (told.option("Batch") or "").isdecimal()
    return implicit and printed.source == "stated" and printed.value not in (None, 1)


def _notes(draft: Draft, array: TimesArray | None, told: LogRun) -> Sequence[str]:
    notes = []
    if array is not None and array.warmup_rows:
        rows = counted(array.warmup_rows, "row")
        notes.append(f"left out as warm-up: {rows} of the first {array.warmup_ms:g} ms")
    if array is not None and array.enqueue_resolution_s is not None:
        step = text_from_seconds(array.enqueue_resolution_s, digits=2)
        notes.append(f"enqueue times are differences of stamps in steps of {step}")
    if array is not None and array.unknown_keys:
        notes.append(f"keys nobody knows in the times: {', '.join(sorted(array.unknown_keys))}")
    if array is not None and told.version is None and array.variant in _VERSIONS:
        notes.append(f"the times are in the layout of TensorRT {_VERSIONS[array.variant]}")
    if "times" not in draft.parts and any(slot.endswith("_series") for slot in draft.parts):
        notes.append(
            "samples as the evaluation toolkit kept them; it takes means below 0.1 ms for seconds"
        )
    if "layer_csv" in draft.parts and "profile" not in draft.parts:
        notes.append(
            "layer times as the evaluation toolkit kept them; without a count they may be totals"
        )
    if draft.built:
        notes.append("an engine was built; nothing was measured")
    notes += _log_notes(told)
    return notes


def _log_notes(told: LogRun) -> Iterator[str]:
    if told.title:
        yield f"above it stands: {told.title}"
    if told.pasted_command:
        yield "the command stood above the numbers; trtexec did not print it itself"
    if told.outcome == "cut":
        yield "an excerpt: the log has no end marker"
    elif told.outcome not in ("passed", "waived"):
        yield f"trtexec ended: {told.outcome}"
    summary = told.summary
    if summary is not None and summary.derived:
        groups = len(told.averages)
        lines = counted(groups, "line")
        yield f"trtexec printed {lines} of averages and no summary: means are over those"
        if groups > 1 and any(metric.percentiles_ms for metric in summary.metrics.values()):
            yield "the percentile is the largest of those lines"
