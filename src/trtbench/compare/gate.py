"""Gates: rules a candidate must meet, measured until they are clear or the time is up.

What a gate leaves for others to read: JSON, JUnit's XML, Markdown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from trtbench.compare.compare import (
    compared_runs,
    interpreter_of,
    play_sides,
    side_alone,
    side_in_turn,
    stored_run,
)
from trtbench.compare.turns import WARMUP, Duet, Sides, headline_verdict
from trtbench.core.codec import json_from_value
from trtbench.core.errors import UsageError, writing
from trtbench.core.properties import model_name
from trtbench.core.results import Compared, Failed, Gate, GateResult, GateRule, Verdict
from trtbench.core.run import Run
from trtbench.core.safety import read_settings
from trtbench.host.files import write_output
from trtbench.measure.bench import run_bench
from trtbench.measure.model_facts import LARGEST_BYTES, keep_model, kept_model
from trtbench.models.identity import model_ref
from trtbench.report.renderers.md import markdown
from trtbench.report.sections.verdicts import document_from_gates
from trtbench.requests.execution import Event, Execution
from trtbench.requests.fields import fraction, seconds
from trtbench.requests.groups import OnUnclear
from trtbench.requests.measure import GateRequest
from trtbench.requests.settings import Config
from trtbench.store.store import Store

ALONE_LAUNCHES = 5
"""Launches of a candidate that is only compared with limits."""

APART = (
    "the baseline's bytes are gone, so it is not measured again: runs measured apart show "
    "differences from about 40 % on until five earlier series are on record; --against FILE, or "
    "--keep-model, has both measured in turn"
)
RULES_SUFFIX = ".gate.toml"
"""``model.gate.toml`` beside ``model.onnx`` holds the ranges expected of it."""


def gate(
    request: GateRequest,
    *,
    store: Store,
    config: Config,
    against: str | None = None,
    execution: Execution | None = None,
    further: Sequence[GateRule] = (),
) -> Gate:
    """Measure a candidate until every rule is clear or the time is up, and judge it.

    ``against`` names the baseline where the request leaves it to history; ``further`` rules come
    from a file of several models.
    """
    began = time.monotonic()
    candidate = str(request.candidate)
    is_file, beside = Path(candidate).is_file(), Path(candidate).with_suffix(RULES_SUFFIX)
    own = rules_from_file(beside) if is_file and beside.is_file() else ()
    rules = (*rules_from_request(request), *own, *further)
    if against is None and request.against is not None:
        against = str(request.against)
    if not rules:
        raise UsageError(
            "the gate has no rules",
            fix="--max-slowdown 3%, --metric 'p99<5ms', or a file MODEL.gate.toml",
        )
    if any(rule.relation == "slowdown" for rule in rules) and against is None:
        raise UsageError("--max-slowdown needs something to compare with", fix="--against BASELINE")
    execution = execution or Execution()
    trial = _Trial(request, rules, store, execution.settings(config), execution)
    found = trial.once(candidate, against)
    if request.on_unclear == "retry" and any(r.outcome == "unclear" for r in found.results):
        found = trial.once(candidate, against)
    policy: Literal["fail", "pass"] = "pass" if request.on_unclear == "pass" else "fail"
    keeps = request.keep_model
    if keeps is None and request.baseline is not None:  # by itself, if it is small
        size = model_ref(Path(candidate)).size_bytes if is_file else None
        keeps = size is not None and size <= LARGEST_BYTES
    if keeps and is_file:
        keep_model(store, model_ref(Path(candidate)))
    return replace(
        found,
        open=passed(found.results, on_unclear=policy),
        seconds=time.monotonic() - began,
        closed_by=closed_by(found.results, on_unclear=policy),
    )


def rules_from_request(request: GateRequest) -> tuple[GateRule, ...]:
    """Put together the rules for a candidate: single ones, the slowdown, files of rules."""
    rules = [rule for text in request.metrics for rule in rules_from_text(text)]
    if request.max_slowdown is not None:
        rules.append(slowdown_rule(fraction(request.max_slowdown)))
    for path in request.rules:
        rules += rules_from_file(Path(path))
    return tuple(rules)


def rules_from_file(path: Path) -> tuple[GateRule, ...]:
    """Read rules from a TOML file."""
    return rules_from_table(read_settings(path), where=str(path))


def requests_from_file(request: GateRequest) -> list[tuple[GateRequest, tuple[GateRule, ...]]]:
    """Read a file of several models: a table each, with its baseline, its batch and its rules.

    A candidate that is no such file stays the only one. Names of files are relative to the file.
    """
    path = Path(request.candidate)
    if path.suffix != ".toml":
        return [(request, ())]
    tables = read_settings(path).get("models")
    if not isinstance(tables, dict) or not all(isinstance(each, dict) for each in tables.values()):
        raise UsageError(
            f"{path} names no models", fix='[models."model.onnx"]   max_slowdown = "3%"'
        )
    found = []
    for name, table in tables.items():
        own = ("against", "baseline", "batch", "runtime")
        given: dict[str, Any] = {key: table[key] for key in own if key in table}
        beside, model = path.parent / str(given.get("against", "")), path.parent / name
        if beside.is_file():
            given["against"] = beside
        rest = {key: value for key, value in table.items() if key not in own}
        rules = rules_from_table(rest, where=f"{path}: {name}")
        candidate = model if model.is_file() else name
        found.append((replace(request, candidate=candidate, **given), rules))
    return found


@dataclass(frozen=True)
class _Trial:
    """Measures a candidate for its rules."""

    request: GateRequest
    rules: Sequence[GateRule]
    store: Store
    config: Config
    execution: Execution

    def once(self, candidate: str, against: str | None) -> Gate:
        """Measure, alone or in turn with the baseline, and judge."""
        request, stored = self.request, stored_run(candidate, self.store)
        if against is None:
            return _judged(stored or self._bench(candidate), self.rules, None)
        baseline = stored_run(against, self.store)
        sides = self._sides(against, baseline, candidate) if stored is None else None
        if sides is None:
            assert baseline is not None
            if stored is None:
                self.execution.listen(Event(kind="note", text=APART))
            run = stored or self._bench(candidate)
            return _judged(run, self.rules, compared_runs(baseline, run, request))
        deadline = time.monotonic() + seconds(request.time_limit)
        compared = play_sides(
            sides,
            store=self.store,
            request=request,
            execution=self.execution,
            play=lambda duet: self._play_until_clear(duet, deadline),
        )
        # In turn with another engine nothing is profiled: layers are timed on their own.
        profiled = self._bench(candidate, launches=1) if self._wants_layers() else None
        return _judged(compared.candidate, self.rules, compared, profiled=profiled)

    def _play_until_clear(self, duet: Duet, deadline: float) -> None:
        """Add launches while a rule about speed is unclear and time is left for as many again."""
        request, began = self.request, time.monotonic()
        duet.play(request.launches)
        slowdowns = [rule for rule in self.rules if rule.relation == "slowdown"]
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

    def _wants_layers(self) -> bool:
        return any(rule.relation == "expect" for rule in self.rules)

    def _bench(self, candidate: str, *, launches: int | None = None) -> Run:
        """Measure a candidate alone, its layers too where rules ask for them."""
        launches = launches or self.request.launches or ALONE_LAUNCHES
        spec, python = side_alone(
            self.request, candidate, self.config, place=(-1, 2), launches=launches
        )
        spec = spec.having(profile=self._wants_layers())
        execution = replace(self.execution, python=python)
        return run_bench(spec, store=self.store, execution=execution)

    def _sides(self, against: str, baseline: Run | None, candidate: str) -> Sides | None:
        """Find sides for a duet, where both can be measured; a stored file must be unchanged."""
        request, config = self.request, self.config
        second = side_in_turn(request, candidate, config, place=(1, 2))
        if baseline is None:
            return Sides.of(side_in_turn(request, against, config, place=(0, 2)), second)
        model = kept_model(self.store, baseline.record.spec.model)
        if model is None:
            return None
        first = baseline.record.spec.having(
            model=model, warmup=WARMUP, launches=1, lock_clocks=second[0].lock_clocks
        )
        return Sides.of((first, interpreter_of(request, first, config, place=(0, 2))), second)


def closed_by(results: Sequence[GateResult], *, on_unclear: str) -> tuple[str, ...]:
    """Return, for every rule that closes the gate, what helps."""
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


def _judged(
    run: Run, rules: Sequence[GateRule], compared: Compared | None, *, profiled: Run | None = None
) -> Gate:
    verdicts: dict[str, Verdict] = {}
    if compared is not None:
        verdicts = {verdict.metric: verdict for verdict in compared.comparison.verdicts}
        verdicts["headline"] = compared.comparison.verdicts[0]
    results = evaluate(rules, summary=summary_from_run(run), verdicts=verdicts, run=profiled or run)
    return Gate(
        name=model_name(run.record),
        results=tuple(results),
        open=passed(results),
        candidate=run,
        compared=compared,
    )


def write_gate_files(
    found: Sequence[Gate], folder: Path, *, on_unclear: OnUnclear, failed: Sequence[Failed] = ()
) -> list[Path]:
    """Write gate.json, gate.junit.xml and gate.md, of one candidate or of several.

    ``failed`` are candidates that could not be measured: they are listed, and judged by nothing.
    """
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
