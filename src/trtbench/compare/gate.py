"""Gates: rules for a candidate, which is measured until they are decided or time is up."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trtbench.analysis import gate as gates
from trtbench.analysis.summary import summary_from_run
from trtbench.analysis.verdict import incomparable
from trtbench.compare.compare import Asked, Planned, stored_run
from trtbench.compare.turns import WARMUP, Duet, Sides, headline_verdict
from trtbench.core.codec import json_from_value
from trtbench.core.errors import UsageError, writing
from trtbench.core.properties import model_name
from trtbench.core.results import Failed, Gate, GateResult, GateRule
from trtbench.core.run import Run
from trtbench.core.safety import read_settings
from trtbench.core.spec import conditions_of_stored
from trtbench.host.files import refuse_planted
from trtbench.measure.model_facts import LARGEST_COPIED_BYTES, keep_model, kept_model
from trtbench.models.identity import model_ref
from trtbench.report.renderers.md import markdown
from trtbench.report.sections.verdicts import document_from_gates
from trtbench.requests.execution import Event, Execution
from trtbench.requests.fields import fraction, seconds
from trtbench.requests.measure import GateRequest, OnUnclear
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES
from trtbench.store.store import Store

ALONE_LAUNCHES = 5  # launches of a candidate that is not compared with a baseline

MEASURED_APART = (
    "the baseline's file is gone, or others can change it and the code in it, so it is not "
    "measured again: runs measured apart only show differences of about 40 % or more until five "
    "earlier series are stored; --against FILE or --keep-model measures both in turn"
)
RULES_SUFFIX = ".gate.toml"  # `model.gate.toml` next to `model.onnx` holds its rules


def gate(
    request: GateRequest,
    *,
    store: Store,
    config: Config,
    against: str | None = None,
    execution: Execution | None = None,
    further: Sequence[GateRule] = (),
) -> Gate:
    """Measure a candidate until every rule is decided or time is up; return the results."""
    began, candidate = time.monotonic(), Path(request.candidate)
    is_file, rules_file = candidate.is_file(), candidate.parent / f"{candidate.stem}{RULES_SUFFIX}"
    own = rules_from_file(rules_file) if is_file and rules_file.is_file() else ()
    rules = (*rules_from_request(request), *own, *further)
    if against is None and request.against is not None:
        against = str(request.against)
    if not rules:
        fix = "--max-slowdown 3%, --metric 'p99<5ms', or a file MODEL.gate.toml"
        raise UsageError("the gate has no rules", fix=fix)
    compared = [rule.text for rule in rules if rule.relation == "slowdown"]
    if compared and against is None:
        raise UsageError(f"{compared[0]} needs something to compare with", fix="--against BASELINE")
    execution = execution or Execution()
    settings = execution.settings(config)
    asked = Asked(request=request, store=store, config=settings, execution=execution)
    for _ in range(2 if request.on_unclear == "retry" else 1):
        found = _measure_once(asked, request, rules, against)
        if all(each.outcome != "unclear" for each in found.results):
            break
    keeps = request.keep_model
    keeps_small = keeps is None and request.baseline is not None
    if is_file and (keeps or keeps_small):
        model = model_ref(candidate)
        if keeps or (model.size_bytes or 0) <= LARGEST_COPIED_BYTES:
            keep_model(store, model)
    is_open = gates.passed(found.results, on_unclear=request.on_unclear)
    reasons = failure_reasons(found.results, on_unclear=request.on_unclear)
    return replace(found, open=is_open, seconds=time.monotonic() - began, closed_by=reasons)


def rules_from_request(request: GateRequest) -> tuple[GateRule, ...]:
    """Return all rules of a request: from --metric, --max-slowdown and files of rules."""
    slowdown = request.max_slowdown
    return (
        *(rule for text in request.metrics for rule in gates.rules_from_text(text)),
        *([gates.slowdown_rule(fraction(slowdown))] if slowdown is not None else []),
        *(rule for path in request.rules for rule in rules_from_file(Path(path))),
    )


def rules_from_file(path: Path) -> tuple[GateRule, ...]:
    return gates.rules_from_table(read_settings(path), where=str(path))


def requests_from_file(request: GateRequest) -> list[tuple[GateRequest, tuple[GateRule, ...]]]:
    """Read requests and rules from a TOML file with several models; else return the request."""
    path = Path(request.candidate)
    if path.suffix != ".toml":
        return [(request, ())]
    tables = read_settings(path).get("models")
    if not isinstance(tables, dict) or not all(isinstance(each, dict) for each in tables.values()):
        fix = '[models."model.onnx"]   max_slowdown = "3%"'
        raise UsageError(f"{path} has no table of models", fix=fix)
    found = []
    for name, table in tables.items():
        own = ("against", "baseline", "batch", "runtime")
        given: dict[str, Any] = {key: table.pop(key) for key in own if key in table}
        against, model = path.parent / str(given.get("against", "")), path.parent / name
        if against.is_file():
            given["against"] = against
        rules = gates.rules_from_table(table, where=f"{path}: {name}")
        given["candidate"] = model if model.is_file() else name
        found.append((request.having(**given), rules))
    return found


def _measure_once(
    asked: Asked, request: GateRequest, rules: Sequence[GateRule], against: str | None
) -> Gate:
    """Measure a candidate, alone or in turn with the baseline, and evaluate the rules."""
    candidate, store, execution = str(request.candidate), asked.store, asked.execution
    wants_layers = any(rule.relation == "expect" for rule in rules)

    def bench(launches: int) -> Run:
        side = asked.side_alone(candidate, (-1, 2), launches)
        return asked.measure_alone(side, profile=wants_layers)

    def measure_until_clear(duet: Duet) -> None:
        """Add launches while a slowdown rule is unclear and there is time for more."""
        slowdowns = [rule for rule in rules if rule.relation == "slowdown"]

        def decided() -> bool:
            verdict = headline_verdict(duet, margin=request.margin_part)
            verdicts = {verdict.metric: verdict, "headline": verdict}
            results = gates.evaluate(slowdowns, verdicts=verdicts)
            refused = verdict.interval is None and verdict.launches_needed is None
            return refused or all(result.outcome != "unclear" for result in results)

        duet.limit_s = deadline - time.monotonic()
        duet.measure_until(decided)

    deadline = time.monotonic() + seconds(request.time_limit)
    run = stored_run(candidate, store)
    baseline = stored_run(against, store) if against is not None else None
    sides: Sides | None = None
    compared, profiled, verdicts = None, None, {}
    if run is not None and baseline is None and against is not None:
        pair = asked.plan_pair((against, candidate))
        if (reason := asked.refused_pair(pair)) is not None:
            return _refuse(candidate, rules, reason)
        compared = asked.compare_pair(pair)
    elif run is None and against is not None:
        second = asked.side_in_turn(candidate, (1, 2))
        first: Planned = baseline or asked.side_in_turn(against, (0, 2))
        if (reason := asked.refused_pair((first, second))) is not None:
            return _refuse(candidate, rules, reason)
        if not isinstance(first, Run):
            sides = Sides.of(*asked.engines([first, second]))
        elif model := kept_model(store, first.record.spec):
            [second], recorded = asked.engines([second]), first.record.spec
            known = RUNTIMES.load(recorded.runtime).CONDITIONS
            stored, left = conditions_of_stored(recorded, second[0], options=known)
            stored = stored.having(model=model, warmup=WARMUP, launches=1)
            if left:
                text = f"not taken from the stored run {against}: {', '.join(left)}"
                execution.listen(Event(kind="note", text=text))
            sides = Sides.of((stored, asked.interpreter_of(stored, (0, 2))), second)
        else:
            execution.listen(Event(kind="note", text=MEASURED_APART))
    if sides is not None:
        compared = asked.measure_in_turn(sides, measure_until_clear)
        run = compared.candidate
        # Turns are not profiled: layers need a launch of their own.
        profiled = bench(1) if wants_layers else None
    run = run or bench(request.launches or ALONE_LAUNCHES)
    if sides is None and baseline is not None:
        compared = asked.compare_runs(baseline, run)
    both = {"candidate": run}
    if compared is not None:
        both["baseline"] = compared.baseline
        verdicts = {verdict.metric: verdict for verdict in compared.comparison.verdicts}
        verdicts["headline"] = compared.comparison.verdicts[0]
    results = gates.evaluate(
        rules, summary=summary_from_run(run), verdicts=verdicts, run=profiled or run
    )
    results += gates.standing_results(both, verdicts.get("headline"), rules)
    name, is_open = model_name(run.record), gates.passed(results)
    return Gate(name=name, results=tuple(results), open=is_open, candidate=run, compared=compared)


def _refuse(candidate: str, rules: Sequence[GateRule], reason: str) -> Gate:
    """Return a gate that fails before anything is measured, because nothing can be compared."""
    verdict = incomparable("headline", reason=reason)
    results = gates.evaluate(rules, verdicts={"headline": verdict})
    results += gates.standing_results({}, verdict, rules)
    first = sorted(results, key=lambda each: each.message == gates.NOT_MEASURED)
    return Gate(name=Path(candidate).name, results=tuple(first), open=False, candidate=None)


def failure_reasons(results: Sequence[GateResult], *, on_unclear: str) -> tuple[str, ...]:
    """Return for every rule that fails the gate why, and what to do."""
    found = []
    for each in results:
        needed = each.launches_needed
        if each.outcome == "pass" or (each.outcome == "unclear" and on_unclear == "pass"):
            continue
        if each.outcome == "unclear" and needed:
            more = f"--launches {needed} --time-limit 10min"
            remedy = f"unclear; {more} would probably decide it"
        elif each.outcome == "unclear":
            apart = each.rule.relation == "slowdown"
            more = "--against FILE measures both in turn" if apart else "a longer --duration"
            remedy = f"unclear; {more}, "
            remedy += "--on-unclear pass lets it through"
        elif each.rule.relation == "slowdown" and each.value is None:
            remedy = "cannot be compared; give both sides the same inputs (--shape, --batch), "
            remedy += "or --accept NAME"
        elif each.value is None:
            remedy = each.message
        elif each.rule.relation == "slowdown":
            remedy = "too slow; trtbench diff BASELINE CANDIDATE --why shows where"
        else:
            remedy = "does not hold; trtbench compare --why shows what the number depends on"
        found.append(f"{each.rule.text}: {remedy}")
    return tuple(found)


def gate_files(
    found: Sequence[Gate], *, on_unclear: OnUnclear, failed: Sequence[Failed] = ()
) -> dict[str, bytes]:
    """Return gate.json, gate.junit.xml and gate.md; ``failed`` models have no results."""
    values: list[dict[str, object]] = [
        {
            "model": each.name,
            "open": each.open,
            "candidate": each.candidate.id if each.candidate else None,
            "results": each.results,
            "findings": each.candidate.findings if each.candidate else (),
            "comparison": each.compared.comparison if each.compared else None,
            "closed_by": each.closed_by,
        }
        for each in found
    ]
    values += [{"model": each.model, "open": False, "failed": each.reason} for each in failed]
    suites = [
        gates.Suite(f"trtbench gate {each.name}", each.results, each.seconds) for each in found
    ]
    suites += [gates.Suite(f"trtbench gate {each.model}", (), error=each.reason) for each in failed]
    return {
        "gate.json": json_from_value(values[0] if len(values) == 1 else values),
        "gate.junit.xml": gates.junit_from_suites(suites, on_unclear=on_unclear).encode(),
        "gate.md": markdown(document_from_gates(found, failed)).encode(),
    }


def append_summary(found: Sequence[Gate], path: Path, *, failed: Sequence[Failed] = ()) -> None:
    """Append the table of results to a Markdown file, such as GitHub's job summary."""
    refuse_planted(path)
    with writing(path), open(path, "a", encoding="utf-8") as file:
        file.write(markdown(document_from_gates(found, failed), level=2) + "\n")
