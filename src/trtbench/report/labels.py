"""Names for runs, as short as their differences allow, and series of runs that differ in one thing.

Knows what distinguishes runs; not where names are shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from trtbench.core.properties import (
    PROPERTIES,
    Property,
    model_name,
    network_name,
    options_of,
    series_key,
)
from trtbench.core.run import Run, RunRecord, precision_of


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
