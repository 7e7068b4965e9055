"""Names for runs, as short as telling them apart allows.

Knows what distinguishes runs; not where names are shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from trtbench.domain.ran import gap_of, options_of, protocol_of, setting_of, streams_of, threads_of
from trtbench.domain.result import FailedRun, Run, RunRecord, gpu_of, precision_of
from trtbench.domain.spec import RunSpec
from trtbench.units import text_from_rate, text_from_seconds

_ENDING = re.compile(r"\.(onnx|engine|plan|trt|pt|pth|pt2|ts)$", re.IGNORECASE)
_SOURCE = re.compile(r"^(torchvision|timm|ultralytics|torch\.hub):(.*/)?", re.IGNORECASE)
_PRECISION = re.compile(r"([._-](fp32|tf32|fp16|bf16|int8|fp8|best|half|qdq))+$", re.IGNORECASE)

MAIN = (
    "model", "runtime", "device", "precision", "batch", "protocol", "rate", "gap",
    "threads", "streams", "options", "host",
)  # fmt: skip
"""Told of every run where it differs among them."""
FURTHER = (("gpu",), ("cuda_graph", "transfers", "arrivals", "asked_device"), ("tags",))
"""Told only where names would be equal without it: most follow from the protocol."""


def labels_from_runs(runs: Sequence[Run]) -> tuple[str, ...]:
    """Name every run by what differs among the runs; no two names are equal."""
    records = [run.record for run in runs]
    facts = [_facts(record) for record in records]
    for fact, options in zip(facts, _options(records), strict=True):
        fact["options"] = options
    differing = [key for key in MAIN if len({each[key] for each in facts}) > 1]
    if "model" in differing and _told_by_precision(records):
        differing.remove("model")
    names = [_joined(each, differing) for each in facts]
    for keys in FURTHER:
        names = _told_apart(names, facts, keys)
    names = [name or model_name(record) for name, record in zip(names, records, strict=True)]
    return _unique(names)


def _joined(facts: Mapping[str, str], keys: Iterable[str]) -> str:
    return " ".join(" · ".join(facts[key] for key in keys if facts[key]).split())


def _told_apart(names: list[str], facts: list[dict[str, str]], keys: tuple[str, ...]) -> list[str]:
    """Add to names that are alike, and to no others, what differs among their runs."""
    alike: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        alike.setdefault(name, []).append(index)
    result = list(names)
    for name, members in alike.items():
        differing = [key for key in keys if len({facts[index][key] for index in members}) > 1]
        for index in members:
            result[index] = " · ".join(filter(None, (name, _joined(facts[index], differing))))
    return result


def _options(records: Sequence[RunRecord]) -> list[str]:
    """Tell the options that differ among runs of one runtime, but no precision a second time."""
    told = [
        {key: value for key, value in options_of(each).items() if key != precision_name(each)}
        for each in records
    ]
    runtimes = [record.spec.runtime for record in records]
    differing = {
        (runtime, key)
        for runtime in set(runtimes)
        for key in {key for each in told for key in each}
        if len({t.get(key) for t, r in zip(told, runtimes, strict=True) if r == runtime}) > 1
    }
    return [
        " ".join(f"{key}={each[key]}" for key in each if (runtime, key) in differing)
        for each, runtime in zip(told, runtimes, strict=True)
    ]


def _told_by_precision(records: Sequence[RunRecord]) -> bool:
    """Tell whether files of one network differ in what runtime and precision say already."""
    files = {(model_name(each), each.spec.runtime, precision_name(each)) for each in records}
    kinds = {(runtime, precision) for _, runtime, precision in files if precision}
    return len({network_name(each) for each in records}) == 1 and len(kinds) == len(files)


def model_name(record: RunRecord | FailedRun) -> str:
    """Write the model's file name on one line, whatever it holds."""
    return " ".join(record.spec.model.name.split()) or record.spec.model.path or record.id


def network_name(record: RunRecord | FailedRun) -> str:
    """Write the name that a network's files share: ``resnet18`` of ``resnet18.fp16.engine``.

    A model of a library goes by its name there: ``torchvision:resnet18`` is ``resnet18``, too.
    """
    name = _SOURCE.sub("", model_name(record)) or model_name(record)
    stem = _ENDING.sub("", name) or name
    return _PRECISION.sub("", stem) or stem


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


def precision_name(record: RunRecord | FailedRun) -> str | None:
    """Write the precision that ran, by the name it was asked for where the two agree."""
    return precision_of(record)


def precision_words(record: RunRecord) -> str | None:
    """Write the precision that ran, and who says so where nothing that ran tells."""
    fact, name = record.conditions.get("precision"), precision_of(record)
    if name and (ran := record.facts.get("computes_in")):
        return f"{name}, computed in {ran}"
    return f"{name} by its record" if name and fact and fact.source == "recorded" else name


def device_name(record: RunRecord) -> str | None:
    """Say where it ran, where that was asked for: a provider of ONNX Runtime, or a device."""
    fact = record.conditions.get("providers")
    first = str(fact.value).partition(",")[0].removesuffix("ExecutionProvider") if fact else ""
    return first if first not in ("", "CPU") else record.spec.device


def protocol_name(record: RunRecord) -> str:
    """Name the protocol with every part of it that was set: without them a number means little."""
    spec, streams, protocol = record.spec, streams_of(record), protocol_of(record)
    known = {key: fact.value for key, fact in record.conditions.items() if fact.source != "unknown"}
    graph = "CUDA graph"
    words = (
        f"{text_from_rate(spec.rate_hz)} {spec.arrivals}" if spec.rate_hz else "",
        graph if known.get("cuda_graph") else f"no {graph}" if "cuda_graph" in known else "",
        "no transfers" if known.get("transfers") is False else "",
        "spin wait" if known.get("spin_wait") is True else "",
        f"{streams} streams, latencies overlap" if streams > 1 else "",
        f"gap {text_from_seconds(gap, digits=3)}" if (gap := gap_of(record)) else "",
        f"profile {profile}" if (profile := setting_of(record, "profile_index")) else "",
        "clocks locked" if known.get("clocks_locked") is True else "",
    )
    told = ", ".join(filter(None, words))
    return f"{protocol} ({told})" if told else protocol


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


def _facts(record: RunRecord) -> dict[str, str]:
    spec: RunSpec = record.spec
    threads, streams = threads_of(record), streams_of(record)
    return {
        "model": model_name(record),
        "runtime": spec.runtime,
        "device": device_name(record) or "",
        "precision": precision_name(record) or "",
        "batch": f"batch {record.batch}" if record.batch else "",
        "protocol": protocol_of(record),
        "rate": text_from_rate(spec.rate_hz) if spec.rate_hz else "",
        "arrivals": spec.arrivals if spec.rate_hz else "",
        "gap": f"gap {text_from_seconds(gap, digits=3)}" if (gap := gap_of(record)) else "no gap",
        "threads": f"{threads} threads" if threads else "",
        "streams": f"{streams} streams" if streams > 1 else "",
        "cuda_graph": "CUDA graph" if setting_of(record, "cuda_graph") else "no CUDA graph",
        "transfers": "with transfers" if setting_of(record, "transfers") else "no transfers",
        "asked_device": spec.device or "",
        "tags": " ".join(record.tags),
        "host": record.environment.label,
        "gpu": gpu.name if (gpu := gpu_of(record)) else "",
    }


def _unique(names: list[str]) -> tuple[str, ...]:
    total = Counter(names)
    taken = set(names)
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        if total[name] > 1:
            number = seen[name]
            while (numbered := f"{name} ({number})") in taken:
                number += 1
            taken.add(numbered)
            name = numbered
        result.append(name)
    return tuple(result)
