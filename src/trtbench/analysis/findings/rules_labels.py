"""Rules on labels: what was asked for against what ran: H46, H48, H49."""

from __future__ import annotations

from collections.abc import Iterator

from trtbench.analysis.contradictions import Contradiction, contradictions
from trtbench.analysis.findings.evidence import Evidence
from trtbench.analysis.findings.rule import Hit, Limits, Rule, rule

_REMEDIES = {
    "batch": "leave --batch out, or build or export with a dynamic batch",
    "precision": "trtbench build MODEL.onnx --precision, and measure that engine",
}


@rule(
    "H46",
    "ran otherwise than asked",
    severity="warning",
    when="batch, precision, shapes, protocol, streams, threads, transfers or spinning were asked "
    "for, and what ran had others, or nobody can tell; labels follow what ran",
    source="what the session or the program reports",
)
def asked_and_ran(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a property that was asked for is not one of what ran."""
    for each in contradictions(e.record) if e.record is not None else ():
        yield Hit(
            message=_sentence(each),
            evidence={"asked": each.asked, "ran": each.ran},
            remedy=_REMEDIES.get(each.what, f"leave the {each.what} out, or use another runtime"),
        )


def _sentence(each: Contradiction) -> str:
    if each.ran is None:
        return f"{each.what} {each.asked} was asked for, and nobody can tell what ran"
    return f"{each.what} {each.asked} was asked for, and {each.ran} ran"


@rule(
    "H48",
    "calibrated with other images than judged",
    severity="error",
    when="images for calibration were scaled, cut or normalised otherwise than those that accuracy "
    "is taken on",
    source="INT8 scales of ImageNet's mean 0 and deviation 1: top-1 43 % where 70 % is right",
)
def prepared_alike(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a network was calibrated for other inputs than it is judged on."""
    told = e.preparation
    if told is None or not told.calibrated or not told.judged:
        return
    keys = dict.fromkeys((*told.calibrated, *told.judged))
    other = [key for key in keys if told.calibrated.get(key) != told.judged.get(key)]
    if not other:
        return
    before, now = (
        ", ".join(f"{key} {side.get(key, 'none')}" for key in other)
        for side in (told.calibrated, told.judged)
    )
    yield Hit(
        message=f"{told.model} was calibrated with images prepared otherwise: {before} there, "
        f"{now} here",
        evidence={"calibrated": before, "judged": now},
        remedy="quantize or build again with the --task and the flags of this evaluation",
        concerns=told.model,
    )


@rule(
    "H49",
    "kept from a builder that crashed",
    severity="warning",
    when="trtexec built and saved the engine, said PASSED, and was ended by a signal while "
    "leaving; a fresh process loads and runs the engine",
    source="trtexec 8.6.0 with a timing cache on an H200: SIGSEGV after PASSED",
)
def crashed_builder(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when an engine was kept although its builder crashed."""
    if e.crashed is not None:
        yield Hit(
            message=f"trtexec {e.crashed} after it had said PASSED; a fresh process loads and runs "
            "the engine, so it was kept",
            evidence={"builder": e.crashed},
            remedy="--no-timing-cache, or another version of TensorRT",
        )


RULES: tuple[Rule, ...] = (asked_and_ran, prepared_alike, crashed_builder)
