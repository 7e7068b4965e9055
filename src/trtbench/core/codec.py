"""The versioned JSON form of records."""

from __future__ import annotations

import re
import threading
from typing import TypeVar

import msgspec

from trtbench.core.errors import InputError
from trtbench.core.jobs import Job
from trtbench.core.run import SCHEMA, AnyRecord
from trtbench.core.safety import check_id, clean_text, tag_from_text

T = TypeVar("T")

_NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_LEARNED: set[object] = set()
_LEARNING = threading.Lock()


def learned(kind: type[T]) -> type[T]:
    """Have msgspec look at a kind first: threads that do so at the same time crash (0.22)."""
    if kind not in _LEARNED:
        with _LEARNING:
            msgspec.json.Decoder(kind)
            _LEARNED.add(kind)
    return kind


def json_from_value(value: object) -> bytes:
    """Write any value as readable JSON; what steers terminals or is not UTF-8 is escaped."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_cleaned(msgspec.to_builtins(value)))
    if not data.isascii():
        steering = re.compile("[\u007f-\u009f\u2028-\u202e\u2066-\u2069]")
        data = steering.sub(lambda found: f"\\u{ord(found[0]):04x}", data.decode()).encode()
    return msgspec.json.format(data, indent=2) + b"\n"


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(name)): _cleaned(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(inner) for inner in value]
    return value


def value_from_json(data: bytes | str, kind: type[T], *, where: str) -> T:
    """Read a value of a known kind; a wrong field is named by its path."""
    try:
        return msgspec.json.decode(data, type=learned(kind))
    except _NOT_JSON as problem:
        raise InputError(f"{where} is not a valid {kind.__name__}: {problem}") from None


def job_from_json(data: bytes | str, *, where: str) -> Job:
    try:
        return msgspec.json.decode(data, type=learned(Job))  # type: ignore[arg-type]
    except _NOT_JSON as problem:
        raise InputError(f"{where} is not a valid job: {problem}") from None


def record_from_json(data: bytes | str, *, where: str) -> AnyRecord:
    """Read a run record; one of a newer schema is refused."""
    try:
        raw = msgspec.json.decode(data)
    except _NOT_JSON as problem:
        raise InputError(f"{where} is not a run record: {problem}") from None
    if not isinstance(raw, dict) or "kind" not in raw:
        raise InputError(f"{where} is not a run record: it has no 'kind'")
    schema = raw.get("schema", SCHEMA)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise InputError(
            f"{where} was written by a newer trtbench",
            facts={"its schema": schema, "known here": SCHEMA},
            fix="pip install --upgrade trtbench",
        )
    try:
        record: AnyRecord = msgspec.convert(raw, type=learned(AnyRecord))  # type: ignore[arg-type]
    except _NOT_JSON as problem:
        raise InputError(f"{where} is not a valid run record: {problem}") from None
    check_id(record.id, where=where)
    tags = tuple(map(tag_from_text, record.tags))
    return record if tags == record.tags else record.having(tags=tags)
