"""What trtbench writes into a converted model, so that it can be told apart wherever it goes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trtbench.domain.result import Scalar

PREFIX = "trtbench."
RANDOM = "random"
RANDOM_DATA = "random data"
"""What every note about such scales says, on whatever is made from them."""

PREPARATION = "preparation"
"""How images for calibration were prepared, as JSON."""

KEYS = (
    "step", "precision", "method", "calibration", "calibration_sha256", "source_sha256",
    PREPARATION,
)  # fmt: skip
"""In metadata_props, each with the prefix."""


def stamp_from_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Make what a conversion wrote, without the prefix; empty for any other model."""
    return {key: metadata[PREFIX + key] for key in KEYS if metadata.get(PREFIX + key) is not None}


def text_from_preparation(facts: Mapping[str, object]) -> str:
    """Write how images were prepared as one text."""
    return msgspec.json.encode(dict(facts), order="sorted").decode()


def preparation_from_text(text: object) -> dict[str, Scalar]:
    """Read that text back; anything else tells nothing."""
    try:
        return msgspec.json.decode(str(text), type=dict[str, Scalar])
    except msgspec.MsgspecError:
        return {}


def words_from_preparation(facts: Mapping[str, object]) -> str:
    """Write how images were prepared for people to read."""
    return ", ".join(f"{key} {value}" for key, value in facts.items())


def notes_from_metadata(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Say what whoever uses the model's numbers must know of how it was made."""
    stamp = stamp_from_metadata(metadata)
    if stamp.get("calibration") == RANDOM:
        return (random_note(stamp.get("precision", "int8")),)
    return ()


def random_note(precision: str) -> str:
    """Tell what scales from random data are good for."""
    return f"{precision} calibrated with {RANDOM_DATA}: speed is meaningful, accuracy is not"
