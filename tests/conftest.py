"""Fixtures that every folder of tests may use."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def artefacts() -> Path:
    """The folder of files from real machines beside the checkout; tests skip without it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "artefacts"
    if not folder.is_dir():
        pytest.skip("no artefacts beside this checkout")
    return folder
