"""Texts that are packed: by gzip, bzip2 or xz, and the parts of a mail."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from email.message import Message

MOST_UNPACKED = 512 << 20
"""Bytes that are unpacked of one file; a small file may say that it holds far more."""

_MAGIC = {b"\x1f\x8b\x08": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "lzma"}
_HEADERS = re.compile(
    rb"(?:[A-Za-z][A-Za-z0-9-]{1,60}:[^\n]{0,2000}\n(?:[ \t][^\n]{0,2000}\n){0,60}){2,200}\r?\n"
)
_NESTED = re.compile(rb"multipart/|message/", re.IGNORECASE)
MOST_NESTED = 50
"""Mails within mails; those that people write have a handful."""
_PARTS = re.compile(rb"^(?:Content-Transfer-Encoding|Content-Type|MIME-Version):", re.I | re.M)


def unpacked(stream: BinaryIO, *, most: int | None = None) -> Unpacked | None:
    """Open what a packed stream holds, if it is one; the place in other streams stays."""
    if not stream.seekable():
        return None
    begin = stream.tell()
    head = stream.read(6)
    stream.seek(begin)
    name = next((each for magic, each in _MAGIC.items() if head.startswith(magic)), None)
    return None if name is None else Unpacked(stream, name, most)


class Unpacked(io.RawIOBase):
    """What a packed stream holds, up to where it is damaged or too long."""

    def __init__(self, packed: BinaryIO, kind: str, most: int | None) -> None:
        self._packed, self._kind, self._most = packed, kind, most
        self._begin = packed.tell()
        self._open()

    def _open(self) -> None:
        import bz2
        import gzip
        import lzma

        self._packed.seek(self._begin)
        opening = {"gzip": gzip.open, "bz2": bz2.open, "lzma": lzma.open}[self._kind]
        self._inner: BinaryIO | None = opening(self._packed, "rb")  # type: ignore[operator]
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        import lzma

        left = (self._most or MOST_UNPACKED) - self._at
        wanted, pieces = left if size < 0 else min(size, left), []
        while wanted > 0 and self._inner is not None:
            try:
                piece = self._inner.read1(wanted)  # type: ignore[attr-defined]
            except (OSError, EOFError, ValueError, MemoryError, zlib.error, lzma.LZMAError):
                self._inner = None  # what came before is a log all the same
                break
            if not piece:
                break
            pieces.append(piece)
            wanted -= len(piece)
        data = b"".join(pieces)
        self._at += len(data)
        return data

    @property
    def is_damaged(self) -> bool:
        """Whether reading came to a place from which on nothing can be unpacked."""
        return self._inner is None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("only from the beginning")
        if offset < self._at or self._inner is None:
            self._open()
        while self._at < offset and self.read(min(1 << 20, offset - self._at)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def is_mail(head: bytes) -> bool:
    """Say whether a text is a mail whose parts are written in a code of their own."""
    match = _HEADERS.match(head)
    return match is not None and _PARTS.search(match[0]) is not None


def texts_of_mail(data: bytes) -> Iterator[tuple[str, bool]]:
    """List the texts of a mail, and whether each is a page; of one text in two forms the plain."""
    import email
    from email.errors import MessageError
    from email.policy import compat32

    whole = (data.decode("utf-8", "replace"), False)
    if len(_NESTED.findall(data)) > MOST_NESTED:
        yield whole
        return
    try:
        message = email.message_from_bytes(data, policy=compat32)
        parts = [part for part in message.walk() if part.get_content_maintype() == "text"]
        plain = [part for part in parts if part.get_content_subtype() != "html"]
        texts = [(_text_of(part), part.get_content_subtype() == "html") for part in plain or parts]
    except (MessageError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        yield whole  # Python's own reader stumbles over many a damaged mail
        return
    yield from texts


def _text_of(part: Message) -> str:
    content = part.get_payload(decode=True)
    data = content if isinstance(content, bytes) else b""
    try:
        return data.decode(part.get_content_charset("utf-8"), "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")
