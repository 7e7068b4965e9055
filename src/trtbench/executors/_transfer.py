"""Transfers files and run directories between machines: ``python -m ..._transfer SERVICE``.

Files are identified by the hash of their content and cached, so that each is sent to a machine only
once; folders are sent as one archive. Texts name files by marks, because paths differ between
machines. Run as a program, it serves requests that arrive by ssh: see ``main``.
"""

import contextlib
import os
import re
import secrets
import shutil
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from trtbench.core import codec
from trtbench.core import safety as boundary
from trtbench.core.errors import InputError, StoreError, write_error
from trtbench.core.spec import Value
from trtbench.core.units import counted
from trtbench.executors.contract import FileGroup, RemoteJob
from trtbench.host.files import ABANDONED_S
from trtbench.host.tar import is_plain, tar_members
from trtbench.models.identity import sha256_of

FILE_MARK = "trtbench-file:"  # prefix of a text that names a file of the sender
OUTPUT_MARK = "trtbench-output:"  # prefix of a text that names a file written by a job
_BENEATH = r"(?:/[^\s'\"]+|(?=['\"\s]|$))"
FILES = "files"
RUN, ERROR, LOG = "run", "error.json", "node.log"  # what a job leaves in its folder
MOST_FILES = 2_000_000  # the most files of one job; a larger folder is probably a mistake
MOST_RETURNED = 100_000  # the most files that a machine may send back; a run has a few dozen
_CHUNK = 1 << 20
_placed = partial(boundary.inside, what="name of a file", where="the request")


def with_files_in(job: RemoteJob, folder: Path) -> RemoteJob:
    """Return a job with paths in the folder for file marks, also joined ones; refuses ``..``."""

    def rewrite(text: str) -> str:
        head, *names = text.split(FILE_MARK)
        parts = [*(name.rpartition(",") for name in names[:-1]), *((n, "", "") for n in names[-1:])]
        return head + "".join(f"{_placed(folder, x)}{comma}{rest}" for x, comma, rest in parts)

    tree = codec.map_texts(msgspec.to_builtins(job), rewrite)
    return msgspec.convert(tree, type=codec.prepared_for_decoding(RemoteJob)).having(
        placed=str(folder)
    )


def with_marks(tree: object, *, files: Path, output: Path) -> object:
    """Return a tree with marks in place of the paths of files and outputs."""
    return codec.map_texts(
        tree, lambda text: text.replace(f"{output}/", OUTPUT_MARK).replace(f"{files}/", FILE_MARK)
    )


def with_local_paths(tree: object, *, files: Mapping[str, FileGroup], output: Path) -> object:
    """Return an answer with local paths for marks; refuses outputs that leave their folder."""

    def path_of(text: str) -> str:
        if text.startswith(OUTPUT_MARK):
            inner = text.removeprefix(OUTPUT_MARK)
            return str(boundary.inside(output, inner, what="output", where="the answer"))
        text = text.removeprefix(FILE_MARK)
        number, _, inner = text.partition("/")
        if number not in files:
            return text
        folder = Path(files[number].folder)
        if inner:
            folder /= boundary.check_name(inner, what="file", where="the answer")
        return str(folder)

    def rewrite(text: str) -> str:
        if text.startswith((OUTPUT_MARK, FILE_MARK)):
            return path_of(text)
        return within.sub(lambda found: path_of(found[0]), text)  # for example a command line

    # Names that were sent may contain spaces; any other name ends at a space.
    sent = [
        f"{FILE_MARK}{number}/{name}" for number, group in files.items() for name in group.names
    ]
    known = [re.escape(each) + _BENEATH for each in sorted(sent, key=len)[::-1] if " " in each]
    within = re.compile("|".join([*known, rf"(?:{OUTPUT_MARK}|{FILE_MARK})[^\s'\"]+"]))
    return codec.map_texts(tree, rewrite)


def pack_results(folder: Path) -> Path:
    """Return an archive of what a job left in its folder: run directory, error and log."""
    target = folder / "left.tar"
    with tarfile.open(target, "w") as archive:
        for path in sorted([folder / ERROR, folder / LOG, *(folder / RUN).rglob("*")]):
            if path.is_file() and not path.is_symlink():
                archive.add(path, arcname=str(path.relative_to(folder)), recursive=False)
    return target


def unpack(source: Path, folder: Path) -> None:
    """Extract an archive of results; refuses links, and names that lead out of the folder."""
    try:
        for number, (member, opened) in enumerate(tar_members(source)):  # uncompressed
            if number == MOST_RETURNED:
                raise StoreError(f"the machine sent back more than {number} files")
            content = opened() if is_plain(member) else None
            if content is None:
                facts = {"member": boundary.shown(member.name)}
                raise StoreError("the machine did not send back a run directory", facts=facts)
            target = boundary.inside(folder, member.name, what="file", where="the archive")
            target.parent.mkdir(parents=True, exist_ok=True)
            with content, open(target, "wb") as file:
                shutil.copyfileobj(content, file)
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as problem:
        raise StoreError("the archive is damaged", facts={"reason": problem}) from None
    except OSError as problem:
        raise write_error(folder, problem) from None


def remove_abandoned_jobs(cache: Path) -> None:
    """Remove jobs and partial files of senders that were killed or disconnected."""
    for path in (*cache.glob("work/*"), *cache.glob("blobs/.*"), *cache.glob("code/*.*")):
        with contextlib.suppress(OSError):
            newest = max(each.lstat().st_mtime for each in (path, *path.rglob("*")))
            if time.time() - newest < ABANDONED_S:
                continue
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def blob_path(cache: Path, sha256: str) -> Path:
    return cache / "blobs" / boundary.check_id(sha256, what="hash of a content")


def store_blob(cache: Path, sha256: str, chunks: Iterable[bytes]) -> None:
    """Write content to a cache, whole or not at all; raises if its hash does not match."""
    target = blob_path(cache, sha256)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{sha256[:16]}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "wb") as file:
            file.writelines(chunks)
        if sha256_of(temporary) != sha256:
            raise StoreError("a file was damaged during transfer", facts={"sha256": sha256})
        temporary.chmod(0o444)  # jobs share it by hard links and must not change it
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def link_blob(cache: Path, sha256: str, target: Path) -> None:
    """Put cached content under a path: as a hard link if no other job has one, else as a copy."""
    source = blob_path(cache, sha256)
    target.parent.mkdir(parents=True, exist_ok=True)
    # A second link would change the file's times, and the other job would take it for replaced.
    if source.stat().st_nlink == 1:
        with contextlib.suppress(OSError):  # another file system, or one without links
            os.link(source, target)
    if not target.exists():
        shutil.copyfile(source, target)


class UploadFile(Value, frozen=True, kw_only=True):
    """One file to send: its local path, the hash of its content, and its name on the machine."""

    source: str
    sha256: str
    name: str


class Upload(Value, frozen=True, kw_only=True):
    job: RemoteJob
    files: tuple[UploadFile, ...] = ()
    folders: tuple[str, ...] = ()  # empty folders: a class without images is still a class

    @property
    def contents(self) -> dict[str, Path]:
        """A local file for each different content, by its hash."""
        return {file.sha256: Path(file.source) for file in self.files}


def upload_from_job(job: RemoteJob) -> Upload:
    """List all files of a job; they are hashed only after all of them have been checked."""
    found: dict[str, Path] = {}
    for number, group in job.files.items():
        for path, name in _files_of_group(group):
            found[f"{FILES}/{number}/{name}"] = path
            if len(found) > MOST_FILES:
                message = f"there are more than {MOST_FILES:,} files to send"
                facts = {"folder": Path(group.folder) / group.names[0]}
                raise InputError(message, facts=facts, fix="name a smaller folder")
    files, folders = [], []
    for name, path in found.items():
        try:
            if path.is_dir():
                folders.append(name)
            else:
                files.append(UploadFile(source=str(path), sha256=sha256_of(path), name=name))
        except OSError as problem:
            raise InputError(f"{path} cannot be sent", facts={"reason": problem.strerror}) from None
    return Upload(job=job.having(files={}), files=tuple(files), folders=tuple(folders))


def text_of_files(paths: Sequence[Path]) -> str:
    """Return the name of the first file, and how many more there are."""
    more = f" and {counted(len(paths) - 1, 'more file')}" if len(paths) > 1 else ""
    return f"{paths[0].name}{more}"


def place_upload(upload: Upload, *, cache: Path, folder: Path) -> RemoteJob:
    """Put the files of an upload into the folder; returns the job with their paths there."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in upload.files:
        link_blob(cache, file.sha256, _placed(folder, file.name))
    for name in upload.folders:
        _placed(folder, name).mkdir(parents=True, exist_ok=True)
    return with_files_in(upload.job, folder / FILES)


def _files_of_group(group: FileGroup) -> Iterator[tuple[Path, str]]:
    """Yield the path and name of all files and empty folders of a group.

    The file that the job names may be a link; files that it refers to may not, nor lead elsewhere.
    """
    folder = Path(group.folder)
    for number, name in enumerate(group.names):
        what, where = "file that belongs to it", folder / group.names[0]
        if number:
            top = boundary.inside(folder, name, what=what, where=where)
        else:
            top = folder / boundary.check_name(name, what=what, where=where)
        if not top.is_dir():
            yield top, name
            continue
        for here, folders, files in os.walk(top):
            paths = [Path(here, each) for each in (*folders, *files)]
            for path in paths:
                if path.is_symlink() and (path.is_dir() or not boundary.is_inside(top, path)):
                    kind = "to a folder" if path.is_dir() else "that leads out of its folder"
                    fix = "replace it by a copy: cp -rL copies what links point to"
                    raise InputError(f"{path} is a link {kind}", fix=fix)
            folders.sort()
            found = sorted(path for path in paths if path.is_file()) if paths else [Path(here)]
            for each in found:
                yield each, f"{name}/{each.relative_to(top)}" if each != top else name


def main(arguments: list[str]) -> int:
    """Serve one request of a sender; the working directory is the cache of this machine.

    ``missing`` reads hashes and prints those that the cache lacks, ``keep SHA`` stores one content
    from standard input, ``keep-all`` an archive of many, ``place FOLDER`` an upload, ``pack
    FOLDER`` writes a folder to standard output, and ``remove FOLDER`` deletes one.
    """
    service, *names = arguments
    folder = here = Path.cwd()
    standard_input = sys.stdin.buffer
    if service in ("place", "pack", "remove"):
        folder = boundary.inside(here, names[0], what="folder", where="the request")
    if service == "missing":
        names = standard_input.read().decode().split()
        missing = [name for name in names if not blob_path(here, name).is_file()]
        sys.stdout.write("".join(f"{name}\n" for name in missing))
    elif service == "keep":
        store_blob(here, names[0], iter(lambda: standard_input.read(_CHUNK), b""))
    elif service == "keep-all":
        with tarfile.open(fileobj=standard_input, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is None:
                    facts = {"member": boundary.shown(member.name)}
                    raise StoreError("only files are sent", facts=facts)
                with content:
                    store_blob(here, member.name, iter(partial(content.read, _CHUNK), b""))
    elif service == "place":
        remove_abandoned_jobs(here)
        upload = codec.value_from_json(standard_input.read(), Upload, where="the request")
        job = place_upload(upload, cache=here, folder=folder)
        (folder / "request.json").write_bytes(codec.json_from_value(job))
    elif service == "pack":
        with open(pack_results(folder), "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    elif service == "remove":
        shutil.rmtree(folder, ignore_errors=True)
    else:
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
