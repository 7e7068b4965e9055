"""Identifiers, and names of files that stay in their folder."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from trtbench.boundary.secrets import mask
from trtbench.boundary.texts import clean_line, shown
from trtbench.errors import InputError

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TAG = re.compile(r"[^\W_][\w .:@/+=#%~,-]{0,199}")
_TITLE_CHARACTERS = 200
_FILE_NAME_BYTES = 100
LONGEST_NAME, LONGEST_PART = 4000, 255
"""What file systems take; beyond it they answer with errors of their own."""


def at_home(text: str) -> Path:
    """Take ``~`` for a home, as a shell does: where no user has the name, it stays as it is."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path's own raises


def check_id(text: str, *, what: str = "run id", where: object = None) -> str:
    """Refuse an id that could be anything but the name of one folder."""
    if _ID.fullmatch(text) and ".." not in text:
        return text
    raise _refusal(
        f"{shown(text)} is no {what}",
        where,
        fix="ids are made of letters, digits, '-', '_' and '.'",
    )


def check_tag(text: str, *, where: object = None) -> str:
    """Refuse a tag that is empty, too long, or holds anything that a line of text may not."""
    if mask(text) != text:
        raise _refusal(
            "the tag holds what looks like a secret", where, fix="tags are shown to everybody"
        )
    if _TAG.fullmatch(text):
        return text
    raise _refusal(
        f"{shown(text)} cannot be a tag",
        where,
        fix="a tag begins with a letter or digit; letters, digits, spaces and ._:@/+=#%~,- follow",
    )


def tag_from_text(text: str) -> str:
    """Make a tag of what a record says is one; one that is a tag stays as it is."""
    if _TAG.fullmatch(text):
        return text
    return re.sub(r"^[\W_]+", "", re.sub(r"[^\w .:@/+=#%~,-]", "_", text))[:200] or "unnamed"


def check_title(text: str, *, where: object = None) -> str:
    """Refuse a title that is not one line of printable text."""
    if text.strip() and len(text) <= _TITLE_CHARACTERS and clean_line(text) == text:
        return text
    raise _refusal(
        f"{shown(text)} cannot be a title",
        where,
        fix=f"a title is one line of at most {_TITLE_CHARACTERS} printable characters",
    )


def file_name_from_text(text: str, *, otherwise: str = "unnamed") -> str:
    """Make of any text the name of one file: no folder, no leading dot or dash, not too long."""
    plain = unicodedata.normalize("NFC", text)
    name = re.sub(r"[^\w.+-]+", "-", plain).strip(".-")
    name = re.sub(r"\.{2,}", ".", name)
    while len(name.encode("utf-8", "replace")) > _FILE_NAME_BYTES:
        name = name[:-1]
    return name or otherwise


def check_name(name: str, *, what: str = "name", where: object = None) -> PurePosixPath:
    """Refuse a name that is absolute, leads upwards, or is none; it says nothing about links."""
    path = PurePosixPath(name)
    sizes = [len(part.encode("utf-8", "replace")) for part in path.parts]
    if len(name) > LONGEST_NAME or any(size > LONGEST_PART for size in sizes):
        raise _refusal(f"the {what} {shown(name)} is too long", where, fix="give it a shorter name")
    bad = not name or "\0" in name or path.is_absolute() or ".." in path.parts or not path.parts
    # Another system may take a backslash or a drive for a way out.
    if bad or "\\" in name or re.match(r"[A-Za-z]:", name) or name.startswith("~"):
        raise _refusal(
            f"the {what} {shown(name)} leads out of its folder",
            where,
            fix="only files in the same folder, or in folders below it, are used",
        )
    return path


def inside(folder: Path, name: str, *, what: str = "name", where: object = None) -> Path:
    """Find a name below a folder; one that passes through a link on the way is refused."""
    relative = check_name(name, what=what, where=where)
    path = folder
    for part in relative.parts:
        path = path / part
        if path.is_symlink():
            raise _refusal(
                f"the {what} {shown(name)} passes through a link",
                where,
                facts={"link": path},
                fix="put the file itself there: cp -L copies what a link points to",
            )
    return path


def is_inside(folder: Path, path: Path) -> bool:
    """Say whether a path, links followed, is below a folder."""
    try:
        found, root = path.resolve(), folder.resolve()
    except (OSError, RuntimeError):  # a circle of links
        return False
    return found != root and found.is_relative_to(root)


def _refusal(
    message: str, where: object, *, facts: Mapping[str, object] | None = None, fix: str
) -> InputError:
    found = {} if where is None else {"in": clean_line(str(where))}
    return InputError(message, facts={**found, **(facts or {})}, fix=fix)
