"""Settings for a command; what a project's file steers is shown the first time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trtbench.store.store import Store
    from trtbench.workflows.request.config import Config


def load_config(*, folder: Path | None = None, store: str | Path | None = None) -> Config:
    """Read the settings as ``workflows.request.config`` does, and say what is new in them."""
    from trtbench.cli._screen import say
    from trtbench.workflows.request import config

    found = config.load_config(folder=folder, store=store)
    for line in found.news:
        say(f"{line} (said once)")
    return found


def open_store(config: Config, *, at_once: bool = True) -> Store:
    """Open the store of the settings, now or when it is used, and say what was mended in it."""
    from trtbench.cli._screen import say
    from trtbench.workflows.request import config as settings

    return settings.open_store(config, tell=lambda line: say(f"store: {line}"), at_once=at_once)
