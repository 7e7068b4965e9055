"""What pages say of runs: names, summaries, scores, memory and machine.

Everything is computed once for each run. ``run.extra["scores"]`` maps a metric to a number, or to a
mapping (or value) with ``value`` and optionally ``low``, ``high`` (or an ``interval`` with both)
and ``count``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from trtbench.analysis.memory import CUDA, MemoryUse, memory_from_facts
from trtbench.analysis.summary import (
    ColumnSummary,
    Quantile,
    Summary,
    reported_s,
    summary_from_run,
)
from trtbench.core.metrics import metric
from trtbench.core.properties import (
    PROPERTIES,
    Property,
    model_name,
    network_name,
    options_of,
    protocol_of,
    series_key,
    streams_of,
)
from trtbench.core.results import Verdict
from trtbench.core.run import (
    Environment,
    Interval,
    Run,
    RunRecord,
    Scalar,
    Score,
    gpu_of,
    precision_of,
)
from trtbench.core.samples import Column
from trtbench.core.spec import Length
from trtbench.core.units import (
    MISSING,
    UnitScale,
    counted,
    text_from_bytes,
    text_from_change,
    text_from_count,
    text_from_fraction,
    text_from_number,
    text_from_seconds,
)
from trtbench.report.document import Cell, Time, duration_cell

PHASES = {
    "host": "Host",
    "latency": "Latency",
    "enqueue": "Enqueue",
    "h2d": "H2D",
    "gpu": "GPU",
    "d2h": "D2H",
    "end_to_end": "End to end",
}
"""Titles of columns of times."""
REPORTED = "Reported: as another tool printed it; there are no samples to judge it by."
THREADS = 4

_SUMMARIES: WeakKeyDictionary[Run, Summary] = WeakKeyDictionary()


def named(runs: Sequence[Run]) -> list[tuple[str, Run]]:
    """Pair every run with its label among these runs."""
    return list(zip(labels_from_runs(runs), runs, strict=True))


def summary_of(run: Run) -> Summary:
    """Give a run's summary; ten sections ask for it and it is computed once."""
    if run not in _SUMMARIES:
        _SUMMARIES[run] = summary_from_run(run)
    return _SUMMARIES[run]


def remember_summary(run: Run, summary: Summary) -> None:
    """Take a summary that was computed already, of this run or of its like with other findings."""
    _SUMMARIES[run] = summary


def summarize_all(runs: Sequence[Run]) -> None:
    """Compute the summaries of many runs in threads; numpy leaves the interpreter meanwhile."""
    waiting = [run for run in runs if run not in _SUMMARIES]
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        _SUMMARIES.update(zip(waiting, pool.map(summary_from_run, waiting), strict=True))


def headline_summary(run: Run) -> ColumnSummary | None:
    """Give the statistics of the column that stands for the run, of samples or as printed."""
    return summary_of(run).head


def of_head(
    get: Callable[[ColumnSummary], Cell | Scalar | Time],
) -> Callable[[Run], Cell | Scalar | Time]:
    """Read a run's headline statistics into a column; empty where there are none."""

    def cell(run: Run) -> Cell | Scalar | Time:
        head = headline_summary(run)
        return Cell() if head is None else get(head)

    return cell


def headline_column(run: Run) -> Column:
    """Give the finite samples of the column that stands for the run, in order of time."""
    column = run.times.durations().get(run.times.headline)
    return np.empty(0) if column is None else np.asarray(column[np.isfinite(column)])


def column_title(column: ColumnSummary) -> str:
    """Name a column, and mark numbers that another tool printed."""
    name = PHASES.get(column.column, column.column)
    if not column.reported:
        return name
    return f"{name} (reported)" if column.typical_of == "median" else f"{name} mean (reported)"


def headline_title(runs: Sequence[Run]) -> str:
    """Name what the headline columns measure: host time, latency on the device, or both."""
    kinds = {summary_of(run).headline for run in runs}
    if len(kinds) > 1:
        return "Latency, host or device"
    (kind,) = kinds
    titles = {"host": "Latency, host", "latency": "Latency, H2D + GPU + D2H"}
    return titles.get(kind) or f"{PHASES[kind]} time"


def typical_time(head: ColumnSummary) -> Time:
    """The median, or the mean where another tool printed no median."""
    return Time(head.typical, head.median_interval)


def quantile(found: Quantile) -> Cell | Time:
    """A quantile with the digits it deserves, or how many samples it needs."""
    if found.value is not None:
        return Time(found.value, found.interval)
    needed = f"needs {text_from_count(found.needed)} samples" if found.needed else MISSING
    return Cell(None, needed)


def quantile_cell(found: Quantile, unit: UnitScale) -> Cell:
    """Write a quantile in a unit of its own."""
    cell = quantile(found)
    return cell if isinstance(cell, Cell) else duration_cell(cell[0], bounds=cell[1], unit=unit)


def words_on_protocols(runs: Sequence[Run]) -> str | None:
    """Warn where times of different protocols are shown together: they mean different things."""
    names = list(dict.fromkeys(protocol_of(run.record) for run in runs))
    if len(names) < 2:
        return None
    return (
        f"Measured by different protocols ({', '.join(names)}): "
        "times of one protocol do not compare with those of another."
    )


def overlapping(run: Run) -> bool:
    """Whether several queries were in flight at once, so that one over latency is no rate."""
    return streams_of(run.record) > 1 or protocol_of(run.record) == "pipeline"


def joules_per_item(run: Run) -> float | None:
    """Divide the energy of the pass that sampled it by its items; ``None`` if unknown."""
    record = run.record
    in_query = record.known_items
    if not in_query:
        return None
    per_query = record.facts.get("energy_per_query_j")
    if isinstance(per_query, (int, float)):
        return per_query / in_query
    spent = [each.energy_j for each in record.launches if each.energy_j is not None]
    items = len(run.times) * in_query
    return sum(spent) / items if items and len(spent) == len(record.launches) > 0 else None


# ---- memory

SHORT = {CUDA: "CUDA", "inputs, outputs": "I/O"}
"""For a line of a terminal."""
MANY = 10_000
"""Contexts that something else than memory limits."""


def memory_of(run: Run) -> MemoryUse | None:
    """Collect what is known of a run's GPU memory; an engine's file stands for its weights."""
    record = run.record
    size = record.spec.model.size_bytes if record.spec.model.format == "engine" else None
    return memory_from_facts(record.facts, contexts=streams_of(record), weight_bytes=size)


def words_from_memory(use: MemoryUse | None) -> tuple[tuple[str, str], ...]:
    """Say in a few lines what a process takes, what each further context takes, how many fit."""
    known = [part for part in use.parts if part.bytes] if use is not None else []
    if use is None or not known:
        return ()
    unknown = [SHORT.get(name, name) for name in use.unknown]
    rest = f"; {', '.join(unknown)} unknown" if unknown else ""
    whole = f"{'at least ' if unknown else ''}{text_from_bytes(use.process_bytes)}"
    parts = ", ".join(
        f"{SHORT.get(part.name, part.name)} {text_from_bytes(part.bytes)}" for part in known
    )
    lines = [("memory", f"{whole}: {parts}{rest}")]
    if use.context_bytes:
        least = any(part.per_context and part.bytes is None for part in use.parts)
        size = f"{'at least ' if least else ''}{text_from_bytes(use.context_bytes)}"
        words = f"{size} more for each further context"
        if use.contexts > 1 and use.peak_bytes is not None:
            words += f"; {text_from_bytes(use.peak_bytes)} with the {use.contexts} of this run"
        lines.append(("context", words))
    fits = _how_many(use, use.total_bytes or 0)
    if use.total_bytes is not None and fits:
        most = "at most " if use.unknown or use.of_host else ""
        device = text_from_bytes(use.total_bytes) + (" shared with the host" if use.of_host else "")
        free = min(use.free_bytes or use.total_bytes, use.total_bytes)
        now = _how_many(use, free)
        more = "" if now == fits else f"; {now} in the {text_from_bytes(free)} free"
        lines.append(("fit", f"{most}{fits} in {device}{more}"))
    if use.disturbed:
        words = "other processes allocated or freed memory meanwhile"
        if use.counted_bytes is not None:
            words += f"; the driver counts {text_from_bytes(use.counted_bytes)} for this process"
        lines.append(("unsure", words))
    return tuple(lines)


def _how_many(use: MemoryUse, room_bytes: int) -> str:
    """Count processes, where their largest part is known, and contexts in one process."""
    processes, contexts = use.fit(room_bytes)
    most = min(contexts or 0, MANY)
    count = f"{'over ' if (contexts or 0) > MANY else ''}{counted(most, 'context')}"
    if CUDA in use.unknown:
        return f"one process with {count}" if contexts else ""
    more = f" or one with {count}" if contexts else ""
    return f"{counted(processes, 'process', 'processes')}{more}"


# ---- scores

SAME = {"top-1": "top1", "prec@1": "top1", "top-5": "top5", "prec@5": "top5"}
"""Other names of the two accuracies of classifiers."""


def scores_of(run: Run) -> dict[str, Score]:
    """Read a run's scores; what is not a number is passed over."""

    def number(value: object) -> float | None:
        known = isinstance(value, (int, float)) and math.isfinite(value)
        return float(value) if known else None  # type: ignore[arg-type]

    scores = run.extra.get("scores")
    found = {}
    for key, given in scores.items() if isinstance(scores, Mapping) else ():
        name = str(key)
        plain = msgspec.to_builtins(given)
        facts = plain if isinstance(plain, dict) else {"value": plain}
        ends = facts.get("interval") or facts
        value, count = number(facts.get("value")), number(facts.get("count"))
        low, high = number(ends.get("low")), number(ends.get("high"))
        interval = None
        if low is not None and high is not None:
            interval = Interval(low=low, high=high, level=0.95, meaning="")
        if value is not None:
            declared = metric(SAME.get(name.lower(), name))
            found[name] = Score(
                metric=name,
                value=value,
                interval=interval,
                count=None if count is None else int(count),
                better=facts.get("better") or declared.better,
                kind=facts.get("kind") or declared.kind,
            )
    return found


def score_text(score: Score, value: float | None) -> str:
    """Write a score or an end of its interval alone; shares are written in per cent."""
    if value is None:
        return MISSING
    if not score.declared.is_share:
        return text_from_number(value, bounds=score.interval)
    return f"{value if abs(score.value) > 1 else 100 * value:.2f} %"


def text_from_score(score: Score) -> str:
    """Write a score with its interval, shares in per cent."""
    scale, unit = (100.0, " %") if score.declared.is_share else (1.0, "")
    if score.interval is None:
        return text_from_number(scale * score.value) + unit
    low, high = scale * score.interval.low, scale * score.interval.high
    return f"{scale * score.value:.4g}{unit} ({low:.4g} to {high:.4g}{unit})"


def interval_text(verdict: Verdict, *, digits: int = 2) -> str:
    """Write both ends of a change's interval."""
    if verdict.interval is None:
        return "–"
    ends = (verdict.interval.low - 1, verdict.interval.high - 1)
    return " to ".join(text_from_change(end, digits=digits) for end in ends)


# ---- the machine


def facts_from_environment(environment: Environment) -> dict[str, str]:
    """Name what is known about a machine, in the order people ask; unknown facts are left out."""
    e = environment
    known: dict[str, object] = {
        "Host": e.host,
        "Operating system": e.os,
        "CPU": e.cpu,
        "Cores": e.cpu_cores,
        "Physical cores": e.cpu_physical_cores,
        "CPU governor": e.cpu_governor,
        "Virtual machine": e.virtual_machine,
        "Memory": e.memory_bytes and text_from_bytes(e.memory_bytes),
        "Load before (1, 5, 15 min)": e.load_before
        and " ".join(f"{each:.2f}" for each in e.load_before),
    }
    for index, gpu in enumerate(e.gpus):
        name = f"GPU {index}" if len(e.gpus) > 1 else "GPU"
        clock, limit = gpu.sm_clock_max_hz, gpu.power_limit_w
        known |= {
            name: gpu.name,
            f"{name} memory": gpu.memory_bytes and text_from_bytes(gpu.memory_bytes),
            f"{name} driver": gpu.driver,
            f"{name} CUDA": gpu.cuda,
            f"{name} compute capability": gpu.compute_capability,
            f"{name} highest SM clock": clock and f"{clock / 1e6:.0f} MHz",
            f"{name} power limit": limit and f"{limit:g} W",
        }
    known |= {"Python": e.python, **dict(sorted(e.versions.items())), "Git commit": e.git_commit}
    for key, value in e.extra.items():
        title = re.sub(r"\b(cpu|gpu|mig|mps|smt)", lambda m: m[0].upper(), title_of_key(key))
        known[title[:1].upper() + title[1:]] = None if value is None else value_text(key, value)
    return {name: str(value) for name, value in known.items() if value is not None}


def length_in_words(length: Length) -> str:
    """Write how long something lasts at least."""
    parts = (
        [] if length.iterations is None else [f"{text_from_count(length.iterations)} iterations"]
    )
    parts += [] if length.seconds is None else [text_from_seconds(length.seconds, digits=2)]
    return " and ".join(parts) or "no set length"


def flat_facts(value: object, prefix: str = "") -> Iterator[tuple[str, Scalar]]:
    """Name every plain value within mappings and lists by its path."""
    if prefix and isinstance(value, (str, int, float, bool)):
        yield prefix, value
    pairs: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, each in pairs:
        yield from flat_facts(each, f"{prefix}.{key}" if prefix else str(key))


def title_of_key(key: str) -> str:
    """Name a fact without its unit."""
    if key.endswith("_per_s"):
        return key.removesuffix("_per_s").replace("_", " ") + "/s"
    return re.sub(r"_(s|bytes|fraction)$", "", key).replace("_", " ")


def value_text(key: str, value: Scalar) -> str:
    """Write a value in the unit that its name ends with."""
    if value is None or isinstance(value, str):
        return MISSING if value is None else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.endswith("_bytes"):
        return text_from_bytes(value)
    if key.endswith("_per_s"):
        return f"{value:,.1f}".replace(",", " ")
    if key.endswith(("_s", "_s_so_far")):
        return text_from_seconds(value)
    if key == "flops":
        power = min(int(math.log10(value)) // 3, 4) if value >= 1 else 0
        return f"{value / 1000**power:.3g} {' kMGT'[power]}".rstrip()
    if "fraction" in key or key.endswith(("share", "utilisation")):
        return text_from_fraction(value, digits=1)
    return f"{value:.4g}" if isinstance(value, float) else text_from_count(value)


# ---- devices


def device_names(runs: Sequence[Run]) -> dict[str, str]:
    """Name the device of each run; its machine is added where two have the same device.

    Where all have the same device, machines go by what their owners call them alone.
    """
    bare = {run.id: _device(run) for run in runs}
    alike = len(set(bare.values())) == 1 and all(run.record.environment.machine for run in runs)
    hosts: dict[str, set[str]] = {}
    for run in runs:
        hosts.setdefault(bare[run.id], set()).add(run.record.environment.label)
    names = {}
    for run in runs:
        name, machine = bare[run.id], run.record.environment.label
        if len(hosts[name]) > 1:
            name = machine if alike else f"{name} ({machine})"
        names[run.id] = name
    return names


def _device(run: Run) -> str:
    """Find the GPU of a run that used one, else the processor, else the machine."""
    environment, asked = run.record.environment, run.record.spec.device or ""
    printed = reported_s(run.record, "gpu", "mean") is not None
    on_gpu = run.times.gpu is not None or printed or asked.startswith("cuda")
    gpu = gpu_of(run.record) if on_gpu else None
    return gpu.name if gpu is not None else environment.cpu or environment.host


# ---- names of runs, as short as their differences allow, and series of runs


def labels_from_runs(runs: Sequence[Run]) -> tuple[str, ...]:
    """Name every run by the properties in which the runs differ; no two names are equal."""
    records = [run.record for run in runs]
    shown = [each for each in PROPERTIES if each.label]
    facts = [{each.name: each.text(record) for each in shown} for record in records]
    for fact, options in zip(facts, _options(records), strict=True):
        fact["options"] = options
    levels = sorted({each.label for each in shown})
    main = [each for each in shown if each.label == levels[0]] if levels else []
    differing = [each.name for each in main if _differ(each, facts)]
    if "model" in differing:
        # Files of one network may differ in what runtime and precision say already.
        files = {(model_name(r), r.spec.runtime, precision_of(r)) for r in records}
        kinds = {(runtime, precision) for _, runtime, precision in files if precision}
        if len({network_name(r) for r in records}) == 1 and len(kinds) == len(files):
            differing.remove("model")
    names = [_joined(each, differing) for each in facts]
    for level in levels[1:]:
        # Names that are alike, and no others, get what differs among their runs.
        keys = [each.name for each in shown if each.label == level]
        alike: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            alike.setdefault(name, []).append(index)
        for name, members in alike.items():
            more = [key for key in keys if len({facts[index][key] for index in members}) > 1]
            for index in members:
                names[index] = " · ".join(filter(None, (name, _joined(facts[index], more))))
    names = [name or model_name(record) for name, record in zip(names, records, strict=True)]
    total, taken = Counter(names), set(names)
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        number = seen[name]
        unique = name
        while total[name] > 1 and (unique := f"{name} ({number})") in taken:
            number += 1
        taken.add(unique)
        result.append(unique)
    return tuple(result)


def _differ(each: Property, facts: Sequence[Mapping[str, str]]) -> bool:
    """Whether runs differ in a property, those of one model where it counts within models."""
    if each.within is None:
        return len({fact[each.name] for fact in facts}) > 1
    found: dict[str, set[str]] = {}
    for fact in facts:
        if fact[each.name] or each.name == "options":
            found.setdefault(fact[each.within], set()).add(fact[each.name])
    return any(len(values) > 1 for values in found.values())


def _joined(facts: Mapping[str, str], keys: Iterable[str]) -> str:
    return " ".join(" · ".join(facts[key] for key in keys if facts[key]).split())


def _options(records: Sequence[RunRecord]) -> list[str]:
    """Options that differ among runs of one runtime, but no precision a second time."""
    found = [
        {key: value for key, value in options_of(each).items() if key != precision_of(each)}
        for each in records
    ]
    values: dict[tuple[str, str], set[str | None]] = {}
    keys = {key for each in found for key in each}
    for record, each in zip(records, found, strict=True):
        for key in keys:
            values.setdefault((record.spec.runtime, key), set()).add(each.get(key))
    return [
        " ".join(f"{k}={v}" for k, v in each.items() if len(values[record.spec.runtime, k]) > 1)
        for record, each in zip(records, found, strict=True)
    ]


MOST_STEM = 100
"""Characters of a name within the name of a file: file systems take 255, endings included."""


def file_stem(name: str, *, taken: set[str]) -> str:
    """Make a name that every file system takes and no one has taken yet."""
    safe = re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("_.")[:MOST_STEM] or "model"
    stem, number = safe, 2
    while stem in taken:
        stem, number = f"{safe}_{number}", number + 1
    taken.add(stem)
    return stem


def shortened(name: str, *, length: int = 44) -> str:
    """Cut the middle out of a long name: both ends of a layer's name tell what it is."""
    name = " ".join(name.split())
    if len(name) <= length:
        return name
    head = (length - 1) * 3 // 5
    return f"{name[:head]}…{name[-(length - 1 - head) :]}"


def shortened_apart(names: Sequence[str], *, length: int = 44) -> list[str]:
    """Shorten names that stand side by side, but never two different ones to the same."""
    while True:
        short = [shortened(name, length=length) for name in names]
        if len(set(short)) == len(set(names)) or length > max(map(len, names)):
            return short
        length += 8


X = TypeVar("X", int, float, tuple[int, int])
AlikeKey = tuple[str, ...]


def series_over(
    runs: Sequence[Run], at: Callable[[Run], X | None], *, leave_out: Sequence[str], least: int = 2
) -> dict[AlikeKey, dict[X, list[Run]]]:
    """Group runs that are alike but for what is left out; each group by its value, in order.

    Runs of two machines are never alike.
    """
    groups: dict[AlikeKey, dict[X, list[Run]]] = {}
    quiet: list[Property] = [p for p in PROPERTIES if p.quiet]
    same: list[str] = [p.name for p in quiet if len({p.text(run.record) for run in runs}) == 1]
    for run in runs:
        place = at(run) if len(run.times) else None
        if place is not None:
            key = series_key(run.record, leave_out=(*leave_out, *same))
            groups.setdefault(key, {}).setdefault(place, []).append(run)
    return {
        key: dict(sorted(found.items())) for key, found in groups.items() if len(found) >= least
    }


def names_of_keys(keys: Sequence[AlikeKey]) -> list[str]:
    """Name series by the parts in which they differ; one alone by its model."""
    differing = [len(set(parts)) > 1 for parts in zip(*keys, strict=True)]
    names = [" · ".join(p for p, d in zip(key, differing, strict=True) if d and p) for key in keys]
    return [name or key[0] for name, key in zip(names, keys, strict=True)]


def name_of_key(key: AlikeKey) -> str:
    """Name a series by the parts that say something."""
    return " · ".join(part for part in key if part)
