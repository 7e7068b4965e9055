"""Which trtexec a command is written for: the one at hand, a version that was named, or a guess."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from trtbench.errors import UnavailableError
from trtbench.trtexec.abilities import TrtexecAbilities, abilities_from_help, abilities_of_version

ASSUMED = "10.9"
"""Version to write a command for when there is nobody to ask."""


class Target(NamedTuple):
    """What can be told, to which program, and what a reader of the command should know."""

    abilities: TrtexecAbilities
    binary: str
    note: str | None = None


def target_from_options(
    options: Mapping[str, str], *, find: Callable[[str | None], str], ask: Callable[[str], str]
) -> Target:
    """Settle the target by the options ``binary`` and ``version``; nothing need be installed."""
    binary, version = options.get("binary"), options.get("version")
    try:
        found = find(binary)
    except UnavailableError:
        named = binary or "trtexec"
        note = f"# trtexec is not installed here: for TensorRT {version or ASSUMED}"
        hint = "" if version else " (another: --opt version=11.1)"
        return Target(abilities_of_version(version or ASSUMED), named, note + hint)
    if version is not None:
        return Target(abilities_of_version(version), found, f"# for TensorRT {version}")
    return Target(abilities_from_help(ask(found), where=f"{found} --help"), found)
