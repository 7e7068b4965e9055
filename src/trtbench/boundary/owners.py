"""Owners of files that steer the program: whose word counts."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def stranger(path: Path) -> str | None:
    """Say why a file must not steer what this user does; ``None`` when it may.

    It and its folder belong to this user, to whoever called sudo, or to the system, and nobody
    else can write to them. A sticky folder such as /tmp keeps others from replacing the file.
    """
    trusted = _own_users()
    folder = path.absolute().parent
    for each, facts in ((path, path.lstat()), (path, path.stat()), (folder, folder.stat())):
        if facts.st_uid not in trusted:
            return f"{each} belongs to {user_name(facts.st_uid)}, not to {user_name(os.getuid())}"
        sticky = stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_ISVTX
        link = stat.S_ISLNK(facts.st_mode)
        if facts.st_mode & stat.S_IWOTH and not sticky and not link:
            return f"{each} can be written by everyone"
    return None


def _own_users() -> set[int]:
    users = {os.getuid(), 0}
    caller = os.environ.get("SUDO_UID", "")
    if os.getuid() == 0 and caller.isdecimal():
        users.add(int(caller))
    return users


def user_name(number: int) -> str:
    """Name a user; a number that nobody has stays one."""
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
