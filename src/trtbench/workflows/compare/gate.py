"""Gates: rules a candidate must meet, measured until they are clear or the time is up."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from trtbench.analysis.gate import evaluate, passed, rules_from_table
from trtbench.analysis.gate_report import junit_from_results
from trtbench.analysis.summary import summary_from_run
from trtbench.domain.codec import json_from_value
from trtbench.domain.result import GateResult, GateRule, Run, Verdict
from trtbench.errors import UsageError, write_error
from trtbench.models.identity import identity_of
from trtbench.report.documents.gate import document_from_gate
from trtbench.report.renderers.md import markdown
from trtbench.store.store import Store
from trtbench.workflows.compare.compare import (
    Compared,
    compared_from_duet,
    comparison_from_runs,
    duet_spec,
    headline_verdict,
    make_duet,
    stored_run,
)
from trtbench.workflows.compare.duet import Duet
from trtbench.workflows.compare.sides import WARMUP, Asked, Sides
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.spec import run_spec

OnUnclear = Literal["fail", "pass", "retry"]

ALONE_LAUNCHES = 5
"""Launches of a candidate that is only held against limits."""
RULES_SUFFIX = ".gate.toml"
"""``model.gate.toml`` beside ``model.onnx`` holds the ranges expected of it."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What the gate found."""

    results: tuple[GateResult, ...]
    open: bool
    candidate: Run
    compared: Compared | None = None


def gate(
    candidate: str,
    rules: Sequence[GateRule],
    *,
    store: Store,
    config: Config,
    against: str | None = None,
    on_unclear: OnUnclear = "fail",
    time_limit_s: float = 60.0,
    asked: Asked | None = None,
    conduct: Conduct | None = None,
) -> Gate:
    """Measure a candidate until every rule is clear or the time is up, and judge it."""
    asked, conduct = asked or Asked(), conduct or Conduct()
    rules = (*rules, *rules_beside(candidate))
    if not rules:
        raise UsageError(
            "the gate has no rules",
            fix="--max-slowdown 3%, --metric 'p99<5ms', or a file MODEL.gate.toml",
        )
    if any(rule.relation == "slowdown" for rule in rules) and against is None:
        raise UsageError("--max-slowdown needs something to compare with", fix="--against BASELINE")
    tries = 2 if on_unclear == "retry" else 1
    for last in (False, True)[-tries:]:
        found = _once(candidate, rules, store, config, against, time_limit_s, asked, conduct)
        unclear = any(result.outcome == "unclear" for result in found.results)
        if last or not unclear:
            break
    policy: Literal["fail", "pass"] = "pass" if on_unclear == "pass" else "fail"
    return Gate(
        results=found.results,
        open=passed(found.results, on_unclear=policy),
        candidate=found.candidate,
        compared=found.compared,
    )


def rules_beside(model: str) -> tuple[GateRule, ...]:
    """Read the ranges kept beside a model file, if there are any."""
    path = Path(model).with_suffix(RULES_SUFFIX)
    if not Path(model).is_file() or not path.is_file():
        return ()
    return rules_from_file(path)


def rules_from_file(path: Path) -> tuple[GateRule, ...]:
    """Read rules from a TOML file."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: Mapping[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise UsageError(f"{path} cannot be read", facts={"reason": problem}) from None
    return rules_from_table(table, where=str(path))


def write_gate_files(found: Gate, folder: Path, *, on_unclear: OnUnclear) -> list[Path]:
    """Write gate.json, gate.junit.xml and gate.md."""
    policy: Literal["fail", "pass"] = "pass" if on_unclear == "pass" else "fail"
    name = found.candidate.record.spec.model.name
    comparison = found.compared.comparison if found.compared else None
    document = {
        "open": found.open,
        "candidate": found.candidate.id,
        "results": found.results,
        "comparison": comparison,
    }
    contents = {
        "gate.json": json_from_value(document),
        "gate.junit.xml": junit_from_results(
            found.results, suite=f"trtbench gate {name}", on_unclear=policy
        ).encode(),
        "gate.md": markdown(document_from_gate(found)).encode(),
    }
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in contents.items():
            (folder / file).write_bytes(content)
            paths.append(folder / file)
    except OSError as problem:
        raise write_error(folder, problem) from None
    return paths


def append_summary(found: Gate, path: Path) -> None:
    """Add the table of results to a file of Markdown, as GitHub shows it with a job."""
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(markdown(document_from_gate(found), level=2) + "\n")
    except OSError as problem:
        raise write_error(path, problem) from None


def _once(
    candidate: str,
    rules: Sequence[GateRule],
    store: Store,
    config: Config,
    against: str | None,
    time_limit_s: float,
    asked: Asked,
    conduct: Conduct,
) -> Gate:
    stored = stored_run(candidate, store)
    if against is None:
        run = stored or _bench(candidate, rules, config, store, asked, conduct)
        return _judged(run, rules, None)
    baseline = stored_run(against, store)
    sides = _sides(against, baseline, candidate, stored, config, asked)
    if sides is None:
        assert baseline is not None
        run = stored or _bench(candidate, rules, config, store, asked, conduct)
        comparison = comparison_from_runs(baseline, run, margin=asked.margin, accept=asked.accept)
        compared = Compared(baseline=baseline, candidate=run, comparison=comparison)
        return _judged(run, rules, compared)
    duet = make_duet(sides, store=store, asked=asked, conduct=conduct)
    _play_until_clear(duet, rules, asked, deadline=time.monotonic() + time_limit_s)
    compared = compared_from_duet(duet, asked)
    return _judged(compared.candidate, rules, compared)


def _bench(
    candidate: str,
    rules: Sequence[GateRule],
    config: Config,
    store: Store,
    asked: Asked,
    conduct: Conduct,
) -> Run:
    """Measure a candidate alone, its layers too where rules ask for them."""
    given = {key: value for key, value in asked.flags.items() if value is not None}
    flags = {"launches": asked.alone or ALONE_LAUNCHES, **given}
    runtime = asked.runtimes[-1] if asked.runtimes else None
    layers = any(rule.relation == "expect" for rule in rules)
    spec = run_spec(candidate, config=config, runtime=runtime, profile=layers, **flags)
    return run_bench(spec, store=store, conduct=conduct)


def _sides(
    against: str,
    baseline: Run | None,
    candidate: str,
    stored: Run | None,
    config: Config,
    asked: Asked,
) -> Sides | None:
    """Both sides for a duet, when both can still be measured; a stored file must be unchanged."""
    if stored is not None:
        return None
    runtimes = list(asked.runtimes) or [None]
    second = duet_spec(candidate, runtimes[-1], config=config, asked=asked)
    if baseline is None:
        first = duet_spec(against, runtimes[0], config=config, asked=asked)
    else:
        reference = baseline.record.spec.model
        path = Path(reference.path)
        if not path.is_file() or reference.sha256 != identity_of(path):
            return None
        first = msgspec.structs.replace(baseline.record.spec, warmup=WARMUP, launches=1)
    pythons = (config.python_for(first.runtime), config.python_for(second.runtime))
    return Sides(baseline=first, candidate=second, pythons=pythons)


def _play_until_clear(
    duet: Duet, rules: Sequence[GateRule], asked: Asked, *, deadline: float
) -> None:
    """Add launches while a rule about speed is unclear and time is left for as many again."""
    began = time.monotonic()
    duet.play(asked.launches)
    slowdowns = [rule for rule in rules if rule.relation == "slowdown"]
    while slowdowns and duet.launches < asked.most_launches:
        verdict = headline_verdict(duet, margin=asked.margin)
        results = evaluate(slowdowns, verdicts={verdict.metric: verdict, "headline": verdict})
        decided = all(result.outcome != "unclear" for result in results)
        if decided or (verdict.kind == "unclear" and verdict.launches_needed is None):
            return
        more = min(duet.launches, asked.most_launches - duet.launches)
        each = (time.monotonic() - began) / duet.launches
        if time.monotonic() + more * each > deadline:
            return
        duet.play(more)


def _judged(run: Run, rules: Sequence[GateRule], compared: Compared | None) -> Gate:
    verdicts: dict[str, Verdict] = {}
    if compared is not None:
        verdicts = {verdict.metric: verdict for verdict in compared.comparison.verdicts}
        verdicts["headline"] = compared.comparison.verdicts[0]
    results = evaluate(rules, summary=summary_from_run(run), verdicts=verdicts, run=run)
    return Gate(results=tuple(results), open=passed(results), candidate=run, compared=compared)
