"""Serve a machine that was reached by ssh: ``python -m trtbench.executors._ssh_services``.

``missing`` reads hashes and prints those whose contents are not here, ``keep SHA`` takes one from
standard input, ``keep-all`` many in an archive, ``place FOLDER`` a request, ``pack FOLDER`` writes
a folder to standard output, and ``remove FOLDER`` deletes one. The working folder is the one this
machine keeps things in.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from functools import partial
from pathlib import Path

from trtbench import boundary
from trtbench.domain.codec import json_from_value
from trtbench.errors import StoreError
from trtbench.executors._folders import blob, keep_blob, pack, remove_forgotten
from trtbench.executors._parcel import parcel_from_bytes, place_parcel

_CHUNK = 1 << 20


def main(arguments: list[str]) -> int:
    """Do one service."""
    verb, *names = arguments
    here = Path.cwd()
    if verb == "missing":
        asked = sys.stdin.read().split()
        gone = [name for name in asked if not blob(here, name).is_file()]
        sys.stdout.write("".join(f"{name}\n" for name in gone))
    elif verb == "keep":
        keep_blob(here, names[0], iter(lambda: sys.stdin.buffer.read(_CHUNK), b""))
    elif verb == "keep-all":
        _keep_all(here)
    elif verb == "place":
        folder = _folder(here, names)
        remove_forgotten(here)
        request = place_parcel(
            parcel_from_bytes(sys.stdin.buffer.read()), cache=here, folder=folder
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "request.json").write_bytes(json_from_value(request))
    elif verb == "pack":
        folder = _folder(here, names)
        left = folder / "left"
        left.mkdir()
        for name in ("run", "error.json"):
            if (folder / name).exists():
                (folder / name).rename(left / name)
        pack(left, folder / "left.tar")
        with open(folder / "left.tar", "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    elif verb == "remove":
        shutil.rmtree(_folder(here, names), ignore_errors=True)
    else:
        return 2
    return 0


def _keep_all(here: Path) -> None:
    """Take contents from an archive, each called by its hash."""
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is None:
                raise StoreError(
                    "only files are sent", facts={"member": boundary.shown(member.name)}
                )
            with content:
                keep_blob(here, member.name, iter(partial(content.read, _CHUNK), b""))


def _folder(here: Path, names: list[str]) -> Path:
    return boundary.inside(here, names[0], what="folder", where="the request")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
