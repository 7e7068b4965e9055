"""Rules on labels: what was asked for against what ran: H46, H48 to H51."""

from __future__ import annotations

from collections.abc import Iterator

from trtbench.analysis.findings.evidence import Evidence
from trtbench.analysis.findings.rule import Hit, Limits, rule
from trtbench.domain.ran import is_passed_on, options_of
from trtbench.domain.result import RunRecord, Scalar, Severity, known_value, precision_of
from trtbench.domain.spec import RunSpec, Value
from trtbench.domain.variables import variable_of, variables_of

GRAPH = "cuda_graph"
_CHECKED = ("protocol", "streams", "threads", "transfers", "spin_wait", GRAPH, "gap_s")
"""Properties of a run that sessions and programs tell by the name they are asked for."""
_REMEDIES = {
    "batch": "leave --batch out, or build or export with a dynamic batch",
    "precision": "trtbench build MODEL.onnx --precision, and measure that engine",
}


class Contradiction(Value, frozen=True, kw_only=True):
    """A property that was asked for and ran otherwise."""

    what: str
    """``batch``, ``precision``, ``shape``, ``protocol``, ..."""
    asked: str
    ran: str | None
    """``None``: nobody can tell."""


def contradictions(record: RunRecord) -> tuple[Contradiction, ...]:
    """List what was asked for and ran otherwise, or ran nobody knows how."""
    spec = record.spec
    ran = {tensor.name: "x".join(map(str, tensor.shape)) for tensor in record.inputs}
    found = [
        ("batch", spec.batch, record.batch),
        ("precision", spec.precision, precision_of(record)),
        *(
            (f"shape of {name}", "x".join(map(str, shape)), ran.get(name))
            for name, shape in spec.shapes.items()
            if record.inputs
        ),
        *(
            (key, _asked(spec, key), known_value(record.conditions.get(key)))
            for key in _CHECKED
            if not is_passed_on(record, key)
        ),
        *((key, value, options_of(record)[key]) for key, value in spec.options.items()),
    ]
    silent = _CHECKED if record.provenance == "measured" else (*_CHECKED, "batch", "precision")
    return tuple(
        Contradiction(what=what, asked=str(asked), ran=None if value is None else str(value))
        for what, asked, value in found
        if asked is not None and asked != value and not (value is None and what in silent)
    )


def _asked(spec: RunSpec, key: str) -> Scalar:
    value: Scalar = getattr(spec, key)
    if key == "protocol" and not spec.transfers and value in ("pipeline", "gpu"):
        return None  # they differ in the graph alone, which is looked at by itself
    if key == GRAPH:  # one that fell back has a rule of its own
        return False if value == "off" else None
    return value


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
    # What one side does not tell may be the same, and another task may prepare alike.
    known = {*told.calibrated} & {*told.judged} - {"task"}
    if not known.intersection(other):
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


@rule(
    "H50",
    "scores without some items",
    severity="warning",
    when="files of a data set could not be read and were left out: scores are about the rest",
    source="Pillow's own error on each file",
)
def items_left_out(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when a model was not judged on all items of its data."""
    told = e.unreadable
    if told is not None and told.count:
        yield Hit(
            message=f"{told.count} of {told.items} items could not be read and are not in the "
            f"scores: {told.example} ({told.reason})",
            evidence={"unreadable": told.count, "items": told.items},
            remedy="repair them, or take them out of the folder",
            concerns=told.model,
        )


@rule(
    "H51",
    "set by the environment",
    severity="warning",
    when="a variable of the environment changes what is computed or what a time means "
    "(NVIDIA_TF32_OVERRIDE, CUDA_LAUNCH_BLOCKING, ORT_TENSORRT_*, ...); a note where it only "
    "sets threads or memory",
    source="the documentation of CUDA, cuDNN, oneDNN, OpenMP, ONNX Runtime and PyTorch",
)
def set_by_environment(e: Evidence, at: Limits) -> Iterator[Hit]:
    """Fire when libraries were told more than any flag of the run shows."""
    told = variables_of(e.record) if e.record is not None else {}
    known = [(each, f"{name}={told[name]}") for name in told if (each := variable_of(name))]
    kinds: tuple[tuple[bool, Severity], ...] = ((True, "warning"), (False, "note"))
    for decides, severity in kinds:
        found = [(each, text) for each, text in known if each.decides is decides]
        if not found:
            continue
        effects = "; ".join(f"{text} ({each.effect})" for each, text in found)
        yield Hit(
            message=f"the environment sets {effects}",
            evidence={"variables": " ".join(text for _, text in found)},
            remedy="unset them, or set them wherever the model is used too",
            severity=severity,
        )
