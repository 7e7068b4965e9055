"""Verdicts of comparisons, several builds, gates and the demo.

For the output of ``compare``, ``gate`` and ``demo`` and for reports. ``run.extra["comparisons"]``
is a list of ``Comparison`` values with the run as candidate.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from trtbench.analysis.builds import Draw, Lottery
from trtbench.analysis.gate import gate_answer
from trtbench.analysis.stored_comparison import CERTAIN, Ladder, comparison_rows
from trtbench.analysis.verdict import in_cycles, launches_hint
from trtbench.core import units
from trtbench.core.properties import model_name, title_of_record
from trtbench.core.results import Comparison, GateResult, Verdict
from trtbench.core.run import Interval, Run, Scores, known_value, precision_of
from trtbench.layers.diff import faster_sentence
from trtbench.report import document as doc
from trtbench.report import run_facts
from trtbench.report.sections.findings import group_findings
from trtbench.report.sections.summary import finding_blocks, finding_names, statistics_blocks

if TYPE_CHECKING:
    from trtbench.analysis.builds import NetworksCompared
    from trtbench.core.results import Compared, Failed, Gate
    from trtbench.core.spec import RunSpec

ORDER = 5

TONES: dict[str, doc.Tone] = {"faster": "good", "slower": "bad", "same": "plain"}
"""Tones of verdicts; the others are unclear."""
UNDECIDED = ("unclear", "incomparable")
DESIGNS = {
    "duet": "interleaved",
    "bursts": "bursts and series interleaved",
    "launches": "launches interleaved",
    "apart": "separately",
    "builds": "builds",
}
MODES = {
    "one-process": "interleaved within one process",
    "lock-step": "interleaved, two processes in lock-step",
    "bursts": "bursts and series interleaved, two processes at once",
    "launches": "fresh launches, interleaved (ABBA)",
    "stored runs": "as they were stored",
}


def make(runs: Sequence[Run]) -> doc.Section | None:
    """Return a sentence on each comparison, and a table of all verdicts."""
    labels = {run.id: label for label, run in run_facts.labelled(runs)}
    found = []
    for run in runs:
        carried = run.extra.get("comparisons")
        for each in carried if isinstance(carried, list) else ():
            found.append((labels[run.id], labels.get(each.baseline, each.baseline), each))
    if not found:
        return None
    rows = [
        (candidate, baseline, comparison, verdict)
        for candidate, baseline, comparison in found
        for verdict in with_cycle_verdicts(comparison.verdicts)
    ]
    columns = (
        doc.column("candidate", "Candidate", 0),
        doc.column("baseline", "Baseline", 1),
        doc.column("metric", get=lambda row: row[3].metric),
        *_verdict_columns(lambda row: row[3]),
        doc.column("launches", "Launches", lambda row: row[3].launches, "right"),
        doc.column("measured", "Measured", lambda row: DESIGNS[row[2].design]),
    )
    by_id = {run.id: run for run in runs}
    findings = group_findings((name, each) for name, _, own in found for each in own.findings)
    blocks: list[doc.Block] = [_headline(*each, by_id) for each in found[:8]]
    blocks += [doc.table("verdicts", rows, columns), *([findings] if findings else [])]
    return doc.optional_section("verdicts", "Verdicts", blocks)


def _headline(
    candidate: str, baseline: str, comparison: Comparison, by_id: Mapping[str, Run]
) -> doc.Text:
    """Return a sentence with the verdict, its interval, and the change in accuracy."""
    verdict = comparison.verdicts[0]
    sides = {side: by_id.get(getattr(comparison, side)) for side in ("candidate", "baseline")}
    after, before = (run_facts.scores_of(run) if run else {} for run in sides.values())
    shared = next((metric for metric in after if metric in before), None)
    accuracy = ["accuracy not compared"]
    if shared is not None:
        scores = (after[shared], before[shared])
        new, old = (run_facts.score_text(each, each.value) for each in scores)
        accuracy = [f"{doc.score_title(shared)} {new} against {old}"]
    for side, run in sides.items():  # the speed of a wrong result is meaningless
        codes = {each.code for each in run.findings if each.severity == "error"} if run else ()
        if codes:
            accuracy.append(f"{' and '.join(sorted(codes))} found in the {side}: see findings")
    how = f"measured {DESIGNS[comparison.design]}, {verdict.launches} launches"
    words = "; ".join((speed_sentence(verdict, candidate, baseline), how, *accuracy))
    return doc.Text(words, TONES.get(verdict.kind, "unclear"))


def document_from_comparisons(
    found: Sequence[Compared], *, verbose: bool = False, explain: bool = False
) -> doc.Document:
    """Say which side is faster, then give all verdicts; several candidates are ranked first.

    ``verbose`` adds how the sides were measured, ``explain`` what findings mean.
    """

    ranked = sorted(found, key=lambda each: -_speed(each.comparison.verdicts[0]))
    blocks: list[doc.Block] = []
    for place, each in enumerate(ranked, start=1):
        head, names = each.comparison.verdicts[0], _side_names(each)
        command = _turns_command(each) if head.kind == "unclear" else ""
        words = f"{f'{place}. ' if len(found) > 1 else ''}{speed_sentence(head, *names)}{command}"
        blocks.append(doc.Text(words, TONES.get(head.kind, "unclear")))
    if len(found) > 1:
        columns = (
            doc.column("candidate", "Candidate", lambda x: _side_names(x)[0], fit="shorten"),
            doc.column("baseline", "Baseline", lambda x: _side_names(x)[1], fit="shorten", rank=2),
            doc.column(
                "median_s", get=lambda each: run_facts.headline(run_facts.typical)(each.candidate)
            ),
            *_verdict_columns(lambda each: each.comparison.verdicts[0]),
        )
        blocks.append(doc.table("ranking", ranked, columns))
    sections = [doc.Section("answer", "", tuple(blocks))]
    for number, each in enumerate(found):
        title = " against ".join(_side_names(each)) if len(found) > 1 else ""
        details = tuple(_comparison(each, number, verbose=verbose, explain=explain))
        sections.append(doc.Section(f"comparison-{number}", title, details))
    created = max(each.candidate.record.created for each in found)
    return doc.Document(created=created, sections=tuple(sections))


def _speed(verdict: Verdict) -> float:
    """Return how many times as fast as the baseline the candidate is; 0 if it is unknown."""
    if verdict.ratio is None:
        return 0.0
    return verdict.ratio if verdict.metric == "throughput" else 1 / verdict.ratio


def speed_sentence(verdict: Verdict, candidate: str, baseline: str) -> str:
    """Return the answer in one sentence: ``b is 1.52x as fast as a (1.49x to 1.55x, 99 %)``."""
    if verdict.kind == "incomparable":
        return f"{candidate} and {baseline} cannot be compared: {verdict.reason}"
    if verdict.kind == "unclear" or verdict.ratio is None:
        hint = launches_hint(verdict.launches_needed)
        return f"{candidate} and {baseline} cannot be told apart yet: {verdict.reason}{hint}"
    speed, interval = _speed(verdict), verdict.interval
    digits = 3 if abs(speed - 1) < 0.1 or speed < 0.1 else 2
    what = f" in {verdict.metric.upper()} time" if verdict.metric == "gpu" else ""
    span, words = "", f"{speed:.{digits}f}x as fast as {baseline}{what}"
    if interval is not None:
        rate = verdict.metric == "throughput"
        ends = (interval.low, interval.high) if rate else (1 / interval.high, 1 / interval.low)
        span = " to ".join(f"{end:.{digits}f}x" for end in ends)
    if verdict.kind == "same":
        span = run_facts.interval_text(verdict, digits=1)
        words = f"as fast as {baseline}{what}, {verdict.reason}"
    slower = "slower: " if verdict.kind == "slower" else ""
    return f"{candidate} is {slower}{words}{f' ({span}, {interval.words})' if interval else ''}"


def _turns_command(compared: Compared) -> str:
    """Return the command that measures both sides of stored runs in turn; empty if they were."""
    specs = [run.record.spec for run in (compared.baseline, compared.candidate)]
    paths = [spec.model.path for spec in specs]
    apart = compared.comparison.design == "apart"
    if not apart or not all(Path(path).exists() for path in paths):
        return ""
    one, other = map(_settings, specs)
    runtimes = [word for spec in specs for word in ("-r", spec.runtime)]
    words = paths + (runtimes if specs[0].runtime != specs[1].runtime else [])
    return f"; measure both in turn: trtbench compare {shlex.join(words + one)}" * (one == other)


def _settings(spec: RunSpec) -> list[str]:
    """Return the flags that a run was asked with, which both sides of a comparison share."""
    given: list[tuple[str, object]] = [
        ("--shape", f"{name}:{units.text_from_shape(s)}") for name, s in spec.shapes.items()
    ]
    given += [("--batch", spec.batch), ("--threads", spec.threads), ("--precision", spec.precision)]
    given += [("--protocol", spec.protocol)] if spec.protocol != "serve" else []
    given += [("--rate", f"{spec.rate_hz:.15g}/s")] if spec.rate_hz else []
    given += [("--streams", spec.streams)] if spec.streams > 1 else []
    given += [("--cuda-graph", spec.cuda_graph)] if spec.cuda_graph != "off" else []
    return [str(word) for flag, value in given if value is not None for word in (flag, value)]


def verdict_table(verdicts: Sequence[Verdict], *, id: str = "verdicts") -> doc.Table:
    return doc.table(id, with_cycle_verdicts(verdicts), (doc.column("metric"), *_verdict_columns()))


def _verdict_columns(of: Callable[[Any], Verdict] = lambda row: row) -> Iterator[doc.Column]:
    """Yield columns for verdict, change and interval; ``of`` gets the verdict of a row."""

    def kind(row: Any) -> doc.Cell:
        verdict = of(row)
        words = f"{verdict.kind}, across devices" if verdict.across_devices else verdict.kind
        return doc.Cell(verdict.kind, words, TONES.get(verdict.kind, "unclear"))

    def change(row: Any) -> float | None:
        ratio = of(row).ratio
        return None if ratio is None else ratio - 1

    def interval(row: Any) -> doc.Cell:
        verdict = of(row)
        level = f"{verdict.interval.words}: " if verdict.interval else ""
        return doc.Cell(None, level + run_facts.interval_text(verdict))

    yield doc.column("verdict", "Verdict", kind)
    yield doc.column("change", get=change)
    yield doc.column("interval", "Interval", interval, rank=1)


def with_cycle_verdicts(verdicts: Sequence[Verdict]) -> Iterator[Verdict]:
    """Yield each verdict, followed by its verdict in clock cycles if clocks are known."""
    for verdict in verdicts:
        yield verdict
        if (cycles := in_cycles(verdict)) is not None:
            yield cycles


def undecided_reasons(verdicts: Sequence[Verdict], *, what: str = "launches") -> Iterator[doc.Text]:
    """Yield the reasons of undecided verdicts, and what would decide them."""
    metrics: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.kind in UNDECIDED:
            hint = launches_hint(verdict.launches_needed).replace("launches", what)
            metrics.setdefault(verdict.reason + hint, []).append(verdict.metric)
    for words, names in metrics.items():
        yield doc.Text(f"{', '.join(names)}: {words}", "unclear")


def _comparison(
    compared: Compared, number: int, *, verbose: bool, explain: bool
) -> Iterator[doc.Block]:
    sides = {"baseline": compared.baseline, "candidate": compared.candidate}
    verdicts = compared.comparison.verdicts
    titles = ((side, title_of_record(run.record)) for side, run in sides.items())
    errors = (
        finding.having(concerns=side)  # the speed of a wrong result is meaningless
        for side, run in sides.items()
        for finding in run.findings
        if finding.severity == "error"
    )
    facts = []
    times = [run.times.host for run in sides.values()]
    rates = {verdict.kind for verdict in verdicts if verdict.metric == "throughput"}
    if times[0] is not None and times[1] is not None and rates & {"faster", "slower"}:
        speedup = float(times[0].mean() / times[1].mean())
        gained = units.text_from_change(speedup - 1, digits=1)  # in FPS, as in the guide of ST-GCN
        facts.append(("of means", f"{speedup:.3f}x, FPS {gained}"))
    if compared.comparison.detectable is not None:
        size = units.text_from_fraction(compared.comparison.detectable)
        facts.append(("detectable", f"smallest detectable difference {size} (80 % power)"))
    yield verdict_table(verdicts, id=f"verdicts_{number}")
    yield from undecided_reasons(verdicts[1:])  # the first is in the answer
    if verdicts[0].kind == "incomparable":
        yield from _plain_values(compared, number)
    yield from statistics_blocks(sides, id=f"statistics_{number}")
    if compared.mode in ("bursts", "lock-step"):
        graph = known_value(compared.baseline.record.conditions.get("cuda_graph"))
        more = ", and has no CUDA graph without --cuda-graph on" if graph is True else ""
        yield doc.Text(f"two processes share the device: bench is alone{more}, and may differ")
    yield from finding_blocks((*errors, *compared.comparison.findings), explain=explain)
    if verbose:
        yield doc.key_values(f"sides_{number}", [*titles, *_design_facts(compared), *facts])


def _plain_values(compared: Compared, number: int) -> Iterator[doc.Block]:
    """Yield values, differences and ratios of what both sides have, without a verdict."""
    titles, rows = ("Metric", "Baseline", "Candidate", "Difference", "Ratio"), []
    for row in comparison_rows(compared.baseline, compared.candidate):
        if row.engine_over_pt_ratio and row.metric.endswith(("qps", "mean", "median", "p99")):
            values: list[Any] = [row.pt, row.engine, row.engine_minus_pt]
            texts = [units.text_from_rate(each) for each in values]
            if not row.metric.endswith("qps"):
                texts = [units.text_from_seconds(each / 1e3) for each in values]
            rows.append((row.metric, *texts, f"{row.engine_over_pt_ratio:.3g}x"))
    if rows:
        columns = [doc.column(each.lower(), each, n, "right") for n, each in enumerate(titles)]
        caption = "Values only, no verdict; a side without host time has its latency as host."
        yield doc.table(f"values_{number}", rows, columns, caption=caption)


def _side_names(compared: Compared) -> list[str]:
    """Return names of candidate and baseline: models, and devices if they differ."""
    sides = (compared.candidate, compared.baseline)
    devices = run_facts.device_names(sides)
    differ = len(set(devices.values())) > 1
    names = [model_name(run.record) + (f" on {devices[run.id]}" if differ else "") for run in sides]
    if len({*names}) == 1:  # one model, run in two ways
        found = [name for name, _ in run_facts.labelled(sides)]
        alike = found[0].endswith(" (1)")
        names = [n if alike or n in f else f"{n} ({f})" for n, f in zip(names, found, strict=True)]
    return names


def _design_facts(compared: Compared) -> Iterator[tuple[str, str]]:
    sides = (compared.baseline, compared.candidate)
    # Without a ratio, the smaller number of launches of the two sides.
    fewest = min(len(run.record.launches) for run in sides)
    count = compared.comparison.verdicts[0].launches or fewest
    launches = units.counted(count, "launch", "launches")
    yield "measured", f"{MODES.get(compared.mode, compared.mode)}, {launches} a side"
    bursts = [[each for each in run.record.launches if each.burst_s] for run in sides]
    if all(bursts):
        times = []
        for side in bursts:  # digits that differ between launches are not shown
            seconds = [median(each.burst_s) for each in side]
            ends = Interval(low=min(seconds), high=max(seconds), level=1.0, meaning="range")
            times.append(units.text_from_duration(median(seconds), bounds=ends))
        graph = known_value(compared.baseline.record.conditions.get("cuda_graph"))
        what = "graph launches" if graph is True else "plain enqueues (no CUDA graph)"
        first = bursts[0][0]
        how = f"{len(first.burst_s)} bursts of {first.burst_size} {what}, {len(bursts[0])} launches"
        yield "GPU time", f"{' against '.join(times)}: {how}"
    if compared.interference:
        moved = " and ".join(units.text_from_change(part) for part in compared.interference)
        yield "interleaving", f"changes times by {moved} (baseline and candidate)"
    alone = compared.comparison.alone
    if alone is not None and alone.ratio is not None and alone.interval is not None:
        change = units.text_from_change(alone.ratio - 1)
        yield "alone", f"{change}, {run_facts.interval_text(alone, digits=1)}"


# ---- several builds


def document_from_lottery(found: Lottery) -> doc.Document:
    """Describe several builds of a network: differences, and how many builds claims need."""
    answers: dict[bool | None, tuple[str, doc.Tone]] = {
        True: ("same", "good"), False: ("different", "bad"), None: ("unknown", "unclear"),
    }  # fmt: skip
    aspects = []
    for each in found.aspects:
        word, tone = answers[each.same]
        aspects.append((each.name, doc.Cell(each.same, f"{word}: {each.text}", tone)))
    blocks: list[doc.Block] = [
        _builds_table(found),
        *doc.note_lines(found.notes, tone="unclear"),
        doc.key_values("aspects", aspects),
    ]
    if (spread := found.spread) is not None:
        needed = ", ".join(f"{claim}: {count}" for claim, count in spread.needed.items())
        within = f"± {_percent(spread.within)} from launch to launch"
        pairs = (
            ("between builds", doc.Cell(spread.between, f"± {_percent(spread.between)}")),
            ("within one", doc.Cell(spread.within, within)),
            ("claims need", f"{needed} builds a side (99 % confidence, 80 % power)"),
        )
        blocks.append(doc.key_values("spread", pairs))
        if spread.between >= 0.01:
            words = (
                f"Comparing one build of each cannot show differences below about "
                f"{_percent(spread.range)}: use trtbench compare A.onnx B.onnx --builds 3, or one "
                "timing cache for both."
            )
            blocks.append(doc.Text(words, "unclear"))
    title = f"{len(found.draws)} builds of {_file_name(found.model)} by {found.builder}"
    return doc.document_from_blocks("lottery", blocks, title=title)


def document_from_networks(found: Sequence[NetworksCompared]) -> doc.Document:
    """Describe comparisons of networks by several builds of each."""
    sections = []
    for number, each in enumerate(found):
        names = [_file_name(side.model) for side in (each.candidate, each.baseline)]
        verdicts = each.comparison.verdicts
        blocks: list[doc.Block] = [
            doc.Text(speed_sentence(verdicts[0], *names)),
            verdict_table(verdicts, id=f"verdict_{number}"),
            *undecided_reasons(verdicts, what="builds"),
            doc.Text(f"based on {each.mode}, {len(each.baseline.draws)} of each side"),
        ]
        for name, side in (("baseline", each.baseline), ("candidate", each.candidate)):
            built = f"{name}: {_file_name(side.model)}, built by {side.builder}"
            blocks += [doc.Text(built), _builds_table(side, id=f"{name}_{number}")]
            if side.spread is not None:
                between, within = map(_percent, (side.spread.between, side.spread.within))
                blocks.append(doc.Text(f"± {between} between builds, ± {within} within one"))
        title = " against ".join(names) if len(found) > 1 else ""
        sections.append(doc.Section(f"networks_{number}", title, tuple(blocks)))
    return doc.Document(sections=tuple(sections))


def _builds_table(found: Lottery, *, id: str = "builds") -> doc.Table:
    first = found.draws[0].typical_s

    def change(draw: Draw) -> float | None:
        return draw.typical_s / first - 1 if draw.typical_s and first else None

    columns = (
        doc.column("build", "Build", "label"),
        doc.column("median_s", get="typical_s"),
        doc.column("change", "Against 1st", change, "change", rank=1),
        doc.column("build_s", "Built in", kind="time", rank=2),
        doc.column("size_bytes", "Size", kind="bytes", rank=3),
        doc.column("layers", "Layers", kind="right", rank=5),
        doc.column("sha256", "SHA-256", lambda x: doc.Cell(x.sha256, x.sha256[:12]), rank=4),
        doc.column("run", "Run", rank=6),
    )
    count = found.spread.launches if found.spread else 1
    launches = "1 launch" if count == 1 else f"{count} launches in rounds"
    caption = f"median {found.metric} time of {launches}" if found.metric else None
    return doc.table(id, found.draws, columns, caption=caption)


def _percent(part: float) -> str:
    return f"{100 * part:.2g} %"


def _file_name(model: str) -> str:
    return model.replace("\\", "/").rsplit("/", 1)[-1]


def rule_table(results: Sequence[GateResult]) -> doc.Table:
    tones: dict[str, doc.Tone] = {"pass": "good", "fail": "bad", "unclear": "unclear"}

    def outcome(each: GateResult) -> doc.Cell:
        text = "FAIL" if each.outcome == "fail" else each.outcome
        return doc.Cell(each.outcome, text, tones[each.outcome])

    def measured(each: GateResult) -> str:
        return f"{each.message}{launches_hint(each.launches_needed)}"

    columns = (
        doc.column("outcome", "Outcome", outcome),
        doc.column("rule", "Rule", "rule.text"),
        doc.column("measured", "Measured", measured, fit="wrap"),
    )
    return doc.table("gate", results, columns)


def document_from_gates(found: Sequence[Gate], failed: Sequence[Failed] = ()) -> doc.Document:
    """Describe the outcomes of gates, and the errors of runs that failed."""
    alone = len(found) + len(failed) == 1
    sections = []
    for each in found:
        blocks: list[doc.Block] = [rule_table(each.results)]
        told = tuple(result.message for result in each.results)
        blocks += [doc.Text(why, "bad") for why in each.closed_by if not why.endswith(told)]
        if each.candidate is not None:
            sides = {"candidate": each.candidate}
            if each.compared is not None:
                sides = {"baseline": each.compared.baseline, **sides}
            titles = ((side, title_of_record(run.record), run.id) for side, run in sides.items())
            facts = [(side, f"{title}, run {id}") for side, title, id in titles]
            where = each.candidate.record.environment
            names = (where.label, *(gpu.name for gpu in where.gpus), where.cpu)
            facts.append(("machine", ", ".join(filter(None, names))))
            if named := finding_names(each.candidate.findings, beside=None):
                facts.append(("findings", f"{named} (trtbench runs show)"))
            blocks += [doc.key_values("facts", facts), *statistics_blocks(sides)]
            blocks += finding_blocks(e for e in each.candidate.findings if e.severity == "error")
        answer = gate_answer(each.results, passed=each.open)
        id, title = ("gate", "") if alone else (f"gate_{each.name}", f"{each.name}: {answer}")
        sections.append(doc.Section(id, title, tuple(blocks)))
    for broken in failed:
        reason = broken.facts.get("reason")
        block = doc.Text(f"not measured: {broken.reason}{f': {reason}' if reason else ''}", "bad")
        sections.append(doc.Section(f"gate_{broken.model}", f"{broken.model}: FAIL", (block,)))
    closed = [each.name for each in found if not each.open] + [each.model for each in failed]
    count = len(found) + len(failed)
    title = f"PASS ({count} of {count} models)"
    if closed:
        title = f"FAIL: {len(closed)} of {count} models: {', '.join(closed)}"
    if alone and found:
        title = gate_answer(found[0].results, passed=found[0].open)
    return doc.Document(title=title, sections=tuple(sections))


# ---- the difference of two runs, step by step


def document_from_ladder(ladder: Ladder, labels: Sequence[str]) -> doc.Document:
    """Describe the steps that explain the difference between two runs."""
    at = ladder.a_s
    rows: list[tuple[str, str, str, float | None, float | None, str, str]] = [
        (labels[0], "", "", None, at, "", f"median {ladder.metric_a}")
    ]
    for rung in ladder.rungs:
        counts = rung.evidence in CERTAIN and rung.seconds is not None
        at = at + (rung.seconds or 0.0) if at is not None and counts else at
        reached = at if counts else None
        words = (rung.evidence, rung.because)
        rows.append((rung.title, rung.a, rung.b, rung.seconds, reached, *words))
    rows.append(("unexplained", "", "", ladder.unexplained_s, None, "", ""))
    rows.append((labels[1], "", "", None, ladder.b_s, "", f"median {ladder.metric_b}"))

    unit = units.common_unit(abs(row[3] or 0.0) for row in rows)

    def difference_cell(row: Sequence[Any]) -> doc.Cell:
        shown = row[1] or row[3] is not None
        return doc.Cell(row[3], units.text_from_difference(row[3], unit=unit) if shown else "")

    def reached_cell(row: Sequence[Any]) -> doc.Cell | doc.Time:
        return doc.Cell(None, "") if row[4] is None else doc.Time(row[4])

    columns = (
        doc.column("rung", "", 0, fit="shorten"),
        doc.column("a", "From", 1, fit="shorten", rank=2),
        doc.column("b", "To", 2, fit="shorten", rank=2),
        doc.column("seconds_s", "Adds", difference_cell, "right"),
        doc.column("reached_s", "Reached", reached_cell, "right", rank=1),
        doc.column("evidence", "Known", 5, rank=3),
        doc.column("because", "Because", 6, fit="wrap"),
    )
    title, metric = f"From {labels[0]} to {labels[1]}", ladder.metric_a
    if metric == ladder.metric_b and ladder.a_s and ladder.b_s:
        title = faster_sentence(labels[0], labels[1], f"median {metric}", ladder.a_s, ladder.b_s)
    return doc.Document(
        title=title,
        sections=(doc.Section("ladder", "", (doc.table("ladder", rows, columns),)),),
        data={
            "run": labels[0],
            "against": labels[1],
            "metric": [ladder.metric_a, ladder.metric_b],
            "from_s": ladder.a_s,
            "to_s": ladder.b_s,
            "rungs": list(ladder.rungs),
            "unexplained_s": ladder.unexplained_s,
        },
    )


def document_from_demo(
    runs: Sequence[Run], scores: Mapping[str, Scores], compared: Mapping[int, Compared]
) -> doc.Document:
    """Describe the results of the demo by precision and batch size."""

    def rate(run: Run) -> doc.Cell:
        value = run_facts.summary_of(run).items_per_s
        return doc.Cell(value, units.text_from_rate(value, what="items"))

    def top1(run: Run) -> float:
        return scores[precision_of(run.record) or ""].scores[0].value

    heads = [run_facts.summary_of(run).head for run in runs]
    unit = units.common_unit(head.typical for head in heads if head)
    columns = (
        doc.column("model", get=lambda run: model_name(run.record)),
        doc.column("precision", get=lambda run: precision_of(run.record)),
        doc.column("batch", get="record.spec.batch"),
        doc.column("median_s", get=run_facts.headline(run_facts.typical)),
        doc.column("p99_s", get=run_facts.p99),
        doc.column("items_per_s", "Throughput", rate, "right", rank=2),
        doc.column("top1", doc.score_title("top1"), top1, "percent", rank=1),
        doc.column("size_bytes", get="record.spec.model.size_bytes"),
    )
    sections = [doc.Section("runs", "", (doc.table("demo", runs, columns, unit=unit),))]
    for batch, each in compared.items():
        verdicts = each.comparison.verdicts[:2]
        listed = verdict_table(verdicts, id=f"verdicts_{batch}")
        blocks: tuple[doc.Block, ...] = (listed, *undecided_reasons(verdicts))
        sections.append(doc.Section(f"batch-{batch}", f"INT8 against FP32, batch {batch}", blocks))
    return doc.Document(created=max(run.record.created for run in runs), sections=tuple(sections))
