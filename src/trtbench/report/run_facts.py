"""What pages say of runs: names, summaries, scores, memory and machine.

Everything is computed once for each run. ``run.extra["scores"]`` maps a metric to a number, or to a
mapping (or value) with ``value`` and optionally ``low``, ``high`` (or an ``interval`` with both)
and ``count``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from trtbench.analysis.memory import CUDA, MemoryPart, MemoryUse, memory_from_facts
from trtbench.analysis.pass_times import SwitchCost, switches_from_facts
from trtbench.analysis.summary import ColumnSummary, Quantile, Summary, summary_from_run
from trtbench.core.metrics import Metric
from trtbench.core.metrics import metric as metric_named
from trtbench.core.properties import protocol_of, streams_of
from trtbench.core.results import Verdict
from trtbench.core.run import Environment, Run, Scalar, Score
from trtbench.core.samples import Column
from trtbench.core.units import (
    MISSING,
    Ends,
    UnitScale,
    counted,
    text_from_bytes,
    text_from_change,
    text_from_count,
    text_from_number,
    text_from_seconds,
)
from trtbench.report.document import Cell, Time, duration_cell
from trtbench.report.labels import labels_from_runs

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


# ---- memory and changes of shape

SHORT = {CUDA: "CUDA", "inputs, outputs": "I/O"}
"""For a line of a terminal."""
MANY = 10_000
"""Contexts that something else than memory limits."""


def memory_of(run: Run) -> MemoryUse | None:
    """Collect what is known of a run's GPU memory; an engine's file stands for its weights."""
    record = run.record
    size = record.spec.model.size_bytes if record.spec.model.format == "engine" else None
    return memory_from_facts(record.facts, contexts=streams_of(record), weight_bytes=size)


def name_of_part(part: MemoryPart, use: MemoryUse) -> str:
    """Name a part; of modules also when they are loaded, which decides how many there are."""
    return f"modules ({use.loading})" if part.name == "modules" and use.loading else part.name


def words_from_memory(use: MemoryUse) -> tuple[tuple[str, str], ...]:
    """Say in a few lines what a process takes, what each further context takes, how many fit."""
    known = [part for part in use.parts if part.bytes]
    if not known:
        return ()
    unknown = [SHORT.get(name, name) for name in use.unknown]
    rest = f"; {', '.join(unknown)} unknown" if unknown else ""
    whole = f"{'at least ' if unknown else ''}{text_from_bytes(use.process_bytes)}"
    parts = ", ".join(
        f"{SHORT.get(part.name, name_of_part(part, use))} {text_from_bytes(part.bytes)}"
        for part in known
    )
    lines = [("memory", f"{whole}: {parts}{rest}")]
    if use.context_bytes:
        least = any(part.per_context and part.bytes is None for part in use.parts)
        size = f"{'at least ' if least else ''}{text_from_bytes(use.context_bytes)}"
        words = f"{size} more for each further context"
        if use.contexts > 1 and use.peak_bytes is not None:
            words += f"; {text_from_bytes(use.peak_bytes)} with the {use.contexts} of this run"
        lines.append(("context", words))
    if use.by_profile:
        sizes = enumerate(use.by_profile)
        needs = ", ".join(f"{text_from_bytes(size)} in profile {k}" for k, size in sizes)
        lines.append(("activations", f"{needs}; a context takes the largest"))
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


def words_from_switches(run: Run) -> Iterator[tuple[str, str]]:
    """Say for both directions how much longer the first query after a change takes."""
    for each in switches_from_facts(run.record.facts):
        to = "back" if each.to == "back" else f"to {each.to}"
        yield "switch", f"{to}: {cost_in_words(each)}; staying {text_from_seconds(each.stay_s)}"


def cost_in_words(cost: SwitchCost) -> str:
    """Say how much longer the first query takes, or that no cost can be seen."""
    ends = cost.interval
    if ends is None:
        return f"{text_from_seconds(cost.cost_s)} more, too few changes for an interval"
    low, high = text_from_seconds(ends.low), text_from_seconds(ends.high)
    words = f"{text_from_seconds(cost.cost_s)} more" if cost.is_seen else "no cost seen"
    return f"{words} ({low} to {high})"


# ---- scores

UNDECLARED = Metric("")
SAME = {"top-1": "top1", "prec@1": "top1", "top-5": "top5", "prec@5": "top5"}
"""Other names of the two accuracies of classifiers."""


@dataclass(frozen=True)
class Reading:
    """One score of a run."""

    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    count: int | None = None
    declared: Metric = UNDECLARED

    @property
    def bounds(self) -> Ends | None:
        return None if self.low is None or self.high is None else Ends(self.low, self.high)

    @property
    def text(self) -> str:
        return self.text_of(self.value)

    def text_of(self, value: float) -> str:
        """Write the score or an end of its interval; shares are written in per cent."""
        if not self.declared.is_share:
            return text_from_number(value, bounds=self.bounds)
        return f"{value if abs(self.value) > 1 else 100 * value:.2f} %"


def readings_from_run(run: Run) -> dict[str, Reading]:
    """Read a run's scores; what is not a number is passed over."""

    def get(source: object, name: str) -> object:
        return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)

    def number(value: object) -> float | None:
        known = isinstance(value, (int, float)) and math.isfinite(value)
        return float(value) if known else None  # type: ignore[arg-type]

    scores = run.extra.get("scores")
    found = {}
    for key, score in scores.items() if isinstance(scores, Mapping) else ():
        metric = str(key)
        plain = isinstance(score, (int, float))
        value = number(score if plain else get(score, "value"))
        if value is None:
            continue
        interval = get(score, "interval")
        low, high = (
            number(get(score, end) if get(score, end) is not None else get(interval, end))
            for end in ("low", "high")
        )
        count = number(get(score, "count"))
        declared = metric_named(SAME.get(metric.lower(), metric))
        if isinstance(score, Score):
            declared = score.declared
        whole = None if count is None else int(count)
        found[metric] = Reading(metric, value, low, high, whole, declared)
    return found


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

TITLES = {
    "python_path": "Python path",
    "smt": "SMT",
    "allowed_cpus": "Allowed CPUs",
    "mps_daemon": "MPS daemon",
    "mps_thread_percentage": "MPS threads (%)",
    "mps_memory_limit": "MPS memory",
    "cpu_steal_fraction_since_boot": "CPU stolen since boot",
    "pressure_fraction_10s": "Waiting for a CPU, before",
    "throttled_s_so_far": "CPU throttled, before",
    "elapsed_s": "Time taken",
    "cpu_busy_fraction": "CPU busy",
    "cpu_steal_fraction": "CPU stolen",
    "pressure_fraction": "Waiting for a CPU",
    "throttled_s": "CPU throttled",
}
"""Titles of what a machine records about itself."""
GPU_TITLES = {
    "processes": "processes before",
    "utilisation": "load before",
    "display": "drives a display",
    "mig": "in MIG mode",
    "mps": "shared by MPS",
    "exclusive": "exclusive",
}


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
        gpu_name, _, rest = key.partition("_")
        title = TITLES.get(key)
        if title is None and re.fullmatch(r"gpu\d+", gpu_name) and rest in GPU_TITLES:
            title = f"GPU {gpu_name[3:]} {GPU_TITLES[rest]}"
        if title is None:
            words = re.sub(r"_(s|bytes|fraction)$", "", key).replace("_", " ")
            title = words[:1].upper() + words[1:]
        known[title] = _with_unit(key, value)
    return {name: _machine_words(value) for name, value in known.items() if value is not None}


def _with_unit(key: str, value: Scalar) -> Scalar:
    """Give a number the unit that its key ends with."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if "fraction" in key or key.endswith("_utilisation"):
        return f"{value * 100:.3g} %"
    if key.endswith("_bytes"):
        return text_from_bytes(value)
    return text_from_seconds(value) if key.endswith(("_s", "_s_so_far")) else value


def _machine_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
