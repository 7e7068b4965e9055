"""Files: small ones of the system, files written whole, temporary and unfinished folders, YAML."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from trtbench.core.errors import StoreError, UnavailableError, UsageError, write_error, writing
from trtbench.core.safety import check_nesting, check_parts, clean_line

PARTIAL = ".partial-"
"""Prefix of a folder that is not complete; no reader opens it.

After it come the process that fills it, the kernel and the container it runs in, and a random part.
The process also holds a lock on the folder where the file system has locks.
"""
TEMPORARY = "trtbench-"
"""Prefix of the same in the folder for temporary files, where nothing needs to be hidden."""
FORGOTTEN_S = 7 * 86400.0
"""After so long without a change, what another machine left unfinished may be removed."""
MOST_MERGED = 10_000
MOST_DIGITS = 400

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SPACE = Path("/proc/self/ns/pid")


class NoLocksError(OSError):
    """The file system has no locks, as some network file systems."""


def try_lock(descriptor: int, *, block: bool = False) -> bool:
    """Lock an open file or folder until it is closed; false when another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if block else fcntl.LOCK_NB))
    except OSError as problem:
        if problem.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise NoLocksError(problem.errno, "this file system has no locks") from None
    return True


@contextlib.contextmanager
def alone(place: Path) -> Iterator[None]:
    """Hold a file or folder as a lock for the length of the block; others wait for it."""
    flags = os.O_RDONLY if place.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(place, flags | os.O_CLOEXEC, 0o600)
    try:
        try_lock(descriptor, block=True)
        yield
    finally:
        os.close(descriptor)


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
    """Write the output of a user, all of it or nothing; its folder is made."""
    content = data.encode("utf-8") if isinstance(data, str) else data
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return path
        try:
            write_whole(path.resolve() if path.is_symlink() else path, content)
        except PermissionError:  # a writable file in a folder that is not
            path.write_bytes(content)
    return path


def write_bytes(path: Path | str, data: bytes) -> None:
    """Write a small file with as few system calls as possible; an import makes thousands."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)


def utf8_path(path: Path) -> Path:
    """Return a path in UTF-8: a name that is not gets a link that is."""
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
    """Return the path that ``utf8_path`` was given; any other is returned unchanged."""
    names = cache_folder() / "names"
    return path.resolve() if path.is_relative_to(names) and path.is_symlink() else path


def cache_folder() -> Path:
    """Return the folder of files that this user can do without."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "trtbench"


def text_of(path: Path) -> str | None:
    """Return a small text file; ``None`` when it cannot be read."""
    try:
        # Device-tree texts end with NUL, and sysfs texts with a newline.
        return path.read_bytes().decode("utf-8", "replace").strip("\0\n ")
    except (OSError, ValueError):
        return None


def number_of(path: Path) -> int | None:
    """Return the integer that a file holds."""
    return integer_from_text(text_of(path))


def integer_from_text(text: str | None) -> int | None:
    """Return an integer; ``None`` for anything else."""
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def fields_of(path: Path, *, separator: str | None = None) -> dict[str, str]:
    """Return the ``key value`` lines of a file; of repeated keys the first counts."""
    found: dict[str, str] = {}
    for line in (text_of(path) or "").splitlines():
        parts = line.split(separator, 1)
        if len(parts) == 2:
            found.setdefault(parts[0].strip(), parts[1].strip())
    return found


@contextlib.contextmanager
def scratch_directory(parent: Path) -> Iterator[Path]:
    """Create a folder that no reader opens, and remove it at the end."""
    with _made(partial_name(parent), mode=0o777) as folder:
        yield folder


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create a folder of this user alone, outside every store, and remove it at the end."""
    remove_temporary()
    with _made(temporary_name(), mode=0o700) as folder:
        yield folder


@contextlib.contextmanager
def _made(folder: Path, *, mode: int) -> Iterator[Path]:
    with writing(folder):
        folder.mkdir(mode=mode)
        lock = os.open(folder, os.O_RDONLY)
    with contextlib.suppress(NoLocksError):
        try_lock(lock)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def partial_name(parent: Path, *, prefix: str = PARTIAL) -> Path:
    """Return a new name that says which process fills a folder."""
    kernel, space = _whereabouts()
    return parent / f"{prefix}{os.getpid()}-{kernel}.{space}-{secrets.token_hex(3)}"


def temporary_name() -> Path:
    """Return a new name for a temporary file or folder that says which process made it."""
    return partial_name(Path(tempfile.gettempdir()), prefix=TEMPORARY)


@contextlib.contextmanager
def signed(path: Path, *, what: str) -> Iterator[None]:
    """Hold a file that says who made it, where the file system has no locks.

    Only one process can make it. One of a process that is certainly dead is replaced; whether one
    of another machine or container still lives cannot be known here, and is never guessed.
    """
    mine = f"{os.getpid()}-{'.'.join(_whereabouts())}"
    for last in (False, True):
        try:
            with open(path, "x", encoding="ascii") as file:
                file.write(mine)
            break
        except FileExistsError:
            other = clean_line(text_of(path) or "")
            if last or not _is_dead(other):
                raise UnavailableError(
                    f"{what} is being carried out by another process",
                    facts={"signed by": other or "unknown", "file": path},
                    fix=f"if that one was killed: rm {path}",
                ) from None
            path.unlink(missing_ok=True)
        except OSError as problem:
            raise write_error(path, problem) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def remove_abandoned(root: Path) -> int:
    """Remove what dead processes of this machine left unfinished; returns how many."""
    removed = 0
    for folder in _partial(root, PARTIAL):
        if _is_abandoned(folder, PARTIAL):
            shutil.rmtree(folder, ignore_errors=True)
            removed += not folder.exists()
    return removed


@cache
def remove_temporary() -> None:
    """Remove, once, what killed processes of this user left among the temporary files.

    Others write to that folder too: nothing of theirs is touched, whatever its name is.
    """
    for path in _partial(Path(tempfile.gettempdir()), TEMPORARY):
        with contextlib.suppress(OSError):
            facts = path.lstat()
            if facts.st_uid != os.getuid() or not _is_abandoned(path, TEMPORARY):
                continue
            shutil.rmtree(path) if stat.S_ISDIR(facts.st_mode) else path.unlink()


def _partial(root: Path, prefix: str) -> list[Path]:
    """List unfinished folders; every new run asks, and a store may hold many thousands."""
    try:
        with os.scandir(root) as found:
            return [Path(each.path) for each in found if each.name.startswith(prefix)]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def forgotten(root: Path) -> list[Path]:
    """Return what other machines, or this one before it was restarted, left long ago."""
    found = []
    for folder in sorted(_partial(root, PARTIAL)):
        with contextlib.suppress(OSError):
            newest = max(each.stat().st_mtime for each in (folder, *folder.rglob("*")))
            if time.time() - newest > FORGOTTEN_S and not _is_locked(folder):
                found.append(folder)
    return found


def refuse_occupied(target: Path) -> None:
    """Refuse a target that is not empty; an empty folder is removed."""
    if not target.exists():
        return
    if not target.is_dir() or any(target.iterdir()):
        raise StoreError(
            f"{target} exists and is not empty", fix="give a new folder with -o, or remove it"
        )
    target.rmdir()


@cache
def _whereabouts() -> tuple[str, str]:
    """Name the running kernel, and the space in which process numbers count."""
    kernel = text_of(_BOOT)
    try:
        space = str(_SPACE.readlink())
    except OSError:
        space = None
    if not kernel or not space:
        return "unknown", secrets.token_hex(4)
    short = [hashlib.sha256(each.encode()).hexdigest()[:8] for each in (kernel, space)]
    return short[0], short[1]


def _is_abandoned(path: Path, prefix: str) -> bool:
    """Whether it is certain that no process fills a folder any more."""
    signature = "-".join(path.name.removeprefix(prefix).split("-")[:2])
    return _is_dead(signature) and not _is_locked(path)


def _is_dead(signature: str) -> bool:
    """Whether the process of ``process-kernel.space`` was on this machine and has ended."""
    pid, _, where = signature.partition("-")
    if where != ".".join(_whereabouts()) or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _is_locked(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)
    except NoLocksError:
        return False
    finally:
        os.close(descriptor)


def yaml_from_text(text: str, *, where: str) -> object:
    """Return the plain values of a YAML text of bounded size, with dates as text."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise UnavailableError(
            "YAML files need the package PyYAML", fix="pip install pyyaml"
        ) from None
    check_nesting(text, where=where)
    numbers = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers = {
            first: [each for each in known if each[0] != "tag:yaml.org,2002:timestamp"]
            for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            """Count before PyYAML copies what ``<<`` names, as often as it is named."""
            for key, value in node.value:
                if key.tag == "tag:yaml.org,2002:merge":
                    named = value.value if isinstance(value, yaml.SequenceNode) else [value]
                    maps = [each for each in named if isinstance(each, yaml.MappingNode)]
                    for each in maps:
                        self.flatten_mapping(each)
                    if sum(len(each.value) for each in maps) > MOST_MERGED:
                        raise ValueError("its merged keys repeat themselves without end")
            super().flatten_mapping(node)

        def construct_scalar(self, node: yaml.ScalarNode) -> object:
            """Refuse numbers that take hours to convert."""
            if node.tag in numbers and len(node.value) > MOST_DIGITS:
                raise ValueError(f"it has a number of {len(node.value)} digits")
            return super().construct_scalar(node)

    try:
        found = yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        reason = " ".join(str(problem).split())
        raise UsageError(f"{where} is not YAML", facts={"reason": reason}) from None
    check_parts(found, where=where)
    return found
