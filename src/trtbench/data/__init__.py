"""The files that the demo measures, and tables of facts, wherever the package is installed."""

from functools import cache
from pathlib import Path

from trtbench.core.errors import InputError, refuse_unknown
from trtbench.core.safety import read_bytes

_FOLDER = Path(__file__).parent / "demo"  # a wheel is always unpacked


def demo_file(name: str) -> Path:
    known = sorted(path.name for path in _FOLDER.iterdir() if path.is_file())
    refuse_unknown(name, known, f"the demo has no file called {name!r}", kind=InputError)
    return _FOLDER / name


@cache
def data_rows(name: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of a table whose cells are separated by ``|``."""
    text = read_bytes(_FOLDER.with_name(name)).decode()
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(tuple(part.strip() for part in line.split("|")) for line in lines)
