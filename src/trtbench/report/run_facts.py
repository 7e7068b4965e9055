"""Facts on runs for reports: labels, summaries, scores, telemetry and devices.

Summaries are cached. ``run.extra["scores"]`` maps metrics to ``Score`` values.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from weakref import WeakKeyDictionary

from trtbench.analysis import summary as summaries
from trtbench.core import properties, units
from trtbench.core.results import Verdict
from trtbench.core.run import Run, Scalar, Score, gpu_of, precision_of
from trtbench.core.samples import TelemetrySample
from trtbench.report.charts import Axis
from trtbench.report.document import Cell, Time

PHASES = {
    "host": "Host",
    "latency": "Latency",
    "enqueue": "Enqueue",
    "h2d": "H2D",
    "gpu": "GPU",
    "d2h": "D2H",
    "end_to_end": "End to end",
}
"""Titles of time columns."""
FRACTIONS = ("steal", "pressure", "change", "drop", "cov", "largest_change", "share_of_peak",
             "last_third_vs_first", "utilisation_before")  # fmt: skip
"""Keys of facts that are fractions though their names do not end so."""
REPORTED = "Reported: printed by another tool; there are no samples to verify it."

_SUMMARIES: WeakKeyDictionary[Run, summaries.Summary] = WeakKeyDictionary()


def labelled(runs: Sequence[Run]) -> list[tuple[str, Run]]:
    return list(zip(labels_from_runs(runs), runs, strict=True))


def summary_of(run: Run) -> summaries.Summary:
    if run not in _SUMMARIES:
        _SUMMARIES[run] = summaries.summary_from_run(run)
    return _SUMMARIES[run]


def cache_summary(run: Run, summary: summaries.Summary) -> None:
    _SUMMARIES[run] = summary


def summarize_all(runs: Sequence[Run]) -> None:
    """Compute and cache the summaries of many runs in threads."""
    waiting = [run for run in runs if run not in _SUMMARIES]
    with ThreadPoolExecutor(max_workers=4) as pool:
        _SUMMARIES.update(zip(waiting, pool.map(summaries.summary_from_run, waiting), strict=True))


def headline(
    get: Callable[[summaries.ColumnSummary], Cell | Scalar | Time],
) -> Callable[[Run], Cell | Scalar | Time]:
    """Return a column getter for a run's main statistics; empty if there are none."""

    def cell(run: Run) -> Cell | Scalar | Time:
        head = summary_of(run).head
        return Cell() if head is None else get(head)

    return cell


def typical(found: summaries.ColumnSummary) -> Time:
    """Return the median, or the mean that another tool reported, as a table value."""
    mark = "" if found.typical_of == "median" else f" ({found.typical_of})"
    return Time(found.typical, found.median_interval, mark)


def column_title(column: summaries.ColumnSummary) -> str:
    """Return the title of a time column, marked if another tool reported it."""
    name = PHASES.get(column.column, column.column)
    return f"{name} (reported)" if column.reported else name


def number_name(column: str) -> str:
    """Return a time column, or another quantity, as it is called in a sentence."""
    names = {"host": "host time", "gpu": "GPU time", "enqueue": "enqueue time"}
    return names.get(column, PHASES.get(column, column)).replace("Latency", "latency")


def headline_title(runs: Sequence[Run]) -> str:
    """Return what the main times of the runs are: host time, device latency, or both."""
    kinds = {summary_of(run).headline for run in runs}
    if len(kinds) > 1:
        return "Latency, host or device"
    (kind,) = kinds
    titles = {"host": "Latency, host", "latency": "Latency, H2D + GPU + D2H"}
    return titles.get(kind) or f"{PHASES[kind]} time"


def quantile(found: summaries.Quantile) -> Cell | Time:
    """Return a quantile as a table value, or the number of samples it needs."""
    if found.value is not None:
        return Time(found.value, found.interval)
    needed = units.text_from_count(found.needed)
    return Cell(None, f"needs {needed} samples" if found.needed else units.MISSING)


p99 = headline(lambda head: quantile(head.quantile(0.99)))


def with_protocols(words: str, runs: Sequence[Run]) -> str:
    """Return a caption, with a warning if the runs have different protocols."""
    names = list(dict.fromkeys(properties.protocol_of(run.record) for run in runs))
    if len(names) < 2:
        return words
    warning = f"Measured with different protocols ({', '.join(names)}):"
    return f"{words} {warning} their times are not comparable.".lstrip()


def joules_per_item(run: Run) -> float | None:
    """Return the measured energy per item; ``None`` if unknown."""
    record = run.record
    per_query = record.facts.get("energy_per_query_j")
    spent = [each.energy_j for each in record.launches if each.energy_j is not None]
    if not isinstance(per_query, (int, float)):
        known = len(run.times) and len(spent) == len(record.launches) > 0
        per_query = sum(spent) / len(run.times) if known else None
    return per_query / record.known_items if per_query is not None and record.known_items else None


# ---- GPU telemetry


class Quantity(NamedTuple):
    """One quantity of GPU telemetry: its field, title and unit."""

    key: str
    title: str
    unit: str
    field: str
    factor: float = 1.0
    highest: float | None = None

    @property
    def axis(self) -> Axis:
        return Axis(self.title, self.unit)

    def values(self, samples: Sequence[TelemetrySample]) -> list[float | None]:
        found = (getattr(sample, self.field) for sample in samples)
        return [None if value is None else value * self.factor for value in found]


QUANTITIES = (
    Quantity("gpu_util_mean_percent", "GPU", "%", "gpu_util", 100, 100),
    Quantity("memory_util_mean_percent", "Memory controller", "%", "memory_util", 100, 100),
    Quantity("memory_used_mean_gib", "Device memory used", "GiB", "memory_used_bytes", 2**-30),
    Quantity("sm_clock_mean_mhz", "SM clock", "MHz", "sm_clock_hz", 1e-6),
    Quantity("power_mean_w", "Power", "W", "power_w"),
    Quantity("temperature_mean_c", "Temperature", "°C", "temperature_c"),
)


def scores_of(run: Run) -> dict[str, Score]:
    scores = run.extra.get("scores")
    return scores if isinstance(scores, dict) else {}


def score_text(score: Score, value: float | None) -> str:
    """Format a score, or a limit of its interval; shares are shown in per cent."""
    if value is None:
        return units.MISSING
    if not score.declared.is_share:
        return units.text_from_number(value, bounds=score.interval)
    return f"{value if abs(score.value) > 1 else 100 * value:.2f} %"


def interval_text(verdict: Verdict, *, digits: int = 2) -> str:
    if verdict.interval is None:
        return "–"
    ends = (verdict.interval.low - 1, verdict.interval.high - 1)
    return " to ".join(units.text_from_change(end, digits=digits) for end in ends)


def flatten_facts(value: object, prefix: str = "") -> Iterator[tuple[str, Scalar]]:
    """Yield every scalar in nested mappings and lists with its dotted path."""
    if prefix and isinstance(value, (str, int, float, bool)):
        yield prefix, value
    pairs: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, each in pairs:
        yield from flatten_facts(each, f"{prefix}.{key}" if prefix else str(key))


def title_of_key(key: str) -> str:
    """Return the title of a fact: its key without the unit."""
    if key.endswith("_per_s"):
        return key.removesuffix("_per_s").replace("_", " ") + "/s"
    return re.sub(r"_(s|ms|us|mhz|hz|bytes|fraction)$", "", key).replace("_", " ")


def value_text(key: str, value: Scalar) -> str:
    """Format a value in the unit given by the suffix of its key."""
    if value is None or isinstance(value, str):
        return units.MISSING if value is None else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.endswith("_bytes"):
        return units.text_from_bytes(value)
    if key.endswith("_per_s"):
        return f"{value:,.1f}".replace(",", " ")
    if key.endswith(("_s", "_s_so_far")):
        return units.text_from_seconds(value)
    _, _, unit = key.rpartition("_")
    if unit in ("ms", "us"):
        return units.text_from_seconds(value * units.SECONDS[unit])
    if unit in ("mhz", "hz", "median"):
        return units.text_from_number(value) + {"mhz": " MHz", "hz": "/s", "median": " times"}[unit]
    if key == "flops":
        power = min(int(math.log10(value)) // 3, 4) if value >= 1 else 0
        return f"{value / 1000**power:.3g} {' kMGT'[power]}".rstrip()
    if "fraction" in key or key.endswith(("share", "utilisation")) or key in FRACTIONS:
        return units.text_from_fraction(value, digits=1)
    return f"{value:.4g}" if isinstance(value, float) else units.text_from_count(value)


# ---- labels of runs


def device_names(runs: Sequence[Run]) -> dict[str, str]:
    """Return the device name of each run, with the machine if several have the same device.

    If all devices are the same and all machines have a label, only the labels are used.
    """
    bare: dict[str, str] = {}
    hosts: dict[str, set[str]] = {}
    for run in runs:  # the GPU if the run used one, else the CPU, else the host
        record = run.record
        on_gpu = run.times.gpu is not None or "mean" in summaries.reported_statistics(record, "gpu")
        used = on_gpu or (record.spec.device or "").startswith("cuda")
        gpu, environment = gpu_of(record) if used else None, record.environment
        bare[run.id] = gpu.name if gpu is not None else environment.cpu or environment.host
        hosts.setdefault(bare[run.id], set()).add(environment.label)
    alike = len(set(bare.values())) == 1 and all(run.record.environment.machine for run in runs)
    names = {}
    for run in runs:
        name, machine = bare[run.id], run.record.environment.label
        if len(hosts[name]) > 1:
            name = machine if alike else f"{name} ({machine})"
        names[run.id] = name
    return names


def labels_from_runs(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return unique labels of runs, made of the properties in which they differ."""
    records = [run.record for run in runs]
    shown = [each for each in properties.PROPERTIES if each.label]
    facts = [{each.name: each.text(record) for each in shown} for record in records]
    # Options that differ among runs of one runtime, except precision.
    options = [dict(properties.options_of(each)) for each in records]
    for record, own in zip(records, options, strict=True):
        own.pop(precision_of(record) or "", None)
    seen: dict[tuple[str, str], set[str | None]] = {}
    for key in {key for own in options for key in own}:
        for record, own in zip(records, options, strict=True):
            seen.setdefault((record.spec.runtime, key), set()).add(own.get(key))
    for run, fact, own in zip(runs, facts, options, strict=True):
        kept = (key for key in own if len(seen[run.record.spec.runtime, key]) > 1)
        fact["options"] = " ".join(f"{key}={own[key]}" for key in kept)
        if name := run.extra.get("name"):  # which says runtime, precision and options
            named = {"model": properties.network_name(run.record), "runtime": str(name)}
            fact |= {**dict.fromkeys(fact.keys() - {"batch"}, ""), **named}

    def runs_differ(each: properties.Property) -> bool:
        """Return whether runs differ in a property, for some only within the same model."""
        if each.within is None:
            return len({fact[each.name] for fact in facts}) > 1
        found: dict[str, set[str]] = {}
        for fact in facts:
            if fact[each.name] or each.name == "options":
                found.setdefault(fact[each.within], set()).add(fact[each.name])
        return any(len(values) > 1 for values in found.values())

    def joined(fact: Mapping[str, str], keys: Iterable[str]) -> str:
        return " ".join(" · ".join(fact[key] for key in keys if fact[key]).split())

    levels = sorted({each.label for each in shown})
    main = [each for each in shown if each.label == levels[0]] if levels else []
    differing = [each.name for each in main if runs_differ(each)]
    if "model" in differing:
        # File names are redundant if runtime and precision tell the files apart.
        files = {(properties.model_name(r), r.spec.runtime, precision_of(r)) for r in records}
        kinds = {(runtime, precision) for _, runtime, precision in files if precision}
        if len({properties.network_name(r) for r in records}) == 1 and len(kinds) == len(files):
            differing.remove("model")
    names = [joined(each, differing) for each in facts]
    for level in levels[1:]:
        # Equal names are extended by the properties in which their runs differ.
        keys = [each.name for each in shown if each.label == level]
        alike: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            alike.setdefault(name, []).append(index)
        for name, members in alike.items():
            more = [key for key in keys if len({facts[index][key] for index in members}) > 1]
            for index in members:
                names[index] = " · ".join(filter(None, (name, joined(facts[index], more))))
    names = [n or properties.model_name(x) for n, x in zip(names, records, strict=True)]
    total, taken = Counter(names), set(names)
    result = []
    for index, name in enumerate(names):
        number = names[: index + 1].count(name)
        unique = name
        while total[name] > 1 and (unique := f"{name} ({number})") in taken:
            number += 1
        taken.add(unique)
        result.append(unique)
    return tuple(result)


def unique_stem(name: str, *, taken: set[str]) -> str:
    """Return a valid file name without extension that is not in ``taken``, and add it there."""
    # File systems allow 255 characters, extension included.
    safe = re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("_.")[:100] or "model"
    stem, number = safe, 2
    while stem in taken:
        stem, number = f"{safe}_{number}", number + 1
    taken.add(stem)
    return stem
