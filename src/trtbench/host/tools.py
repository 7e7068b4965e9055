"""Where command-line tools are on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

TRTEXEC_FOLDERS = (Path("/usr/src/tensorrt/bin"), Path("/opt/tensorrt/bin"))
"""Where NVIDIA's packages and containers put trtexec, off the search path."""


def find_trtexec(*, folders: Sequence[Path] = TRTEXEC_FOLDERS) -> Path | None:
    """Return the trtexec on the search path, or the one NVIDIA's packages install."""
    return find_tool("trtexec", folders=folders)


def find_tool(name: str, *, folders: Sequence[Path] = ()) -> Path | None:
    """Return a tool on the search path, or else in one of the folders."""
    for path in (None, *map(str, folders)):
        found = shutil.which(name, path=path)
        if found:
            return Path(found)
    return None
