"""The versioned JSON form of records."""

import re
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from trtbench.core.errors import InputError
from trtbench.core.jobs import Job
from trtbench.core.run import SCHEMA, AnyRecord
from trtbench.core.safety import check_id, clean_text, tag_from_text

T = TypeVar("T")

_NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_PREPARED: set[object] = set()
_PREPARING = threading.Lock()


def prepared_for_decoding(kind: type[T]) -> type[T]:
    """Return a type that msgspec (0.22) can decode in several threads without crashing."""
    if kind not in _PREPARED:
        with _PREPARING:
            msgspec.json.Decoder(kind)
            _PREPARED.add(kind)
    return kind


def json_from_value(value: object) -> bytes:
    """Return a value as indented JSON; control characters and bytes that are not UTF-8 escaped."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        data = msgspec.json.encode(map_texts(msgspec.to_builtins(value), clean_text, keys=True))
    if not data.isascii():
        control = re.compile("[\u007f-\u009f\u2028-\u202e\u2066-\u2069]")
        data = control.sub(lambda found: f"\\u{ord(found[0]):04x}", data.decode()).encode()
    return msgspec.json.format(data, indent=2) + b"\n"


def map_texts(tree: object, rewrite: Callable[[str], str], *, keys: bool = False) -> object:
    """Return a tree of plain values with every text rewritten, of keys only if asked."""
    if isinstance(tree, str):
        return rewrite(tree)
    if isinstance(tree, Mapping):
        pairs = ((str(key), map_texts(value, rewrite, keys=keys)) for key, value in tree.items())
        return {rewrite(key) if keys else key: value for key, value in pairs}
    if isinstance(tree, (list, tuple)):
        return [map_texts(value, rewrite, keys=keys) for value in tree]
    return tree


def value_from_json(data: bytes | str, kind: type[T], *, where: str) -> T:
    """Decode a value of a given type; an error names the path of a wrong field."""
    try:
        return msgspec.json.decode(data, type=prepared_for_decoding(kind))
    except _NOT_JSON as problem:
        name = getattr(kind, "__name__", "job")  # jobs are a union of types
        raise InputError(f"{where} is not a valid {name}: {problem}") from None


def job_from_json(data: bytes | str, *, where: str) -> Job:
    return value_from_json(data, Job, where=where)  # type: ignore[arg-type]


def record_from_json(data: bytes | str, *, where: str) -> AnyRecord:
    """Decode a run record; one with a newer schema is refused."""
    try:
        raw = msgspec.json.decode(data)
    except _NOT_JSON as problem:
        raise InputError(f"{where} is not a run record: {problem}") from None
    if not isinstance(raw, dict) or "kind" not in raw:
        raise InputError(f"{where} is not a run record: it has no 'kind'")
    schema = raw.get("schema", SCHEMA)
    if not isinstance(schema, int) or schema > SCHEMA:
        message = f"{where} was written by a newer trtbench"
        facts = {"its schema": schema, "newest known schema": SCHEMA}
        raise InputError(message, facts=facts, fix="pip install --upgrade trtbench")
    try:
        prepared_for_decoding(AnyRecord)  # type: ignore[arg-type]
        record: AnyRecord = msgspec.convert(raw, type=AnyRecord)
    except _NOT_JSON as problem:
        raise InputError(f"{where} is not a valid run record: {problem}") from None
    check_id(record.id, where=where)
    tags = tuple(map(tag_from_text, record.tags))
    return record if tags == record.tags else record.having(tags=tags)
