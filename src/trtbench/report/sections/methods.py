"""How the numbers were made, in words that could go into a paper."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.column_summary import LEVEL
from trtbench.domain.ran import protocol_of
from trtbench.domain.result import Run, RunRecord
from trtbench.domain.spec import Length
from trtbench.report.document import Section, Text
from trtbench.report.numbers import text_from_count
from trtbench.report.run_facts import summary_of
from trtbench.units import text_from_seconds

ORDER = 95

PROTOCOLS = {
    "serve": "one query at a time: each is sent when the one before has been answered",
    "pipeline": "two queries in flight on separate copy and compute streams",
    "gpu": "back to back on the device, without transfers",
    "coldl2": "back to back on the device, without transfers, the L2 cache emptied before each "
    "query and outside its time",
    "server": "queries arrive on a schedule, and latency counts from the scheduled start",
    "first": "load, first inference and time to steady state",
}

SPANS = {
    "wall time": "the wall time of the measurement",
    "sum of host times": "the sum of their host times",
    "device stamps": "the time from the first copy in to the last copy out, by device stamps",
}

COLUMNS = {
    "host": "host time runs from before the call to after its completion, by the host's clock",
    "latency": "latency is the sum of the H2D, GPU and D2H spans on the device, not host time",
    "enqueue": "enqueue is the host time of handing a query over",
    "end_to_end": "end to end runs from the start of H2D to the end of D2H, queueing included",
}


def make(runs: Sequence[Run]) -> Section:
    """Describe protocol, warm-up, repetition and statistics of the runs at hand."""
    records = [run.record for run in runs]
    paragraphs = [
        " ".join(filter(None, (_protocols(records), _imported(records)))),
        _lengths(records),
        _columns(runs),
        _statistics(runs),
    ]
    return Section(
        id="methods", title="Methods", blocks=(Text(text="\n\n".join(filter(None, paragraphs))),)
    )


def _protocols(records: Sequence[RunRecord]) -> str:
    kinds = list(dict.fromkeys(protocol_of(record) for record in records))
    words = "; ".join(f"{kind}: {PROTOCOLS[kind]}" for kind in kinds)
    if len(kinds) == 1:
        return f"All runs follow the protocol {words}."
    return f"Numbers of different protocols are not comparable. {_capital(words)}."


def _imported(records: Sequence[RunRecord]) -> str | None:
    count = sum(record.provenance == "imported" for record in records)
    if not count:
        return None
    who = "All" if count == len(records) else f"{text_from_count(count)} of {len(records)}"
    return (
        f"{who} runs were imported from files of another tool; their settings are those on record."
    )


def _lengths(records: Sequence[RunRecord]) -> str | None:
    own = [record for record in records if record.provenance == "measured"]
    if not own:
        return None
    floors = _distinct([_length(record.spec.warmup.floor) for record in own])
    stops = _distinct([_length(record.spec.stop) for record in own])
    steady = any(record.spec.warmup.until_steady for record in own)
    more = ", and then until two windows in a row agree" if steady else ""
    return (
        f"Each launch is a fresh process. It warms up for at least {floors}{more}; warm-up and the "
        f"first inference are in no statistic. It then measures for at least {stops}."
    )


def _length(length: Length) -> str:
    parts = []
    if length.iterations is not None:
        parts.append(f"{text_from_count(length.iterations)} iterations")
    if length.seconds is not None:
        parts.append(text_from_seconds(length.seconds, digits=2))
    return " and ".join(parts) or "no set length"


def _columns(runs: Sequence[Run]) -> str:
    seen = {name for run in runs for name in run.times.durations()}
    words = [text for name, text in COLUMNS.items() if name in seen]
    return f"{_capital('; '.join(words))}." if words else ""


def _statistics(runs: Sequence[Run]) -> str:
    launches = [summary_of(run).launches for run in runs]
    percent = f"{LEVEL * 100:g} %"
    repeated = (
        f"With several launches, the {percent} interval of the median is a t-interval on the "
        "logarithms of the launches' medians and speaks of launches like these. "
        if max(launches, default=1) > 1
        else ""
    )
    single = (
        f"With one launch, the {percent} interval of the median lies between two order statistics "
        "and speaks of this launch only. "
        if min(launches, default=1) == 1
        else ""
    )
    sources = {source for run in runs if (source := summary_of(run).throughput_from)}
    spans = " or ".join(sorted(SPANS.get(source, source) for source in sources))
    rate = f"Throughput is the number of queries divided by {spans}." if spans else ""
    return (
        "Percentiles are observed samples (nearest rank). Samples of one process depend on one "
        "another, so intervals count effective samples (samples divided by their correlation "
        "time), and a percentile that they do not support is not shown. "
        f"{repeated}{single}The standard deviation is that of the sample (n − 1). {rate}"
    ).strip()


def _distinct(texts: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(texts))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
