"""TensorRT versions: how to parse them, the flags trtexec has in each, and engine headers."""

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from trtbench.core.errors import ParseError, UnavailableError, UsageError, near_miss
from trtbench.core.spec import Value
from trtbench.data import data_rows

_DOTTED = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,6}))?")


def version_from_digits(digits: str) -> str | None:
    """Return the version in a banner: 8601 is 8.6.1, 8510 is 8.5.10, and 100300 is 10.3.0."""
    if not digits.isascii() or not digits.isdecimal() or not 4 <= len(digits) <= 6:
        return None
    number = int(digits)
    major = number // (1000 if len(digits) == 4 else 10000)
    minor = number // 100 % (10 if len(digits) == 4 else 100)
    return f"{major}.{minor}.{number % 100}"


def version_from_text(text: str) -> str | None:
    """Return the version in a text with dots or with the digits of a banner."""
    match = _DOTTED.match(text.strip())
    if match:
        return ".".join(part for part in match.groups() if part is not None)
    return version_from_digits(text.strip())


def version_key(version: str | None) -> tuple[int, ...] | None:
    """Return a version as numbers that can be compared; ``None`` if it is not known."""
    match = _DOTTED.match(version or "")
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def number(value: object) -> float | None:
    """Return a finite number or numeric text as a float; anything else is ``None``."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


_BANNER = re.compile(r"&&&& [A-Z]{6,7} \S+ \[TensorRT v(\d{4,6})\]")
_FLAG = re.compile(r"--[A-Za-z][A-Za-z0-9]{1,60}")

FLAG_VERSIONS: dict[str, tuple[str, str | None]] = {
    flag: (first, last or None) for flag, first, last in data_rows("flags.txt")
}
"""Flags by the first TensorRT whose trtexec has them, and the last in which they work."""

OTHER_FLAGS = {
    "--consistency", "--deploy", "--heuristic", "--int4", "--model", "--output", "--preview",
    "--restricted", "--safe", "--threads", "--uff",
}  # fmt: skip
"""Flags that look like those of other programs, and that trtbench does not use."""


class TrtexecAbilities(Value, frozen=True, kw_only=True):
    """The flags that work in one version of trtexec."""

    version: str | None = None
    flags: frozenset[str] = frozenset()
    listed: bool = False  # whether these are all flags, as --help lists them

    def has(self, flag: str) -> bool:
        """Whether the flag exists and has an effect."""
        last = FLAG_VERSIONS.get(flag, ("", None))[1]
        ignored = self.has_inverted_defaults and (last or "").startswith("10.")
        return flag in self.flags and not ignored

    @property
    def has_inverted_defaults(self) -> bool:
        """Whether no transfers, CUDA graph and spin-wait are the defaults, as in TensorRT 11."""
        if self.flags:
            return "--includeDataTransfers" in self.flags
        return self.at_least(11) is True

    @property
    def name(self) -> str:
        return f"TensorRT {self.version}" if self.version else "this version of trtexec"

    def at_least(self, *version: int) -> bool | None:
        """Whether the version is at least the given one; ``None`` if it is not known."""
        key = version_key(self.version)
        return None if key is None else key >= version

    def refuse_unknown_flags(self, arguments: Sequence[str]) -> None:
        """Raise an error for a flag that no trtexec has; the fix is the nearest one."""
        known = (*sorted(self.flags), *FLAG_VERSIONS, "--explicitBatch", "--batch", "--maxBatch")
        for each in arguments:
            flag = each.partition("=")[0]
            if self.listed and flag.startswith("--") and flag not in known:
                guess = near_miss(flag, known)
                fix = f"did you mean {guess}?" if guess else f"leave {flag} out"
                raise UsageError(f"trtexec of {self.name} has no flag {flag}", fix=fix)

    def require(self, flag: str, *, what: str, fix: str | None = None) -> str:
        """Return the flag, or raise an error that names the versions that have it."""
        if self.has(flag):
            return flag
        what = f"{what} cannot be expressed for trtexec of {self.name}"
        raise UsageError(what, facts={"flag": flag, "needs": versions_with(flag)}, fix=fix)


def versions_with(flag: str) -> str:
    """Return text that names the versions whose trtexec has a flag."""
    if flag not in FLAG_VERSIONS:
        return "a trtexec whose --help lists it"
    first, last = FLAG_VERSIONS[flag]
    if last is None:
        return f"TensorRT {first} or later"
    return f"TensorRT {first} to {last.removesuffix('.99')}"


def abilities_from_help(text: str | bytes, *, where: str = "trtexec --help") -> TrtexecAbilities:
    """Return the flags listed in a ``--help`` text, and the version if its banner has one."""
    printed = text if isinstance(text, str) else text.decode("utf-8", "replace")
    banner = _BANNER.search(printed)
    flags: set[str] = set()
    for line in printed.splitlines():
        if line.lstrip().startswith("--"):
            flags.update(_FLAG.findall(line.lstrip().split("  ", 1)[0][:200]))
    if not flags:
        facts = {"expected": "lines such as '  --loadEngine=<file>   ...'"}
        raise ParseError(f"{where} lists no flags", facts=facts)
    version = version_from_digits(banner[1]) if banner else None
    return TrtexecAbilities(version=version, flags=frozenset(flags), listed=True)


def abilities_of_version(version: str) -> TrtexecAbilities:
    """Return the flags that work in a version, for when trtexec is not installed."""
    key = version_key(version)
    if key is None:
        raise UsageError(f"{version!r} is not a TensorRT version", fix="write it like 10.9")
    flags = frozenset(
        flag
        for flag, (first, last) in FLAG_VERSIONS.items()
        if (version_key(first) or ()) <= key and (last is None or key <= (version_key(last) or ()))
    )
    return TrtexecAbilities(version=version, flags=flags)


ASSUMED = "10.9"  # version to write a command for when trtexec is not installed


class Target(NamedTuple):
    """The program a command is for, its flags, and a note for readers of the command."""

    abilities: TrtexecAbilities
    binary: str
    note: str | None = None


def target_from_options(
    options: Mapping[str, str], *, find: Callable[[str | None], str], ask: Callable[[str], str]
) -> Target:
    """Return the target for the options ``binary`` and ``version``; trtexec may be missing."""
    binary, version = options.get("binary"), options.get("version")
    try:
        found = find(binary)
    except UnavailableError:
        note = f"# trtexec is not installed here: for TensorRT {version or ASSUMED}"
        hint = "" if version else " (another: --opt version=11.1)"
        return Target(abilities_of_version(version or ASSUMED), binary or "trtexec", note + hint)
    if version is not None:
        return Target(abilities_of_version(version), found, f"# for TensorRT {version}")
    return Target(abilities_from_help(ask(found), where=f"{found} --help"), found)


HEADER_BYTES = 64

Flavour = Literal["tensorrt", "tensorrt_rtx"]

_FLAVOURS: dict[bytes, Flavour] = {b"ftrt": "tensorrt", b"vtrt": "tensorrt_rtx"}
_RTX_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
"""GPUs by bit of the mask in a TensorRT-RTX plan, from the lowest; not documented."""


class PlanHeader(Value, frozen=True, kw_only=True):
    """The header of an engine file; a valid header does not mean that the engine loads."""

    flavour: Flavour
    version: str | None  # major, minor, patch and build; `None` if all are zero
    plan_bytes: int | None = None
    weight_bytes: int | None = None
    compute_capabilities: tuple[str, ...] = ()


def flavour_of(head: bytes) -> Flavour | None:
    """Return the flavour of TensorRT an engine is for; ``None`` if the file is not an engine."""
    return _FLAVOURS.get(bytes(head[:4]))


def plan_from_file(path: Path, *, where: str) -> PlanHeader:
    with open(path, "rb") as file:
        return plan_from_bytes(file.read(HEADER_BYTES), where=where)


def plan_from_bytes(head: bytes, *, where: str) -> PlanHeader:
    flavour = flavour_of(head)
    needed = HEADER_BYTES if flavour == "tensorrt_rtx" else 28
    if flavour is None or len(head) < needed:
        facts = {
            "file": where,
            "place": "byte 0" if flavour is None else f"byte {len(head)}",
            "expected": "an engine that begins with ftrt (TensorRT) or vtrt (TensorRT-RTX)",
            "found": repr(bytes(head[:8])) if flavour is None else f"{len(head)} bytes",
        }
        what = "is not an engine" if flavour is None else "is cut off"
        raise ParseError(f"{where} {what}", facts=facts)
    parts = head[24:28]
    version = ".".join(map(str, parts)) if any(parts) else None
    header = PlanHeader(flavour=flavour, version=version)
    if flavour == "tensorrt":
        return header
    plan_bytes, mask, weights = struct.unpack_from("<16xQ8xI20xQ", head)
    names = tuple(name for bit, name in enumerate(_RTX_CAPABILITIES) if mask >> bit & 1)
    return header.having(plan_bytes=plan_bytes, weight_bytes=weights, compute_capabilities=names)
