"""Whose settings count: files of others are refused until trusted, and what they steer is shown.

A project's ``trtbench.toml`` can name interpreters that are then run as the user, so it is taken
only from files and folders that are the user's own, as git does, or that were named to
``trtbench trust``.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from trtbench import boundary
from trtbench.domain.spec import Value
from trtbench.errors import InputError, UsageError, write_error
from trtbench.host.files import write_whole

TRUSTED = "trusted.json"


class Trusted(Value, frozen=True, kw_only=True):
    """What a user said, and was shown, about the settings of others; one file for each user."""

    files: tuple[str, ...] = ()
    """Settings that count though another user can change them."""
    shown: dict[str, str] = {}
    """For each file of settings, a hash of what it steers, as it was shown last."""


def user_config_folder() -> Path:
    """Name the folder of the user's own settings; a RuntimeError where there is no home."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "trtbench"


def refuse_strangers(path: Path) -> None:
    """Refuse settings that another user wrote or can change, unless they were trusted."""
    try:
        reason = boundary.stranger(path)
    except OSError as problem:
        raise UsageError(f"{path} cannot be read", facts={"reason": problem.strerror}) from None
    if reason is None or _name(path) in _read().files:
        return
    raise UsageError(
        f"the settings in {boundary.clean_line(str(path))} are not yours, and are not used",
        facts={"reason": reason, "they can": "run programs under your name"},
        fix=f"trtbench trust {shlex.quote(str(path))}, after reading it; or remove it",
    )


def trust_settings(path: Path) -> Path:
    """Remember that a file of settings counts, whoever owns it; gives the file."""
    file = path / "trtbench.toml" if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"there are no settings at {file}", fix="give a trtbench.toml, or the folder it is in"
        )
    known = _read()
    name = _name(file)
    if name not in known.files:
        _write(known.having(files=(*known.files, name)))
    return file


def distrust_settings(path: Path) -> bool:
    """Take back what ``trust_settings`` remembered; tells whether there was something."""
    known = _read()
    names = {_name(path), _name(path / "trtbench.toml")}
    kept = tuple(each for each in known.files if each not in names)
    _write(known.having(files=kept))
    return kept != known.files


def trusted_settings() -> tuple[str, ...]:
    """List the files of settings that were trusted."""
    return _read().files


def first_shown(path: Path, steering: Mapping[str, str]) -> bool:
    """Tell whether what a file of settings steers is new to this user; remembers it."""
    if not steering:
        return False
    digest = hashlib.sha256(msgspec.json.encode(steering, order="sorted")).hexdigest()[:16]
    known, name = _read(), _name(path)
    if known.shown.get(name) == digest:
        return False
    with contextlib.suppress(UsageError, InputError, OSError, RuntimeError):
        _write(known.having(shown={**known.shown, name: digest}))
    return True


def _name(path: Path) -> str:
    return boundary.clean_line(str(path.resolve()))


def _read() -> Trusted:
    """Read the user's own list; one that another user can write counts for nothing."""
    try:
        path = user_config_folder() / TRUSTED
        if boundary.stranger(path) is not None:
            return Trusted()
        return msgspec.json.decode(boundary.read_bytes(path), type=Trusted)
    except (OSError, RuntimeError, InputError, msgspec.MsgspecError):
        return Trusted()


def _write(trusted: Trusted) -> None:
    try:
        folder = user_config_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(folder / TRUSTED, msgspec.json.encode(trusted))
    except RuntimeError:
        raise UsageError(
            "there is no home folder to remember it in", fix="set XDG_CONFIG_HOME to a folder"
        ) from None
    except OSError as problem:
        raise write_error(user_config_folder() / TRUSTED, problem) from None
