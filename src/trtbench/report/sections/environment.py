"""Where the runs took place, what differed between them, and how the numbers were made."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.summary import SAMPLE_LEVEL
from trtbench.core.properties import protocol_of
from trtbench.core.run import Run, RunRecord
from trtbench.core.units import text_from_count
from trtbench.report.document import (
    Block,
    Cell,
    Code,
    Column,
    Details,
    Section,
    Text,
    capitalized,
    column,
    key_values,
    section_of,
    table,
)
from trtbench.report.run_facts import facts_from_environment, named, summary_of

ORDER = 90

OPEN_COMMANDS = 4
"""More commands than this are folded away."""
PROTOCOLS = {
    "serve": "one query at a time: each is sent when the one before has been answered",
    "pipeline": "two queries in flight on separate copy and compute streams",
    "gpu": "back to back on the device, without transfers",
    "coldl2": "back to back on the device, without transfers, the L2 cache emptied before each "
    "query and outside its time",
    "server": "queries arrive on a schedule, and latency counts from the scheduled start",
    "first": "load, first inference and time to steady state",
}
SPANS = ("wall time", "sum of host times", "device stamps")
STATISTICS = (
    "Percentiles are observed samples (nearest rank). Samples of one process depend on one "
    "another, so intervals count effective samples (samples divided by their correlation time), "
    "and a percentile that they do not support is not shown. With several launches, the "
    f"{SAMPLE_LEVEL * 100:g} % interval of the median is a t-interval on the logarithms of their "
    "medians and speaks of launches like these; with one, it lies between two order statistics "
    "and speaks of this launch only. The standard deviation is that of the sample (n − 1)."
)
COLUMNS = {
    "host": "host time runs from before the call to after its completion, by the host's clock",
    "latency": "latency is the sum of the H2D, GPU and D2H spans on the device, not host time",
    "enqueue": "enqueue is the host time of handing a query over",
    "end_to_end": "end to end runs from the start of H2D to the end of D2H, queueing included",
}


def make(runs: Sequence[Run]) -> list[Section]:
    """State what the runs share, what differs, and how the numbers were made."""
    facts = {label: facts_from_environment(run.record.environment) for label, run in named(runs)}
    names = list(dict.fromkeys(name for each in facts.values() for name in each))
    shared = [name for name in names if len({each.get(name) for each in facts.values()}) == 1]
    first = next(iter(facts.values()))
    blocks: list[Block] = []
    if shared:
        blocks.append(key_values("environment", ((name, Cell(first[name])) for name in shared)))
    if differing := [name for name in names if name not in shared]:

        def fact(name: str) -> Column:
            return column(name, name, lambda row: row[1].get(name))

        columns = (column("Run", "Run", lambda row: row[0]), *map(fact, differing))
        caption = "What differed between the runs."
        blocks.append(table("environment_differences", facts.items(), columns, caption=caption))
    commands = dict.fromkeys(run.record.environment.command for run in runs)
    codes = tuple(Code(text) for text in commands if text)
    folded = Details(f"The {len(codes)} commands", codes)
    blocks += codes if len(codes) <= OPEN_COMMANDS else (folded,)
    # Words that suit a paper.
    records = [run.record for run in runs]
    seen = {name for run in runs for name in run.times.durations()}
    about = "; ".join(text for name, text in COLUMNS.items() if name in seen)
    sentence = f"{capitalized(about)}." if about else ""
    paragraphs = (_protocols(records), sentence, _statistics(runs))
    methods = Text("\n\n".join(filter(None, paragraphs)))
    environment = section_of("environment", "Environment", blocks)
    return [*([environment] if environment else []), Section("methods", "Methods", (methods,))]


def _protocols(records: Sequence[RunRecord]) -> str:
    kinds = list(dict.fromkeys(protocol_of(record) for record in records))
    words = "; ".join(f"{kind}: {PROTOCOLS[kind]}" for kind in kinds)
    text = f"All runs follow the protocol {words}."
    if len(kinds) > 1:
        text = f"Numbers of different protocols are not comparable. {capitalized(words)}."
    count = sum(record.provenance == "imported" for record in records)
    who = "All" if count == len(records) else f"{text_from_count(count)} of {len(records)}"
    origin = "runs were imported from files of another tool; their settings are those on record."
    return f"{text} {who} {origin}" if count else text


def _statistics(runs: Sequence[Run]) -> str:
    sources = {summary_of(run).throughput_from for run in runs}
    spans = " or ".join(each for each in SPANS if each in sources)
    rate = f" Throughput is the number of queries divided by {spans}." if spans else ""
    return STATISTICS + rate
