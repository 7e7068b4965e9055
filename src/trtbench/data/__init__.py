"""The files that the demo measures, found wherever the package is installed."""

from pathlib import Path

from trtbench.core.errors import InputError, refuse_unknown

_FOLDER = Path(__file__).parent / "demo"  # a wheel is always unpacked


def demo_files() -> tuple[str, ...]:
    return tuple(sorted(path.name for path in _FOLDER.iterdir() if path.is_file()))


def demo_file(name: str) -> Path:
    refuse_unknown(name, demo_files(), f"the demo has no file called {name!r}", kind=InputError)
    return _FOLDER / name
