"""Output tensors: ``--exportOutput`` of every version."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trtbench.domain.samples import Column
from trtbench.errors import ParseError
from trtbench.trtexec._json import documents_from_json, number_from_value, parse_error

EXPECTED = 'the tensors of trtexec --exportOutput: [{"name", "dimensions", "values"}]'


@dataclass(frozen=True, eq=False, kw_only=True)
class OutputTensor:
    """One output of the last inference, as printed."""

    name: str
    dimensions: tuple[int, ...]
    """As printed: without the batch in TensorRT 7, so the values may be a multiple of it."""
    values: Column


def outputs_from_json(data: bytes | str, *, where: str) -> tuple[tuple[OutputTensor, ...], ...]:
    """Read every set of outputs of a file, in which several exports may follow one another."""
    documents = documents_from_json(data, where=where, expected=EXPECTED)
    return tuple(_tensors(each, index, where=where) for index, each in enumerate(documents))


def _tensors(value: object, index: int, *, where: str) -> tuple[OutputTensor, ...]:
    if not isinstance(value, list) or not value:
        raise _not_outputs(f"document {index + 1}", where=where)
    return tuple(_tensor(each, place, where=where) for place, each in enumerate(value))


def _tensor(value: object, index: int, *, where: str) -> OutputTensor:
    place = f"tensor {index + 1}"
    if not isinstance(value, dict) or not {"name", "values"} <= value.keys():
        raise _not_outputs(place, where=where)
    values = value["values"]
    if not isinstance(values, list):
        raise _not_outputs(f"{place}, values", where=where)
    return OutputTensor(
        name=str(value["name"]),
        dimensions=_dimensions(value.get("dimensions"), place, where=where),
        values=np.array([number_from_value(each) for each in values], np.float64),
    )


def _dimensions(value: object, place: str, *, where: str) -> tuple[int, ...]:
    """Read ``1x3x224x224``, an empty text for a scalar, or a list of numbers."""
    parts = value if isinstance(value, list) else str(value or "").split("x")
    try:
        return tuple(int(part) for part in parts if part != "")
    except (TypeError, ValueError, OverflowError):
        raise _not_outputs(f"{place}, dimensions", where=where) from None


def _not_outputs(place: str, *, where: str) -> ParseError:
    return parse_error(where, what="is not an output file", place=place, expected=EXPECTED)
