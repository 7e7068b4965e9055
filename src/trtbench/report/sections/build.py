"""How models were made: engines built, tactics tried, ONNX files converted.

Runs carry the record beside an engine as ``extra["build"]`` and what the log of its build says as
``extra["build_log"]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trtbench.analysis.onnx_graph import words_from_preparation
from trtbench.analysis.scores import is_unusual
from trtbench.core.results import Artefact, Sidecar, TensorDiff
from trtbench.core.run import Run, Scalar
from trtbench.core.units import (
    text_from_bytes,
    text_from_seconds,
)
from trtbench.report.document import (
    Block,
    Cell,
    Column,
    Document,
    KeyValues,
    Section,
    Table,
    Text,
    cell_of,
    column,
    document_from_blocks,
    key_values,
    section_of,
    table,
)
from trtbench.report.run_facts import flat_facts, named, shortened, title_of_key, value_text

ORDER = 85

MOST_ENGINES = 8
MOST_FACTS = 60
MOST_LETTERS = 120
MOST_LAYERS = 24
MOST_NODES = 4
NAME_LENGTH = 48


def make(runs: Sequence[Run]) -> Section | None:
    """List the facts of the record of each build, and the layers that took longest to tune."""
    rows: list[tuple[str, dict[str, Any]]] = []
    records: dict[str, KeyValues] = {}  # each engine once, by the first run of it
    for label, run in named(runs):
        build, log = run.extra.get("build"), run.extra.get("build_log")
        engine = run.record.spec.model.sha256 or run.record.spec.model.path
        if isinstance(build, Mapping) and engine not in records:
            facts = list(flat_facts(build))[:MOST_FACTS]
            pairs = [(title_of_key(key).replace(".", " · "), _fact(key, v)) for key, v in facts]
            records[engine] = key_values(f"build_{len(records)}", [("engine", label), *pairs])
        rows += _tactics(label, log) if isinstance(log, Mapping) else []
    blocks: list[Block] = [_tactic_table(rows)] if rows else []
    return section_of("build", "Build", [*blocks, *list(records.values())[:MOST_ENGINES]])


def _fact(key: str, value: Scalar) -> Cell:
    text = shortened(value, length=MOST_LETTERS) if isinstance(value, str) else None
    return Cell(value, text or value_text(key, value))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


# ---- the tactics of a build, from its verbose log


def _tactics(name: str, document: Mapping[str, object]) -> list[tuple[str, dict[str, Any]]]:
    """List the layers of ``build.metadata.json`` whose tactics took longest to try."""
    found = _mapping(document.get("build_trace")).get("layers")
    layers = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    tried = sorted((each for each in layers if each.get("tried")), key=lambda each: -cost_s(each))
    return [(name, each) for each in tried[:MOST_LAYERS]]


def cost_s(layer: Mapping[str, Any]) -> float:
    """Give the time spent on a layer or, unknown, that of one call of each tactic."""
    spent = _number(layer.get("spent_s"))
    return spent if spent is not None else (_number(layer.get("timed_ms")) or 0.0) / 1e3


def tried_of(layer: Mapping[str, Any]) -> int:
    """Count the tactics that were tried for a layer, those of operations inside of it too."""
    return int((_number(layer.get("tried")) or 0) + (_number(layer.get("tried_within")) or 0))


def _tactic_table(rows: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    def chosen(row: tuple[str, dict[str, Any]]) -> str:
        tactic = _mapping(row[1].get("chosen"))
        return shortened(str(tactic.get("name") or tactic.get("id") or ""), length=80)

    columns = (
        column("engine", "Engine", lambda row: shortened(row[0], length=NAME_LENGTH)),
        column("layer", "Layer", lambda row: shortened(str(row[1]["name"]), length=80)),
        column("runner", "Runner", lambda row: str(row[1].get("runner") or "")),
        column("tried", "Tactics tried", lambda row: tried_of(row[1]), "count"),
        column("spent_s", "Time spent", lambda row: cost_s(row[1]), "time"),
        column("chosen", "Tactic chosen", chosen),
    )
    caption = (
        "The layers whose tactics took longest to try. Where the log does not say how long "
        "that was, one call of every tactic is counted."
    )
    return table("build_tactics", rows, columns, caption=caption)


# ---- what build, export and quantize made


def document_from_artefact(artefact: Artefact) -> Document:
    """Describe an engine that was built."""
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
        "built in": f"{took} (with everything {whole})",
        "other files": ", ".join(artefact.files) or "none",
    }
    found = [f"{each.severity} {each.code}: {each.message}" for each in artefact.findings]
    lines = (Text(line, "unclear") for line in found)
    return document_from_blocks("artefact", [key_values("facts", pairs.items()), *lines])


def document_from_conversion(sidecar: Sidecar, *, size_bytes: int) -> Document:
    """Describe an ONNX file that was exported, cast or quantized."""
    blocks: list[Block] = [key_values("facts", _conversion(sidecar, size_bytes))]
    if sidecar.difference:
        caption = f"on {sidecar.compared_on}"
        blocks.append(table("difference", sidecar.difference, _diff_columns(), caption=caption))
    warnings = list(sidecar.notes)
    if sidecar.unverified:
        warnings.append(f"not compared with its source: {sidecar.unverified}")
    for diff in sidecar.difference:
        if is_unusual(diff, precision=sidecar.precision or "fp32"):
            low = f"SQNR {diff.sqnr_db or 0:.1f} dB is low for {sidecar.precision}"
            what = f"{diff.nonfinite} values are not finite" if diff.nonfinite else diff.note or low
            warnings.append(f"{diff.name}: {what}")
    blocks += [Text(line, "unclear") for line in warnings]
    return document_from_blocks("artefact", blocks)


def _conversion(sidecar: Sidecar, size_bytes: int) -> Iterator[tuple[str, str]]:
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
        batches = f"{data.batches} batches of {data.batch}"
        yield "calibration", f"{data.items} items in {batches} from {data.source}, seed {data.seed}"
        if data.preprocessing:
            yield "images", words_from_preparation(data.preprocessing)


def _diff_columns() -> Iterator[Column]:
    def sqnr(diff: TensorDiff) -> Cell:
        return Cell(diff.sqnr_db, "exact") if diff.rel_l2 == 0 else cell_of(diff.sqnr_db, ".1f dB")

    def close(diff: TensorDiff) -> Cell:
        if diff.close is None:
            return Cell()
        words = f"{diff.close * 100:.2f} % (rtol {diff.rtol:g}, atol {diff.atol:g})"
        return Cell(diff.close, words)

    yield column("output", "Output", "name", fit="shorten")
    yield column("rel_l2", "Rel. L2", kind=".2e")
    yield column("sqnr_db", "SQNR", sqnr, "right")
    yield column("cosine", "Cosine", kind=".7f", rank=1)
    yield column("max_abs", "Max |Δ|", kind=".3g", rank=2)
    yield column("mean_abs", "Mean |Δ|", kind=".3g", rank=5)
    yield column("close", "Close", close, "right", rank=3)
    yield column("nonfinite", "Not finite", kind="d", rank=4)
