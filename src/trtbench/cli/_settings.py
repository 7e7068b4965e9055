"""What a command works with: settings, the store, and how its job is carried out."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trtbench.one_thread  # noqa: F401 - before the first import of numpy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trtbench.store.store import Store
    from trtbench.workflows.request.conduct import Conduct
    from trtbench.workflows.request.config import Config
    from trtbench.workflows.request.groups import StoreFields, TimeoutFields


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


def open_store_of(request: StoreFields) -> tuple[Store, Config]:
    """Open the store that is asked for, and the settings."""
    config = load_config(store=request.store)
    return open_store(config), config


@contextmanager
def conducting(
    request: TimeoutFields, config: Config, title: str, *, runtime: str | None = None
) -> Iterator[Conduct]:
    """Have a job carried out as it is asked for, with its progress on stderr."""
    from trtbench.cli._flags import command_line
    from trtbench.cli._screen import Talk
    from trtbench.workflows.request.conduct import conduct_from_request

    with Talk(title) as talk:
        yield conduct_from_request(
            request, config, runtime=runtime, command=command_line(), listen=talk
        )
