"""Where the real parts are that some tests need: a browser, an interpreter with PyTorch."""

import importlib.util
import os
import shutil
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    """Find Chromium; no browser is ever downloaded."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


@cache
def find_torch() -> str | None:
    """Find an interpreter with PyTorch: named, beside the package's own environment, or this."""
    beside = ROOT / ".venv-torch" / "bin" / "python"
    named = os.environ.get("TRTBENCH_TEST_TORCH_PYTHON")
    if named or beside.is_file():
        return named or str(beside)
    return sys.executable if importlib.util.find_spec("torch") else None
