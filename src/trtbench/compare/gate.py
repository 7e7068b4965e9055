"""Gates: rules a candidate must meet, measured until they are clear or the time is up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from trtbench.analysis.gate import (
    Suite,
    evaluate,
    junit_from_suites,
    passed,
    rules_from_table,
    rules_from_text,
    slowdown_rule,
)
from trtbench.analysis.summary import summary_from_run
from trtbench.compare import compare
from trtbench.compare.turns import WARMUP, Duet, Sides, headline_verdict
from trtbench.core.codec import json_from_value
from trtbench.core.errors import UsageError, writing
from trtbench.core.properties import model_name
from trtbench.core.results import Failed, Gate, GateResult, GateRule
from trtbench.core.run import Run
from trtbench.core.safety import read_settings
from trtbench.host.files import write_output
from trtbench.measure.bench import run_bench
from trtbench.measure.model_facts import LARGEST_COPIED_BYTES, keep_model, kept_model
from trtbench.models.identity import model_ref
from trtbench.report.renderers.md import markdown
from trtbench.report.sections.verdicts import document_from_gates
from trtbench.requests.execution import Event, Execution
from trtbench.requests.fields import fraction, seconds
from trtbench.requests.measure import GateRequest, OnUnclear
from trtbench.requests.settings import Config
from trtbench.store.store import Store

ALONE_LAUNCHES = 5  # launches of a candidate that is only compared with limits

APART = (
    "the baseline's bytes are gone, so it is not measured again: runs measured apart show "
    "differences from about 40 % on until five earlier series are on record; --against FILE, or "
    "--keep-model, has both measured in turn"
)
RULES_SUFFIX = ".gate.toml"  # `model.gate.toml` beside `model.onnx` holds the ranges expected of it


def gate(
    request: GateRequest,
    *,
    store: Store,
    config: Config,
    against: str | None = None,
    execution: Execution | None = None,
    further: Sequence[GateRule] = (),
) -> Gate:
    """Measure a candidate until every rule is clear or the time is up, and judge it."""
    began, candidate = time.monotonic(), Path(request.candidate)
    is_file, beside = candidate.is_file(), candidate.with_suffix(RULES_SUFFIX)
    own = rules_from_file(beside) if is_file and beside.is_file() else ()
    rules = (*rules_from_request(request), *own, *further)
    if against is None and request.against is not None:
        against = str(request.against)
    if not rules:
        fix = "--max-slowdown 3%, --metric 'p99<5ms', or a file MODEL.gate.toml"
        raise UsageError("the gate has no rules", fix=fix)
    if any(rule.relation == "slowdown" for rule in rules) and against is None:
        raise UsageError("--max-slowdown needs something to compare with", fix="--against BASELINE")
    execution = execution or Execution()
    settings = execution.settings(config)
    for _ in range(2 if request.on_unclear == "retry" else 1):
        found = _measure_once(
            request, rules, against, store=store, config=settings, execution=execution
        )
        if all(each.outcome != "unclear" for each in found.results):
            break
    policy: Literal["fail", "pass"] = "pass" if request.on_unclear == "pass" else "fail"
    keeps = request.keep_model
    if is_file and (keeps or (keeps is None and request.baseline is not None)):
        model = model_ref(candidate)
        if keeps or (model.size_bytes or 0) <= LARGEST_COPIED_BYTES:  # by itself, if it is small
            keep_model(store, model)
    is_open = passed(found.results, on_unclear=policy)
    reasons = closed_by(found.results, on_unclear=policy)
    return replace(found, open=is_open, seconds=time.monotonic() - began, closed_by=reasons)


def rules_from_request(request: GateRequest) -> tuple[GateRule, ...]:
    """Put together the rules for a candidate: single ones, the slowdown, files of rules."""
    slowdown = request.max_slowdown
    return (
        *(rule for text in request.metrics for rule in rules_from_text(text)),
        *([slowdown_rule(fraction(slowdown))] if slowdown is not None else []),
        *(rule for path in request.rules for rule in rules_from_file(Path(path))),
    )


def rules_from_file(path: Path) -> tuple[GateRule, ...]:
    return rules_from_table(read_settings(path), where=str(path))


def requests_from_file(request: GateRequest) -> list[tuple[GateRequest, tuple[GateRule, ...]]]:
    """Read a file of several models, a table each; another candidate stays the only one."""
    path = Path(request.candidate)
    if path.suffix != ".toml":
        return [(request, ())]
    tables = read_settings(path).get("models")
    if not isinstance(tables, dict) or not all(isinstance(each, dict) for each in tables.values()):
        fix = '[models."model.onnx"]   max_slowdown = "3%"'
        raise UsageError(f"{path} names no models", fix=fix)
    found = []
    for name, table in tables.items():
        own = ("against", "baseline", "batch", "runtime")
        given: dict[str, Any] = {key: table.pop(key) for key in own if key in table}
        beside, model = path.parent / str(given.get("against", "")), path.parent / name
        if beside.is_file():
            given["against"] = beside
        rules = rules_from_table(table, where=f"{path}: {name}")
        given["candidate"] = model if model.is_file() else name
        found.append((replace(request, **given), rules))
    return found


def _measure_once(
    request: GateRequest,
    rules: Sequence[GateRule],
    against: str | None,
    *,
    store: Store,
    config: Config,
    execution: Execution,
) -> Gate:
    """Measure a candidate, alone or in turn with the baseline, and judge it."""
    candidate = str(request.candidate)
    wants_layers = any(rule.relation == "expect" for rule in rules)

    def bench(launches: int) -> Run:
        spec, python = compare.side_alone(
            request, candidate, config, place=(-1, 2), launches=launches
        )
        own = replace(execution, python=python)
        return run_bench(spec.having(profile=wants_layers), store=store, execution=own)

    def play_until_clear(duet: Duet) -> None:
        """Add launches while a rule about speed is unclear and time is left for as many again."""
        began = time.monotonic()
        duet.play(request.launches)
        slowdowns = [rule for rule in rules if rule.relation == "slowdown"]
        while slowdowns and duet.launches < request.most_launches:
            verdict = headline_verdict(duet, margin=request.margin_part)
            results = evaluate(slowdowns, verdicts={verdict.metric: verdict, "headline": verdict})
            decided = all(result.outcome != "unclear" for result in results)
            denied = verdict.interval is None and verdict.launches_needed is None
            more = min(duet.more, request.most_launches - duet.launches)
            each = (time.monotonic() - began) / duet.launches
            if decided or denied or time.monotonic() + more * each > deadline:
                return
            duet.play(more)

    deadline = time.monotonic() + seconds(request.time_limit)
    run = compare.stored_run(candidate, store)
    baseline = compare.stored_run(against, store) if against is not None else None
    sides: Sides | None = None
    if run is None and against is not None:
        second = compare.side_in_turn(request, candidate, config, place=(1, 2))
        if baseline is None:
            sides = Sides.of(compare.side_in_turn(request, against, config, place=(0, 2)), second)
        elif model := kept_model(store, baseline.record.spec.model):
            first = baseline.record.spec.having(
                model=model, warmup=WARMUP, launches=1, lock_clocks=second[0].lock_clocks
            )
            python = compare.interpreter_of(request, first, config, place=(0, 2))
            sides = Sides.of((first, python), second)
        else:
            execution.listen(Event(kind="note", text=APART))
    compared, profiled, verdicts = None, None, {}
    if sides is not None:
        compared = compare.play_sides(
            sides, store=store, request=request, execution=execution, play=play_until_clear
        )
        run = compared.candidate
        # In turn with another engine nothing is profiled: layers are timed on their own.
        profiled = bench(1) if wants_layers else None
    run = run or bench(request.launches or ALONE_LAUNCHES)
    if sides is None and baseline is not None:
        compared = compare.compared_runs(baseline, run, request)
    if compared is not None:
        verdicts = {verdict.metric: verdict for verdict in compared.comparison.verdicts}
        verdicts["headline"] = compared.comparison.verdicts[0]
    results = evaluate(rules, summary=summary_from_run(run), verdicts=verdicts, run=profiled or run)
    name, is_open = model_name(run.record), passed(results)
    return Gate(name=name, results=tuple(results), open=is_open, candidate=run, compared=compared)


def closed_by(results: Sequence[GateResult], *, on_unclear: str) -> tuple[str, ...]:
    """For every rule that closes the gate, what helps."""
    found = []
    for each in results:
        needed = each.launches_needed
        if each.outcome == "pass" or (each.outcome == "unclear" and on_unclear == "pass"):
            continue
        if each.outcome == "unclear" and needed:
            more = f"--launches {needed} --time-limit 10min"
            remedy = f"unclear; {more} would decide, if nothing else changes"
        elif each.outcome == "unclear":
            remedy = "unclear; --against FILE measures both in turn, "
            remedy += "--on-unclear pass lets it through"
        elif each.rule.relation == "slowdown":
            remedy = "too slow; trtbench diff BASELINE CANDIDATE --why shows where"
        else:
            remedy = "does not hold; trtbench compare --why shows what the number depends on"
        found.append(f"{each.rule.text}: {remedy}")
    return tuple(found)


def write_gate_files(
    found: Sequence[Gate], folder: Path, *, on_unclear: OnUnclear, failed: Sequence[Failed] = ()
) -> list[Path]:
    """Write gate.json, gate.junit.xml and gate.md; ``failed`` ones are listed, not judged."""
    policy: Literal["fail", "pass"] = "pass" if on_unclear == "pass" else "fail"
    values: list[dict[str, object]] = [
        {
            "model": each.name,
            "open": each.open,
            "candidate": each.candidate.id if each.candidate else None,
            "results": each.results,
            "comparison": each.compared.comparison if each.compared else None,
            "closed_by": each.closed_by,
        }
        for each in found
    ]
    values += [{"model": each.model, "open": False, "failed": each.reason} for each in failed]
    suites = [Suite(f"trtbench gate {each.name}", each.results, each.seconds) for each in found]
    suites += [Suite(f"trtbench gate {each.model}", (), error=each.reason) for each in failed]
    contents = {
        "gate.json": json_from_value(values[0] if len(values) == 1 else values),
        "gate.junit.xml": junit_from_suites(suites, on_unclear=policy).encode(),
        "gate.md": markdown(document_from_gates(found, failed)).encode(),
    }
    return [write_output(folder / file, content) for file, content in contents.items()]


def append_summary(found: Sequence[Gate], path: Path, *, failed: Sequence[Failed] = ()) -> None:
    """Add the table of results to a file of Markdown, as GitHub shows it with a job."""
    with writing(path), open(path, "a", encoding="utf-8") as file:
        file.write(markdown(document_from_gates(found, failed), level=2) + "\n")
