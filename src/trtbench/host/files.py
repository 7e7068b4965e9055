"""Small text files of the machine, read without ever failing; and files written whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path

from trtbench.boundary import clean_line
from trtbench.errors import writing


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that others see all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(3)}")
    try:
        write_bytes(temporary, data)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):  # on a read-only disk even this is refused
            temporary.unlink(missing_ok=True)
        raise


def write_output(path: Path, data: bytes | str) -> Path:
    """Write what a user asked for: all of it or nothing, so that no killed writer leaves a half.

    Its folder is made. A pipe or a device is written to as it is, and a link is followed.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return path
        try:
            write_whole(path.resolve() if path.is_symlink() else path, content)
        except PermissionError:  # a file that may be written, in a folder that may not
            path.write_bytes(content)
    return path


def write_bytes(path: Path | str, data: bytes) -> None:
    """Write a small file with as few calls of the system as it takes; an import makes thousands."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)


def utf8_path(path: Path) -> Path:
    """Name a path that can be written down: a name that is not UTF-8 gets a link that is.

    Libraries that load models, records and databases take names in UTF-8 only. The link is in the
    user's cache, so that a run can be repeated under the same name.
    """
    path = path.absolute()
    try:
        str(path).encode()
        return path
    except UnicodeEncodeError:
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    folder = cache_folder() / "names"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        path.name.encode()
        link, target, found = folder / digest, path.parent, folder / digest / path.name
    except UnicodeEncodeError:
        (folder / digest).mkdir(exist_ok=True, mode=0o700)
        link = found = folder / digest / clean_line(path.name).replace("\\", "_")
        target = path
    with contextlib.suppress(FileExistsError):
        link.symlink_to(target)
    return found


def path_behind(path: Path) -> Path:
    """Name the path that ``utf8_path`` was made for; any other stays as it is."""
    names = cache_folder() / "names"
    return path.resolve() if path.is_relative_to(names) and path.is_symlink() else path


def cache_folder() -> Path:
    """Find the folder of what this user can do without."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "trtbench"


def text_of(path: Path) -> str | None:
    """Read a small text file; ``None`` when it is not there, not allowed or not readable."""
    try:
        # Device-tree texts end with NUL, and sysfs texts with a newline.
        return path.read_bytes().decode("utf-8", "replace").strip("\0\n ")
    except (OSError, ValueError):
        return None


def number_of(path: Path) -> int | None:
    """Read a file that holds one integer."""
    return integer_from_text(text_of(path))


def integer_from_text(text: str | None) -> int | None:
    """Read an integer; anything else is ``None``."""
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def fields_of(path: Path, *, separator: str | None = None) -> dict[str, str]:
    """Read ``key value`` lines; a key that comes again keeps its first value."""
    found: dict[str, str] = {}
    for line in (text_of(path) or "").splitlines():
        parts = line.split(separator, 1)
        if len(parts) == 2:
            found.setdefault(parts[0].strip(), parts[1].strip())
    return found
