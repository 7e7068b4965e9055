"""What was asked for and ran otherwise, property by property."""

from __future__ import annotations

from trtbench.domain.result import RunRecord, Scalar, known_value, precision_of
from trtbench.domain.spec import RunSpec, Value

GRAPH = "cuda_graph"
_CHECKED = ("protocol", "streams", "threads", "transfers", "spin_wait", GRAPH)
"""Properties of a run that sessions and programs tell by the name they are asked for."""


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
        *((key, _asked(spec, key), known_value(record.conditions.get(key))) for key in _CHECKED),
    ]
    silent = _CHECKED if record.provenance == "measured" else (*_CHECKED, "batch", "precision")
    return tuple(
        Contradiction(what=what, asked=str(asked), ran=None if value is None else str(value))
        for what, asked, value in found
        if asked is not None and asked != value and not (value is None and what in silent)
    )


def _asked(spec: RunSpec, key: str) -> Scalar:
    value: Scalar = getattr(spec, key)
    if key == GRAPH:  # one that fell back has a rule of its own
        return False if value == "off" else None
    return value
