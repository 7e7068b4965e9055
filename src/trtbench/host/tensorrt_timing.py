"""Timing caches: kernels timed once need not be timed again on the same GPU and version."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trtbench.domain.spec import Value
from trtbench.host.tensorrt import Abilities, version_numbers

if TYPE_CHECKING:
    from tensorrt import IBuilderConfig

MAGIC = b"ptrt"
"""How the caches of TensorRT 8.6 begin."""
_HEADER = struct.Struct("<4sIQQ")
"""Magic, two numbers, and the bytes that follow."""

Use = Literal["new", "hit", "partial", "refused"]


class CacheUse(Value, frozen=True, kw_only=True):
    """What a timing cache was worth for a build."""

    use: Use
    """new: there was none; hit: nothing had to be timed; partial: some; refused: not of here."""
    before_bytes: int | None
    after_bytes: int
    entries: int | None = None
    """Where the version tells."""

    @property
    def text(self) -> str:
        meanings = {
            "new": "made new, every kernel was timed",
            "hit": "reused, nothing had to be timed",
            "partial": "reused and added to",
            "refused": "of another TensorRT or GPU: every kernel was timed, the old one is kept",
        }
        return f"timing cache {meanings[self.use]}"


class TimingCache:
    """The cache of one build, attached to its configuration."""

    def __init__(self, config: IBuilderConfig, *, path: Path, abilities: Abilities) -> None:
        self._config = config
        self._path = path
        self._abilities = abilities
        data = path.read_bytes() if path.is_file() else b""
        self._before = len(data) if data else None
        self._refused = not (self._of_here(data) and self._attach(data))
        if self._refused:
            self._attach(b"")

    def _of_here(self, data: bytes) -> bool:
        """Look at the first bytes before TensorRT does, which may not survive what it cannot read.

        Later versions may begin otherwise; what they do not know is theirs to refuse.
        """
        if not data or not data.startswith(MAGIC):
            return not data or version_numbers(self._abilities.version) >= (10,)
        if len(data) < _HEADER.size:
            return False
        return int(_HEADER.unpack_from(data)[3]) == len(data) - _HEADER.size

    def _attach(self, data: bytes) -> bool:
        cache = self._config.create_timing_cache(data)
        if cache is None:
            return False
        self._cache = cache
        if data:
            nothing = self._config.create_timing_cache(b"")
            empty = bytes(nothing.serialize()) if nothing is not None else b""
            if bytes(cache.serialize()) == empty != data:
                return False  # taken without a word, and nothing of it kept
        return bool(self._config.set_timing_cache(cache, False))

    def save(self) -> CacheUse:
        """Write what is known now; a cache that did not fit is kept under another name."""
        data = bytes(self._cache.serialize())
        if self._refused:
            self._path.replace(self._path.with_name(f"{self._path.name}.old"))
        partial = self._path.with_name(f"{self._path.name}.part")
        partial.write_bytes(data)
        partial.replace(self._path)
        return CacheUse(
            use=self._use(len(data)),
            before_bytes=self._before,
            after_bytes=len(data),
            entries=self._entries(),
        )

    def _use(self, after: int) -> Use:
        if self._refused:
            return "refused"
        if self._before is None:
            return "new"
        return "hit" if after <= self._before else "partial"

    def _entries(self) -> int | None:
        if not self._abilities.has("ITimingCache.queryKeys"):
            return None
        try:
            return len(self._cache.queryKeys())
        except (RuntimeError, TypeError):  # only editable caches answer
            return None
