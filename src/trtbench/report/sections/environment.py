"""The machines of runs, how their models were built, and the methods of measurement.

For the output of ``build``, ``export`` and ``quantize`` and for reports. ``run.extra["build"]`` is
the record of an engine, ``run.extra["build_trace"]`` what a verbose log says of its build.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from trtbench.analysis.onnx_graph import describe_preparation
from trtbench.analysis.scores import is_unusual
from trtbench.analysis.summary import SAMPLE_LEVEL
from trtbench.core.properties import protocol_of
from trtbench.core.results import Artefact, Sidecar, TensorDiff
from trtbench.core.run import Environment, Run
from trtbench.core.units import shortened, text_from_bytes, text_from_count, text_from_seconds
from trtbench.report import document as doc
from trtbench.report.run_facts import flatten_facts, labelled, summary_of, title_of_key, value_text
from trtbench.trtexec.log_values import BuildTrace, LayerTuning

ORDER = 90

PROTOCOLS = {
    "serve": "one query at a time: each is sent after the previous one has finished",
    "pipeline": "two queries in flight on separate copy and compute streams",
    "gpu": "back to back on the device, without transfers",
    "coldl2": "back to back on the device, without transfers; the L2 cache is flushed before "
    "each query, which is not part of its time",
    "server": "queries arrive on a schedule; latency is counted from the scheduled time",
    "first": "load, first inference and time to steady state",
}
IMPORTED = "runs were imported from files of another tool; their settings are as recorded there."
SPANS = ("wall time", "sum of host times", "device stamps")
STATISTICS = (
    "Percentiles are interpolated between samples. Samples of one process are correlated, "
    "so intervals use effective samples (samples divided by their correlation time), "
    "and a percentile with too few effective samples is not shown. With several launches, the "
    f"{SAMPLE_LEVEL * 100:g} % interval of the median is a t-interval on the logarithms of their "
    "medians and applies to launches like these; with one, it lies between two order statistics "
    "and applies to this launch only. The standard deviation is that of the population (n)."
)
COLUMNS = {
    "host": "host time is measured on the host, from before the call to its completion",
    "latency": "latency is the sum of the H2D, GPU and D2H spans on the device, not host time",
    "enqueue": "enqueue is the host time to enqueue a query",
    "end_to_end": "end to end is from the start of H2D to the end of D2H, with queueing",
}


def make(runs: Sequence[Run]) -> list[doc.Section | None]:
    """Show the builds, the environments of the runs, and the methods of measurement."""
    facts = {label: facts_from_environment(run.record.environment) for label, run in labelled(runs)}
    names = list(dict.fromkeys(name for each in facts.values() for name in each))
    shared = [name for name in names if len({each.get(name) for each in facts.values()}) == 1]
    first = next(iter(facts.values()))
    blocks: list[doc.Block] = []
    if shared:
        cells = ((name, doc.Cell(first[name])) for name in shared)
        blocks.append(doc.key_values("environment", cells))
    if differing := [name for name in names if name not in shared]:
        rows = [(label, *map(each.get, differing)) for label, each in facts.items()]
        columns = [doc.column(name, name, place) for place, name in enumerate(("Run", *differing))]
        caption = "Differences between the runs."
        blocks.append(doc.table("environment_differences", rows, columns, caption=caption))
    commands = dict.fromkeys(run.record.environment.command for run in runs)
    codes = tuple(doc.Code(text) for text in commands if text)
    blocks += codes if len(codes) <= 4 else (doc.Details(f"{len(codes)} commands", codes),)
    # The methods, as prose for a paper.
    kinds = list(dict.fromkeys(protocol_of(run.record) for run in runs))
    words = "; ".join(f"{kind}: {PROTOCOLS[kind]}" for kind in kinds)
    protocols = f"All runs use the protocol {words}."
    if len(kinds) > 1:
        protocols = f"Numbers of different protocols are not comparable. {doc.capitalized(words)}."
    if count := sum(run.record.provenance == "imported" for run in runs):
        who = "All" if count == len(runs) else f"{text_from_count(count)} of {len(runs)}"
        protocols += f" {who} {IMPORTED}"
    seen = {name for run in runs for name in run.times.durations()}
    about = "; ".join(text for name, text in COLUMNS.items() if name in seen)
    sources = {summary_of(run).throughput_from for run in runs}
    spans = " or ".join(each for each in SPANS if each in sources)
    rate = f" Throughput is the number of queries divided by {spans}." if spans else ""
    paragraphs = (protocols, f"{doc.capitalized(about)}." if about else "", STATISTICS + rate)
    methods = doc.Text("\n\n".join(filter(None, paragraphs)))
    return [
        _build_section(runs),
        doc.optional_section("environment", "Environment", blocks),
        doc.Section("methods", "Methods", (methods,)),
    ]


def facts_from_environment(environment: Environment) -> dict[str, str]:
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


MOST_LAYERS = 24
MOST_NODES = 4


def _build_section(runs: Sequence[Run]) -> doc.Section | None:
    """Show the record of each build, and the layers that took longest to tune."""
    rows: list[tuple[str, LayerTuning]] = []
    records: dict[str, doc.KeyValues] = {}  # by engine
    for label, run in labelled(runs):
        build, trace = run.extra.get("build"), run.extra.get("build_trace")
        engine = run.record.spec.model.sha256 or run.record.spec.model.path
        if isinstance(build, Mapping) and engine not in records:
            pairs: list[tuple[str, doc.Cell | str]] = [("engine", label)]
            for key, value in list(flatten_facts(build))[:60]:
                text = shortened(value, length=120) if isinstance(value, str) else None
                cell = doc.Cell(value, text or value_text(key, value))
                pairs.append((title_of_key(key).replace(".", " · "), cell))
            records[engine] = doc.key_values(f"build_{len(records)}", pairs)
        layers = trace.layers if isinstance(trace, BuildTrace) else ()
        timed = filter(attrgetter("tried"), layers)
        tried = sorted(timed, key=attrgetter("tuning_s"), reverse=True)
        rows += [(label, each) for each in tried[:MOST_LAYERS]]
    blocks: list[doc.Block] = [_tactic_table(rows)] if rows else []
    return doc.optional_section("build", "Build", [*blocks, *list(records.values())[:8]])


def _tactic_table(rows: Sequence[tuple[str, LayerTuning]]) -> doc.Table:
    def chosen(row: tuple[str, LayerTuning]) -> str:
        tactic = row[1].chosen
        return shortened(tactic.name or tactic.id, length=80) if tactic else ""

    columns = (
        doc.column("engine", "Engine", lambda row: shortened(row[0], length=48)),
        doc.column("layer", "Layer", lambda row: shortened(row[1].name, length=80)),
        doc.column("runner", "Runner", lambda row: row[1].runner or ""),
        doc.column("tried", "Tactics tried", lambda row: row[1].tried, "count"),
        doc.column("spent_s", "Time spent", lambda row: row[1].tuning_s, "time"),
        doc.column("chosen", "Tactic chosen", chosen),
    )
    caption = (
        "The layers that took longest to tune. If the log does not contain the tuning time, it "
        "is the sum of one call per tactic."
    )
    return doc.table("build_tactics", rows, columns, caption=caption)


# ---- results of build, export and quantize


def document_from_artefact(artefact: Artefact) -> doc.Document:
    facts, asked = artefact.conditions, artefact.spec.precision
    flavour = facts.get("flavour")
    rtx = flavour is not None and flavour.value == "tensorrt_rtx"
    built = facts["precision"].value if "precision" in facts else None
    precision = str(built or (f"unknown, {asked} was requested" if asked else "unknown"))
    if "typing" in facts and facts["typing"].value == "weak":
        precision += " (weak: the builder chooses)"
    took, whole = (text_from_seconds(each) for each in (artefact.build_s, artefact.wall_s))
    version = artefact.tensorrt or "of an unknown version"
    pairs = {
        "engine": artefact.path,
        "size": f"{text_from_bytes(artefact.size_bytes)}, sha256 {artefact.sha256[:12]}",
        "built by": f"TensorRT{'-RTX' * rtx} {version}",
        "precision": precision,
        "built in": f"{took} ({whole} in total)",
        "other files": ", ".join(artefact.files) or "none",
    }
    found = [f"{each.severity} {each.code}: {each.message}" for each in artefact.findings]
    lines = (doc.Text(line, "unclear") for line in found)
    return doc.document_from_blocks("artefact", [doc.key_values("facts", pairs.items()), *lines])


def document_from_conversion(sidecar: Sidecar, *, size_bytes: int) -> doc.Document:
    """Describe an exported, cast or quantized ONNX file."""
    blocks: list[doc.Block] = [doc.key_values("facts", _conversion_facts(sidecar, size_bytes))]
    if sidecar.difference:
        caption = f"on {sidecar.compared_on}"
        blocks.append(doc.table("difference", sidecar.difference, _diff_columns(), caption=caption))
    warnings = list(sidecar.notes)
    if sidecar.unverified:
        warnings.append(f"not compared with its source: {sidecar.unverified}")
    for diff in sidecar.difference:
        if is_unusual(diff, precision=sidecar.precision or "fp32"):
            low = f"SQNR {diff.sqnr_db or 0:.1f} dB is low for {sidecar.precision}"
            what = f"{diff.nonfinite} values are not finite" if diff.nonfinite else diff.note or low
            warnings.append(f"{diff.name}: {what}")
    blocks += [doc.Text(line, "unclear") for line in warnings]
    return doc.document_from_blocks("artefact", blocks)


def _conversion_facts(sidecar: Sidecar, size_bytes: int) -> Iterator[tuple[str, str]]:
    how = " ".join(filter(None, (sidecar.method, sidecar.exporter)))
    yield "made", f"{sidecar.precision} by {how} in {text_from_seconds(sidecar.seconds, digits=2)}"
    size = text_from_bytes(size_bytes)
    yield "file", f"{size}, opset {sidecar.opset}, sha256 {sidecar.sha256[:12]}"
    if sidecar.changed:
        yield "changed", ", ".join(f"{count} {op}" for op, count in sidecar.changed.items())
    reasons: dict[str, list[str]] = {}
    for node, reason in sidecar.kept.items():
        reasons.setdefault(reason, []).append(node)
    for reason, nodes in reasons.items():
        more = f" and {len(nodes) - MOST_NODES} more" if len(nodes) > MOST_NODES else ""
        yield "kept", f"{', '.join(nodes[:MOST_NODES])}{more} ({reason})"
    data = sidecar.calibration
    if data is not None:
        batches = f"{data.batches} batch{'es' * (data.batches != 1)} of {data.batch}"
        yield "calibration", f"{data.items} items in {batches} from {data.source}, seed {data.seed}"
        if data.preprocessing:
            yield "images", describe_preparation(data.preprocessing)


def _diff_columns() -> Iterator[doc.Column]:
    def sqnr(diff: TensorDiff) -> doc.Cell:
        shown = doc.format_cell(diff.sqnr_db, ".1f dB")
        return doc.Cell(diff.sqnr_db, "exact") if diff.rel_l2 == 0 else shown

    def close_cell(diff: TensorDiff) -> doc.Cell:
        if diff.close is None:
            return doc.Cell()
        words = f"{diff.close * 100:.2f} % (rtol {diff.rtol:g}, atol {diff.atol:g})"
        return doc.Cell(diff.close, words)

    yield doc.column("output", "Output", "name", fit="shorten")
    yield doc.column("rel_l2", "Rel. L2", kind=".2e")
    yield doc.column("sqnr_db", "SQNR", sqnr, "right")
    yield doc.column("cosine", "Cosine", kind=".7f", rank=1)
    yield doc.column("max_abs", "Max |Δ|", kind=".3g", rank=2)
    yield doc.column("mean_abs", "Mean |Δ|", kind=".3g", rank=5)
    yield doc.column("close", "Close", close_cell, "right", rank=3)
    yield doc.column("nonfinite", "Not finite", kind="d", rank=4)
