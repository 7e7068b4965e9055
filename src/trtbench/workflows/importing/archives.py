"""What archives hold: each file in them is looked at as one that lies in a folder would be."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from trtbench.boundary.archives import MOST_BYTES, Member, Unpacking
from trtbench.errors import InputError
from trtbench.trtexec.log import LogRun
from trtbench.trtexec.log_text import encoding_of
from trtbench.trtexec.sniff import is_archive, kind_of, unpacked
from trtbench.units import counted
from trtbench.workflows.importing.find import FoundFile, Unused, found_from_path, plain
from trtbench.workflows.importing.look import FilePart, TimesShelf, parts_from_file
from trtbench.workflows.importing.reasons import KINDS, broken_file

_NOTHING = frozenset({"unknown", "empty"})


def unwanted(name: str, head: bytes) -> str | None:
    """Say why a file of an archive is not looked into: a model is large, and other data no text."""
    if unpacked(io.BytesIO(head)) is not None:
        return None
    kind = kind_of(head, name=name)
    if kind in ("onnx", "plan"):
        return "a model; unpack the archive to have it beside its runs"
    if is_archive(head):
        return KINDS["archive"]
    return "" if kind == "unknown" and encoding_of(head) is None else None


def parts_from_archive(
    found: FoundFile, unpacking: Unpacking, shelf: TimesShelf
) -> tuple[list[FilePart], list[Unused]]:
    """Look into an archive; files in it that have nothing to tell are counted, others named."""
    parts: list[FilePart] = []
    unused: list[Unused] = []
    others, count = 0, 0
    try:
        for member, shown in _members(found, unpacking):
            count += 1
            inside, left = _parts_of(member, shown, shelf)
            if member.path is not None and not inside:
                member.path.unlink()
            others += left is not None and left.kind in _NOTHING
            parts += inside
            unused += [left] if left is not None and left.kind not in _NOTHING else []
    except (InputError, OSError) as problem:
        unused.append(broken_file(found.shown, "archive", problem, named=found.named))
    kept, again = _without_repeated(parts)
    unused += again
    if not parts and not unused:
        files = counted(count, "file")
        what = f"an archive of {files}: {KINDS['unknown']}"
        unused.append(_unused(found, what, named=found.named))
    elif others:
        what = f"{counted(others, 'other file')} in it: {KINDS['unknown']}"
        unused.append(_unused(found, what))
    return kept, unused


def _members(found: FoundFile, unpacking: Unpacking) -> Iterator[tuple[Member, str]]:
    """List the files of an archive, each with how it is shown."""
    path, archive = found.path, plain(found.path)
    with open(path, "rb") as file:
        packed = unpacked(file, most=MOST_BYTES)
        if packed is not None:
            path = unpacking.unpacked(path, packed.read)
    if packed is not None:
        with open(path, "rb") as file:
            holds_files = is_archive(file.read(512))
        if not holds_files:
            yield Member(path.name, path), archive
            if packed.is_damaged:
                raise InputError(f"{archive} is damaged", fix="copy it again, or make it anew")
            return
    for member in unpacking.members(path, shown=archive):
        yield member, f"{archive}/{member.name}"
    if packed is not None:
        path.unlink()


def _parts_of(
    member: Member, shown: str, shelf: TimesShelf
) -> tuple[list[FilePart], Unused | None]:
    if member.path is None:
        kind, reason = ("archive", member.reason) if member.reason else ("unknown", "")
        return [], Unused(path=shown, kind=kind, reason=reason)
    kind = "unknown"
    try:
        each = found_from_path(member.path, named=False, inside=shown)
        kind = each.kind
        parts = parts_from_file(each, shelf)
    except (InputError, OSError) as problem:
        return [], broken_file(shown, kind, problem)
    if parts:
        return parts, None
    return [], Unused(path=shown, kind=kind, reason=KINDS.get(kind, KINDS["unknown"]))


def _without_repeated(parts: Iterable[FilePart]) -> tuple[list[FilePart], list[Unused]]:
    """Leave out logs that stand in an archive twice: build servers keep jobs whole and by step."""
    kept: list[FilePart] = []
    again: list[Unused] = []
    known: dict[object, str] = {}
    for part in parts:
        told = _told_by(part.value) if isinstance(part.value, LogRun) else None
        first = known.setdefault(told, part.file.shown) if told is not None else part.file.shown
        if first == part.file.shown:
            kept.append(part)
            continue
        reason = f"the same run stands in {first.rsplit('/', 1)[-1]}"
        again.append(Unused(path=part.file.shown, kind=part.file.kind, reason=reason))
    return kept, again


def _told_by(run: LogRun) -> object:
    """Take what tells one run from all others; without times of its own nothing does."""
    if run.first_stamp is None or run.summary is None:
        return None
    return (run.command, run.first_stamp, run.last_stamp, repr(run.summary), repr(run.averages))


def _unused(found: FoundFile, reason: str, *, named: bool = False) -> Unused:
    return Unused(path=found.shown, kind="archive", reason=reason, named=named)
