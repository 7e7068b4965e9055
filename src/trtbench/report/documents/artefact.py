"""What building, exporting and quantizing made, and how far it is from its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trtbench.analysis.numeric import is_unusual
from trtbench.analysis.onnx_stamp import words_from_preparation
from trtbench.domain.artefact import Artefact
from trtbench.domain.conversion import Sidecar, TensorDiff
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Heading,
    KeyValues,
    Table,
    Text,
    document_from_blocks,
    table_from_rows,
)
from trtbench.units import text_from_bytes, text_from_seconds

MOST_NODES = 4
DIFF_HEADINGS = (
    Heading(key="output", title="Output", fit="shorten"),
    Heading(key="rel_l2", title="Rel. L2", align="right"),
    Heading(key="sqnr_db", title="SQNR", align="right"),
    Heading(key="cosine", title="Cosine", align="right", rank=1),
    Heading(key="max_abs", title="Max |Δ|", align="right", rank=2),
    Heading(key="mean_abs", title="Mean |Δ|", align="right", rank=5),
    Heading(key="close", title="Close", align="right", rank=3),
    Heading(key="nonfinite", title="Not finite", align="right", rank=4),
)


def document_from_artefact(artefact: Artefact) -> Document:
    """Describe an engine that was built."""
    times = (text_from_seconds(each) for each in (artefact.build_s, artefact.wall_s))
    facts = {
        "engine": artefact.path,
        "size": f"{text_from_bytes(artefact.size_bytes)}, sha256 {artefact.sha256[:12]}",
        "built by": _version(artefact),
        "precision": _precision(artefact),
        "built in": "{} (with everything {})".format(*times),
        "beside it": ", ".join(artefact.files) or "nothing",
    }
    found = [f"{each.severity} {each.code}: {each.message}" for each in artefact.findings]
    return _document(facts.items(), [Text(text=line, tone="unclear") for line in found])


def document_from_conversion(sidecar: Sidecar, *, size_bytes: int) -> Document:
    """Describe an ONNX file that was exported, cast or quantized."""
    blocks: list[Block] = []
    if sidecar.difference:
        blocks.append(_diffs(sidecar.difference, caption=f"on {sidecar.compared_on}"))
    blocks += [Text(text=line, tone="unclear") for line in _warnings(sidecar)]
    return _document(_conversion(sidecar, size_bytes), blocks)


def _document(facts: Iterable[tuple[str, str]], blocks: Iterable[Block]) -> Document:
    pairs = tuple((name, Cell(text=text)) for name, text in facts)
    return document_from_blocks("artefact", [KeyValues(id="facts", pairs=pairs), *blocks])


def _precision(artefact: Artefact) -> str:
    """Name what was built, with the word ``weak`` where the builder chose by itself."""
    facts = artefact.conditions
    built = facts["precision"].value if "precision" in facts else None
    asked = artefact.spec.precision
    shown = str(built or (f"unknown, {asked} was asked for" if asked else "unknown"))
    weak = "typing" in facts and facts["typing"].value == "weak"
    return f"{shown} (weak: the builder chooses)" if weak else shown


def _version(artefact: Artefact) -> str:
    flavour = artefact.conditions.get("flavour")
    rtx = flavour is not None and flavour.value == "tensorrt_rtx"
    return f"TensorRT{'-RTX' * rtx} {artefact.tensorrt or 'of an unknown version'}"


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


def _warnings(sidecar: Sidecar) -> Iterator[str]:
    """Say what must not be overlooked."""
    yield from sidecar.notes
    if sidecar.unverified:
        yield f"not compared with its source: {sidecar.unverified}"
    for diff in sidecar.difference:
        if is_unusual(diff, precision=sidecar.precision or "fp32"):
            low = f"SQNR {diff.sqnr_db or 0:.1f} dB is low for {sidecar.precision}"
            what = f"{diff.nonfinite} values are not finite" if diff.nonfinite else diff.note or low
            yield f"{diff.name}: {what}"


def _diffs(diffs: Iterable[TensorDiff], *, caption: str) -> Table:
    rows = [_diff(diff) for diff in diffs]
    return table_from_rows("difference", headings=DIFF_HEADINGS, rows=rows, caption=caption)


def _diff(diff: TensorDiff) -> tuple[Cell | str, ...]:
    close = None if diff.close is None else f"{diff.close * 100:.2f} %"
    tolerance = f" (rtol {diff.rtol:g}, atol {diff.atol:g})" if close else ""
    sqnr = None if diff.sqnr_db is None else f"{diff.sqnr_db:.1f} dB"
    return (
        diff.name,
        _number(diff.rel_l2, ".2e"),
        Cell(value=diff.sqnr_db, text="exact" if diff.rel_l2 == 0 else sqnr),
        _number(diff.cosine, ".7f"),
        _number(diff.max_abs, ".3g"),
        _number(diff.mean_abs, ".3g"),
        Cell(value=diff.close, text=None if close is None else close + tolerance),
        _number(diff.nonfinite, "d"),
    )


def _number(value: float | None, form: str) -> Cell:
    return Cell(value=value, text=None if value is None else f"{value:{form}}")
