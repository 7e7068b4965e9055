"""The files that the demo measures, found wherever the package is installed.

Knows names and paths; does not know what is in a file.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from trtbench.core.errors import InputError, refuse_unknown


def demo_files() -> tuple[str, ...]:
    """List the names of the demo's files."""
    return tuple(sorted(path.name for path in _folder().iterdir() if path.is_file()))


def demo_file(name: str) -> Path:
    """Return the path of one of the demo's files."""
    refuse_unknown(name, demo_files(), f"the demo has no file called {name!r}", kind=InputError)
    return _folder() / name


def _folder() -> Path:
    # A wheel is always unpacked, so the resource is a folder that other processes can open.
    return Path(str(resources.files(__name__) / "demo"))
