"""How far the integers that a model is fed may go: rows of a table, such as the words it knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from trtbench.domain.spec import ModelRef, TensorSpec
from trtbench.errors import InputError
from trtbench.models.onnx_outline import outline_of
from trtbench.models.sidecar import source_of

_WHOLE = ("int", "uint")


def index_limits(model: ModelRef, tensors: Iterable[TensorSpec] | None = None) -> Mapping[str, int]:
    """Count the rows that inputs pick from, by name, as far as the ONNX file tells.

    The file of an engine is the one that the record beside it names. Where the inputs are known
    and none holds integers nothing is read.
    """
    if tensors is not None and not any(each.dtype.startswith(_WHOLE) for each in tensors):
        return {}
    source = source_of(model)
    if source is None:
        return {}
    try:
        return outline_of(Path(source.path)).index_limits
    except InputError:  # whoever loads the file says what is wrong with it
        return {}
