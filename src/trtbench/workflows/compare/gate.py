"""Gates: rules a candidate must meet, measured until they are clear or the time is up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from trtbench.analysis.gate import evaluate, passed, rule_from_text, rules_from_table, slowdown_rule
from trtbench.analysis.summary import summary_from_run
from trtbench.boundary import read_settings
from trtbench.domain.comparison import GateResult, GateRule, Verdict
from trtbench.domain.result import Run
from trtbench.domain.short_view import ShortView
from trtbench.errors import UsageError
from trtbench.models.identity import model_ref
from trtbench.report.labels import model_name
from trtbench.store.store import Store
from trtbench.workflows.compare.compare import (
    Compared,
    compared_from_duet,
    comparison_from_runs,
    duet_spec,
    play_sides,
    stored_run,
)
from trtbench.workflows.compare.duet import Duet
from trtbench.workflows.compare.sides import WARMUP, Sides
from trtbench.workflows.compare.until_clear import headline_verdict, make_duet
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.measure.kept_models import LARGEST_BYTES, keep_model, kept_model
from trtbench.workflows.request.comparing import GateRequest, TurnFields
from trtbench.workflows.request.conduct import Conduct, is_elsewhere
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.kinds import fraction, seconds
from trtbench.workflows.request.progress import Event
from trtbench.workflows.request.spec import pick, side_spec

ALONE_LAUNCHES = 5
"""Launches of a candidate that is only held against limits."""
SAME_BYTES = "both sides are the same bytes in the same runtime (--measure-same measures them)"
_WAYS = (
    "runtime", "precision", "batch", "shapes", "protocol", "streams", "threads", "device", "gap_s",
    "rate_hz", "profile_index", "extra_args",
)  # fmt: skip
"""In which the same bytes may be run in two ways."""
APART = (
    "the baseline's bytes are gone, so it is not measured again: runs measured apart are told "
    "apart from about 40 % on until five earlier series are on record; --against FILE, or "
    "--keep-model, has both measured in turn"
)
RULES_SUFFIX = ".gate.toml"
"""``model.gate.toml`` beside ``model.onnx`` holds the ranges expected of it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Gate(ShortView):
    """What the gate found."""

    name: str
    """Of the candidate, for people."""
    results: tuple[GateResult, ...]
    open: bool
    candidate: Run | None
    """``None`` where nothing had to be measured."""
    compared: Compared | None = None
    seconds: float = 0.0
    """How long it took."""
    closed_by: tuple[str, ...] = ()
    """What closed it, each with the flag that helps."""


def gate(
    request: GateRequest,
    *,
    store: Store,
    config: Config,
    against: str | None = None,
    conduct: Conduct | None = None,
    further: Sequence[GateRule] = (),
) -> Gate:
    """Measure a candidate until every rule is clear or the time is up, and judge it.

    ``against`` names the baseline where the request leaves it to history; ``further`` rules come
    from a file of several models.
    """
    began = time.monotonic()
    candidate = str(request.candidate)
    rules = (*rules_from_request(request), *rules_beside(candidate), *further)
    if against is None and request.against is not None:
        against = str(request.against)
    if not rules:
        raise UsageError(
            "the gate has no rules",
            fix="--max-slowdown 3%, --metric 'p99<5ms', or a file MODEL.gate.toml",
        )
    if any(rule.relation == "slowdown" for rule in rules) and against is None:
        raise UsageError("--max-slowdown needs something to compare with", fix="--against BASELINE")
    config = config.elsewhere() if is_elsewhere(request) else config
    trial = _Trial(request, rules, store, config, conduct or Conduct())
    tries = 2 if request.on_unclear == "retry" else 1
    for last in (False, True)[-tries:]:
        found = trial.once(candidate, against)
        unclear = any(result.outcome == "unclear" for result in found.results)
        if last or not unclear:
            break
    policy: Literal["fail", "pass"] = "pass" if request.on_unclear == "pass" else "fail"
    if _keeps(request, candidate):
        keep_model(store, model_ref(Path(candidate)))
    return replace(
        found,
        open=passed(found.results, on_unclear=policy),
        seconds=time.monotonic() - began,
        closed_by=closed_by(found.results, on_unclear=policy),
    )


def _keeps(request: GateRequest, candidate: str) -> bool:
    """Say whether a candidate's bytes are kept: as asked, else with ``--baseline`` if small."""
    if not Path(candidate).is_file():
        return False
    if request.keep_model is not None:
        return request.keep_model
    size = model_ref(Path(candidate)).size_bytes
    return request.baseline is not None and size is not None and size <= LARGEST_BYTES


def rules_from_request(request: GateRequest) -> tuple[GateRule, ...]:
    """Put together what a candidate is held to: single rules, the slowdown, files of rules."""
    rules = [rule_from_text(text) for text in request.metrics]
    if request.max_slowdown is not None:
        rules.append(slowdown_rule(fraction(request.max_slowdown)))
    for path in request.rules:
        rules += rules_from_file(Path(path))
    return tuple(rules)


def rules_beside(model: str) -> tuple[GateRule, ...]:
    """Read the ranges kept beside a model file, if there are any."""
    path = Path(model).with_suffix(RULES_SUFFIX)
    if not Path(model).is_file() or not path.is_file():
        return ()
    return rules_from_file(path)


def rules_from_file(path: Path) -> tuple[GateRule, ...]:
    """Read rules from a TOML file."""
    return rules_from_table(read_settings(path), where=str(path))


def requests_from_file(request: GateRequest) -> list[tuple[GateRequest, tuple[GateRule, ...]]]:
    """Read a file of several models: a table each, with its baseline, its batch and its rules.

    A candidate that is no such file stays the only one.
    """
    path = Path(request.candidate)
    if path.suffix != ".toml":
        return [(request, ())]
    tables = read_settings(path).get("models")
    if not isinstance(tables, dict) or not all(isinstance(each, dict) for each in tables.values()):
        raise UsageError(
            f"{path} names no models", fix='[models."model.onnx"]   max_slowdown = "3%"'
        )
    return [_request_of(request, path, name, dict(table)) for name, table in tables.items()]


def _request_of(
    request: GateRequest, path: Path, name: str, table: dict[str, Any]
) -> tuple[GateRequest, tuple[GateRule, ...]]:
    """Take what is said of one model; names of files are meant from where the file is."""
    given = {
        key: table.pop(key) for key in ("against", "baseline", "batch", "runtime") if key in table
    }
    beside = path.parent / str(given.get("against", ""))
    if "against" in given and beside.is_file():
        given["against"] = beside
    model = path.parent / name
    rules = rules_from_table(table, where=f"{path}: {name}")
    candidate = model if model.is_file() else name
    return replace(request, candidate=candidate, **given), rules


@dataclass(frozen=True)
class _Trial:
    """Measures a candidate for its rules."""

    request: GateRequest
    rules: Sequence[GateRule]
    store: Store
    config: Config
    conduct: Conduct

    def once(self, candidate: str, against: str | None) -> Gate:
        """Measure, alone or in turn with the baseline, and judge."""
        stored = stored_run(candidate, self.store)
        if against is None:
            return _judged(stored or self._bench(candidate), self.rules, None)
        baseline = stored_run(against, self.store)
        sides = self._sides(against, baseline, candidate) if stored is None else None
        request = self.request
        if sides is not None and _same_bytes(sides) and not request.measure_same:
            return self._unmeasured(candidate, baseline)
        if sides is None:
            assert baseline is not None
            if stored is None:
                self.conduct.listen(Event(kind="note", text=APART))
            run = stored or self._bench(candidate)
            comparison = comparison_from_runs(
                baseline, run, margin=request.margin_part, accept=request.accept
            )
            compared = Compared(baseline=baseline, candidate=run, comparison=comparison)
            return _judged(run, self.rules, compared)
        compared = self._compared(sides)
        # In turn with another engine nothing is profiled: layers are timed on their own.
        profiled = self._bench(candidate, launches=1) if self._wants_layers() else None
        return _judged(compared.candidate, self.rules, compared, profiled=profiled)

    def _unmeasured(self, candidate: str, baseline: Run | None) -> Gate:
        """Let what is the same bytes pass the rules about a slowdown; the others are measured."""
        self.conduct.listen(Event(kind="note", text=SAME_BYTES))
        slowdowns = [rule for rule in self.rules if rule.relation == "slowdown"]
        others = [rule for rule in self.rules if rule.relation != "slowdown"]
        same = [GateResult(rule=rule, outcome="pass", message=SAME_BYTES) for rule in slowdowns]
        if not others:
            return Gate(
                name=Path(candidate).name, results=tuple(same), open=True, candidate=baseline
            )
        found = _judged(self._bench(candidate), others, None)
        return replace(found, results=(*same, *found.results))

    def _compared(self, sides: Sides) -> Compared:
        """Measure both sides in turn: here until rules are clear, elsewhere until a verdict is."""
        request = self.request
        if self.conduct.executor is not None:
            return play_sides(sides, store=self.store, request=request, conduct=self.conduct)
        duet = make_duet(sides, store=self.store, request=request, conduct=self.conduct)
        deadline = time.monotonic() + seconds(request.time_limit)
        _play_until_clear(duet, self.rules, request, deadline=deadline)
        return compared_from_duet(duet, request)

    def _wants_layers(self) -> bool:
        return any(rule.relation == "expect" for rule in self.rules)

    def _bench(self, candidate: str, *, launches: int | None = None) -> Run:
        """Measure a candidate alone, its layers too where rules ask for them."""
        launches = launches or self.request.launches or ALONE_LAUNCHES
        runtime = pick(self.request.runtime, -1, 2, what="-r")
        layers = self._wants_layers()
        spec = side_spec(
            self.request, candidate, runtime, self.config, launches=launches, place=(-1, 2)
        )
        spec = spec.having(profile=layers)
        conduct = replace(self.conduct, python=self._python(-1, spec.runtime))
        return run_bench(spec, store=self.store, conduct=conduct)

    def _python(self, side: int, runtime: str) -> str | None:
        given = pick(self.request.python, side, 2, what="--python")
        return given or self.config.python_for(runtime)

    def _sides(self, against: str, baseline: Run | None, candidate: str) -> Sides | None:
        """Find sides for a duet, where both can be measured; a stored file must be unchanged."""
        runtimes = [pick(self.request.runtime, side, 2, what="-r") for side in (0, 1)]
        second = duet_spec(self.request, candidate, runtimes[1], config=self.config, place=(1, 2))
        if baseline is None:
            first = duet_spec(self.request, against, runtimes[0], config=self.config, place=(0, 2))
        else:
            model = kept_model(self.store, baseline.record.spec.model)
            if model is None:
                return None
            first = baseline.record.spec.having(
                model=model, warmup=WARMUP, launches=1, lock_clocks=second.lock_clocks
            )
        pythons = (self._python(0, first.runtime), self._python(1, second.runtime))
        return Sides(baseline=first, candidate=second, pythons=pythons)


def _same_bytes(sides: Sides) -> bool:
    """Tell whether both sides are one model, run in the same way."""
    first, second = sides.both
    same_model = first.model.identity == second.model.identity
    alike = all(getattr(first, name) == getattr(second, name) for name in _WAYS)
    return same_model and alike and len({*sides.pythons}) == 1


def closed_by(results: Sequence[GateResult], *, on_unclear: str) -> tuple[str, ...]:
    """Say of every rule that closes the gate what helps."""
    told = []
    for result in results:
        if result.outcome == "pass" or (result.outcome == "unclear" and on_unclear == "pass"):
            continue
        told.append(f"{result.rule.text}: {_remedy(result)}")
    return tuple(told)


def _remedy(result: GateResult) -> str:
    needed = result.launches_needed
    if result.outcome == "unclear" and needed:
        return (
            f"unclear; --launches {needed} --time-limit 10min would tell, if nothing else changes"
        )
    if result.outcome == "unclear":
        return "unclear; --against FILE measures both in turn, --on-unclear pass lets it through"
    if result.rule.relation == "slowdown":
        return "too slow; trtbench why BASELINE CANDIDATE tells where, --max-slowdown allows more"
    return "does not hold; trtbench explain tells what the number depends on"


def _play_until_clear(
    duet: Duet, rules: Sequence[GateRule], request: TurnFields, *, deadline: float
) -> None:
    """Add launches while a rule about speed is unclear and time is left for as many again."""
    began = time.monotonic()
    duet.play(request.launches)
    slowdowns = [rule for rule in rules if rule.relation == "slowdown"]
    while slowdowns and duet.launches < request.most_launches:
        verdict = headline_verdict(duet, margin=request.margin_part)
        results = evaluate(slowdowns, verdicts={verdict.metric: verdict, "headline": verdict})
        decided = all(result.outcome != "unclear" for result in results)
        denied = verdict.interval is None and verdict.launches_needed is None
        if decided or denied:
            return
        more = min(duet.more, request.most_launches - duet.launches)
        each = (time.monotonic() - began) / duet.launches
        if time.monotonic() + more * each > deadline:
            return
        duet.play(more)


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
