"""Flags that mean the same everywhere, and the reading of their values."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from trtbench.errors import StoreError

F = TypeVar("F", bound=Callable[..., object])


def stack(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Apply several options in the order in which help shows them."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


store_words: dict[str, Any] = {
    "metavar": "DIR|URL",
    "help": "Folder or URL of the store (default: from configuration).",
}
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print what would be done, and do nothing."
)


def refuse_unwritable(folder: Path, *, flag: str = "-o") -> None:
    """Say before minutes of work that its result could not be written."""
    place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return
    raise StoreError(
        f"{folder} cannot be written",
        facts={"reason": f"{place} is {'read-only' if place.is_dir() else 'no folder'}"},
        fix=f"give another place with {flag}",
    )
