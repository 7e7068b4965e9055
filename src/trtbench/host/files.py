"""Reads small system files and YAML, writes files atomically, and makes temporary folders."""

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

from trtbench.core import safety
from trtbench.core.errors import StoreError, UnavailableError, UsageError, writing
from trtbench.host.cache import cache_folder

PARTIAL = ".partial-"
"""Prefix of a folder that is not complete; no reader opens it.

The name goes on with the process that fills it, the kernel and the container that this runs in, and
a random part. If the file system has locks, the process also holds a lock on the folder.
"""
TEMPORARY = "trtbench-"
"""Prefix of names in the folder for temporary files."""
ABANDONED_S = 7 * 86400.0
"""An unfinished folder of another machine may be removed after this time without a change."""
LONGEST_FILE_NAME = 255  # bytes, on the usual file systems
MOST_MERGED = 10_000
MOST_DIGITS = 400


class NoLocksError(OSError):
    """The file system has no locks, like some network file systems."""


def try_lock(descriptor: int, *, block: bool = False) -> bool:
    """Lock an open file or folder until it is closed; returns false if another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if block else fcntl.LOCK_NB))
    except OSError as problem:
        if problem.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise NoLocksError(problem.errno, "this file system has no locks") from None
    return True


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Lock a file or folder during the block, where the file system can; other processes wait."""
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(NoLocksError):
            try_lock(descriptor, block=True)
        yield
    finally:
        os.close(descriptor)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: others see all of it or nothing; a link there is replaced."""
    follow = path.parent.is_symlink() and not safety.is_planted(path.parent)
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    folder = os.open(path.parent, flags)
    fits = len(os.fsencode(path.name)) < LONGEST_FILE_NAME - 8
    temporary = f".{path.name if fits else TEMPORARY}.{secrets.token_hex(3)}"
    try:
        write_bytes(temporary, data, folder=folder)
        os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):  # fails on a read-only disk
            os.unlink(temporary, dir_fd=folder)
        raise
    finally:
        os.close(folder)


def write_output(path: Path, data: bytes | str, *, named: bool = False) -> Path:
    """Write an output file atomically, and create its folder; returns the path.

    A link is replaced, unless the user ``named`` it and made it; so are pipes and devices.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    with writing(path):
        make_folder(path.parent)
        follow = named and not safety.is_planted(path)
        if follow and path.exists() and not path.is_file():
            path.write_bytes(content)
            return path
        target = path.resolve() if follow and path.is_symlink() else path
        try:
            write_whole(target, content)
        except PermissionError:  # the file is writable, but its folder is not
            write_bytes(target, content)
    return path


def write_bytes(path: Path | str, data: bytes, *, folder: int | None = None) -> None:
    """Write a small file, never through a link; in an open ``folder``, one that is not there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    flags |= os.O_TRUNC if folder is None else os.O_EXCL
    descriptor = os.open(path, flags, 0o666, dir_fd=folder)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)


def no_links(path: str, flags: int) -> int:
    """An opener for ``open`` that refuses links."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def make_subfolder(path: Path) -> Path:
    """Make a folder inside an output; a link in its place, which leads elsewhere, is removed."""
    with writing(path):
        if path.is_symlink():
            path.unlink()
        return make_folder(path)


def refuse_planted(path: Path) -> None:
    """Raise an error if a path is, or leads through, a link that somebody else made."""
    for each in (path.absolute(), *path.absolute().parents):
        if safety.is_planted(each):
            raise StoreError(
                f"{each} is a link of {safety.user_name(each.lstat().st_uid)}, and is not followed",
                facts={"leads to": safety.clean_line(str(each.readlink()))},
                fix=f"rm {each}, or use the folder that it leads to",
            )


def make_folder(path: Path) -> Path:
    """Make a folder to write to; refuses links that somebody else made on the way to it."""
    refuse_planted(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def utf8_path(path: Path) -> Path:
    """Return a path that is valid UTF-8: a link to the path, if the path itself is not."""
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
        link = found = folder / digest / safety.clean_line(path.name).replace("\\", "_")
        target = path
    with contextlib.suppress(FileExistsError):
        link.symlink_to(target)
    return found


def original_path(path: Path) -> Path:
    """Return the path that was given to ``utf8_path``; other paths are returned unchanged."""
    names = cache_folder() / "names"
    return path.resolve() if path.is_relative_to(names) and path.is_symlink() else path


def text_of(path: Path) -> str | None:
    """Return the text of a small file; ``None`` if it cannot be read."""
    try:
        # Device-tree texts end with NUL, and sysfs texts with a newline.
        return path.read_bytes().decode("utf-8", "replace").strip("\0\n ")
    except (OSError, ValueError):
        return None


def number_of(path: Path) -> int | None:
    """Return the integer in a file; ``None`` if there is none."""
    return integer_from_text(text_of(path))


def integer_from_text(text: str | None) -> int | None:
    """Parse an integer; returns ``None`` for anything else."""
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def fields_of(path: Path, *, separator: str | None = None) -> dict[str, str]:
    """Return the ``key value`` lines of a file as a dictionary; the first of equal keys wins."""
    found: dict[str, str] = {}
    for line in (text_of(path) or "").splitlines():
        parts = line.split(separator, 1)
        if len(parts) == 2:
            found.setdefault(parts[0].strip(), parts[1].strip())
    return found


def scratch_directory(parent: Path) -> contextlib.AbstractContextManager[Path]:
    """Create a hidden folder in ``parent`` for the block; folders of killed processes go, too."""
    remove_abandoned(make_folder(parent))
    return new_directory(partial_name(parent))


def temporary_folder() -> contextlib.AbstractContextManager[Path]:
    """Create a private temporary folder for the block, and remove it at the end."""
    remove_temporary()
    return new_directory(temporary_name())


@contextlib.contextmanager
def new_directory(name: Path, *, trusted: bool | None = None) -> Iterator[Path]:
    """Create a private folder for the block, and remove it at the end unless it was published."""
    with writing(name):
        name.mkdir(mode=0o700)
        lock = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with contextlib.suppress(NoLocksError):
            try_lock(lock)
        opened = Path(f"/proc/{os.getpid()}/fd/{lock}")
        # Where others could rename the folder, the path goes through the open descriptor.
        trusted = safety.why_untrusted(name) is None if trusted is None else trusted
        yield name if trusted or not opened.exists() else opened
    finally:
        if os.path.lexists(name) and os.path.samestat(name.lstat(), os.fstat(lock)):
            shutil.rmtree(name, ignore_errors=True)
        os.close(lock)


def publish(folder: Path, *, name: Path, target: Path) -> None:
    """Rename a new directory, and let others read it as the umask says."""
    if not os.path.samestat(name.lstat(), folder.stat()):
        raise OSError(errno.ESTALE, "somebody else has put something in its place")
    umask = os.umask(0o077)
    os.umask(umask)
    with contextlib.suppress(PermissionError):  # a file system without modes
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | (0o777 & ~umask))
    name.rename(target)


def partial_name(parent: Path, *, prefix: str = PARTIAL) -> Path:
    """Return a new path whose name identifies this process."""
    return parent / f"{prefix}{os.getpid()}-{_host_identity()}-{secrets.token_hex(3)}"


def temporary_name() -> Path:
    """Return a new path for a temporary file or folder, whose name identifies this process."""
    return partial_name(Path(tempfile.gettempdir()), prefix=TEMPORARY)


def remove_abandoned(root: Path) -> int:
    """Remove unfinished folders of dead processes of this machine; returns how many."""
    removed = 0
    for folder in _partial(root, PARTIAL):
        if _is_abandoned(folder, PARTIAL):
            shutil.rmtree(folder, ignore_errors=True)
            removed += not folder.exists()
    return removed


@cache
def remove_temporary() -> None:
    """Remove temporary files of killed processes of this user alone; works once per process."""
    for path in _partial(Path(tempfile.gettempdir()), TEMPORARY):
        with contextlib.suppress(OSError):
            facts = path.lstat()
            if facts.st_uid != os.getuid() or not _is_abandoned(path, TEMPORARY):
                continue
            shutil.rmtree(path) if stat.S_ISDIR(facts.st_mode) else path.unlink()


def _partial(root: Path, prefix: str) -> list[Path]:
    """List unfinished folders; fast, because a store may contain many thousands of runs."""
    try:
        with os.scandir(root) as found:
            return [Path(each.path) for each in found if each.name.startswith(prefix)]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def old_unfinished(root: Path) -> list[Path]:
    """Return unfinished folders, also of other machines, that have not changed for a week."""
    found = []
    for folder in sorted(_partial(root, PARTIAL)):
        with contextlib.suppress(OSError):
            newest = max(each.stat().st_mtime for each in (folder, *folder.rglob("*")))
            if time.time() - newest > ABANDONED_S and not _is_locked(folder):
                found.append(folder)
    return found


def remove_if_empty(target: Path) -> None:
    """Remove a target that is an empty folder; raises if it is anything else."""
    if not target.exists():
        return
    if not target.is_dir() or any(target.iterdir()):
        raise StoreError(
            f"{target} exists and is not empty", fix="name a new folder with -o, or remove this one"
        )
    target.rmdir()


@cache
def _host_identity() -> str:
    """Return short hashes of the running kernel and of its namespace of process ids."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = None
    kernel = text_of(Path("/proc/sys/kernel/random/boot_id"))
    if not kernel or not namespace:
        return f"unknown.{secrets.token_hex(4)}"
    return ".".join(hashlib.sha256(each.encode()).hexdigest()[:8] for each in (kernel, namespace))


def _is_abandoned(path: Path, prefix: str) -> bool:
    """Return whether the process that fills a folder has certainly ended."""
    pid, host = [*path.name.removeprefix(prefix).split("-"), ""][:2]  # pid-kernel.namespace-…
    if host != _host_identity() or not pid.isdecimal():
        return False
    with contextlib.suppress(PermissionError, OverflowError):
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return not _is_locked(path)
    return False


def _is_locked(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return not try_lock(descriptor)
        finally:
            os.close(descriptor)
    return False


def yaml_from_text(text: str, *, where: str) -> object:
    """Parse YAML into plain values, dates as text; refuses texts that expand without bound."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise UnavailableError(
            "YAML files need the package PyYAML", fix="pip install pyyaml"
        ) from None
    safety.check_nesting(text, where=where)
    numbers = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers = {
            first: [each for each in known if each[0] != "tag:yaml.org,2002:timestamp"]
            for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            """Check the size of mappings merged by ``<<`` before PyYAML copies them."""
            for key, value in node.value:
                if key.tag == "tag:yaml.org,2002:merge":
                    named = value.value if isinstance(value, yaml.SequenceNode) else [value]
                    maps = [each for each in named if isinstance(each, yaml.MappingNode)]
                    for each in maps:
                        self.flatten_mapping(each)
                    if sum(len(each.value) for each in maps) > MOST_MERGED:
                        raise ValueError(f"a mapping merges more than {MOST_MERGED} keys")
            super().flatten_mapping(node)

        def construct_scalar(self, node: yaml.ScalarNode) -> object:
            """Refuse numbers so long that converting them takes hours."""
            if node.tag in numbers and len(node.value) > MOST_DIGITS:
                raise ValueError(f"it has a number of {len(node.value)} digits")
            return super().construct_scalar(node)

    try:
        found = yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        reason = " ".join(str(problem).split())
        raise UsageError(f"{where} is not YAML", facts={"reason": reason}) from None
    safety.check_parts(found, where=where)
    return found
