"""Reads uncompressed tar files that somebody else made."""

import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO

_MOST_HEADER_BYTES, _MOST_READ_BYTES = 64 << 10, 16 << 20


def tar_members(path: Path) -> Iterator[tuple[tarfile.TarInfo, Callable[[], IO[bytes] | None]]]:
    """Yield the members of a tar file, each with a function that opens its content.

    Damage, and a header of more than 64 KiB, is a ``TarError``, ``ValueError`` or RecursionError.
    """
    with open(path, "rb") as file:
        careful = _Careful(file)
        with tarfile.open(fileobj=careful, mode="r:") as archive:  # type: ignore[call-overload]
            while each := archive.next():
                careful.most = _MOST_READ_BYTES
                yield each, partial(archive.extractfile, each)
                careful.most = _MOST_HEADER_BYTES


def is_plain(member: tarfile.TarInfo) -> bool:
    """Whether a member is a file; a sparse one states a large size and holds nothing."""
    return member.isreg() and not member.issparse()


class _Careful:
    """A tar file that is read in pieces of bounded size: ``most`` bytes at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.most = file, _MOST_HEADER_BYTES
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self.most:
            raise tarfile.ReadError("a header that is too long")
        return self._file.read(size)
