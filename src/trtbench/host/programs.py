"""Programs that a worker starts to do the work: found, asked for help, run with a log.

Knows that there is a program with a name and a log; not what it measures or what its flags mean.
"""

from __future__ import annotations

import shlex
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from trtbench.boundary import at_home, mask, mask_words
from trtbench.errors import UnavailableError
from trtbench.host.process import Exit, run_process
from trtbench.host.unfinished import temporary_folder

HELP_S = 60.0
"""A program on a cold disk needs seconds to print its help; longer is a hang."""

LOOK_S = 0.25
"""How often the log of a running program is looked at: rarely, because it is measuring."""

TRTEXEC_FOLDERS = (Path("/usr/src/tensorrt/bin"), Path("/opt/tensorrt/bin"))
"""Where NVIDIA's packages and containers put trtexec, off the search path."""

INSTALL = "sudo apt install libnvinfer-bin, or --opt binary=PATH, or -r tensorrt"


def find_trtexec(*, folders: Sequence[Path] = TRTEXEC_FOLDERS) -> Path | None:
    """Return the trtexec on the search path, or the one NVIDIA's packages install."""
    for path in (None, *map(str, folders)):
        found = shutil.which("trtexec", path=path)
        if found:
            return Path(found)
    return None


def trtexec_binary(given: str | None) -> str:
    """Write the trtexec to run: the one that was named, on the search path, or where NVIDIA's are.

    The name is kept as it was given, so that a command can be pasted.
    """
    if given is not None:
        # A path forgets ./, and a bare name is looked for on the search path.
        found = shutil.which(str(at_home(given)) if given.startswith("~") else given)
        if found is None:
            raise UnavailableError(
                f"there is no program that can be run at {given}", fix="--opt binary=PATH"
            )
        return found
    path = find_trtexec()
    if path is None:
        folders = ", ".join(str(folder) for folder in TRTEXEC_FOLDERS)
        raise UnavailableError(
            "trtexec is not installed here", facts={"looked": f"PATH, {folders}"}, fix=INSTALL
        )
    return str(path)


def trtexec_missing() -> str | None:
    """Say in a few words that there is no trtexec; ``None`` where there is one."""
    return None if find_trtexec() else "trtexec is not on PATH nor where NVIDIA's packages put it"


def help_text(binary: str, *, timeout_s: float = HELP_S) -> str:
    """Ask a program for its help."""
    with temporary_folder() as folder:
        log = folder / "help.txt"
        try:
            end = run_process([binary, "--help"], log=log, timeout_s=timeout_s, own_group=False)
            text = log.read_text("utf-8", "replace")
        except OSError as problem:
            raise UnavailableError(
                f"{binary} does not start", facts={"reason": problem.strerror or problem}
            ) from None
    if end.timed_out or end.status != 0:
        how = f"no answer within {timeout_s:.0f} s" if end.timed_out else ended_how(end)
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "nothing")
        raise UnavailableError(
            f"{binary} --help does not work", facts={"it": how, "it said": last}, fix=INSTALL
        )
    return text


def run_logged(
    command: Sequence[str], *, log: Path, on_text: Callable[[str], None] | None = None
) -> Exit:
    """Run a program in this process's group; its log begins with the command.

    ``on_text`` is told what the program has written since the last look.
    """
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"# run by trtbench:\n{shlex.join(mask_words(command))}\n")
    seen = [log.stat().st_size]

    def look() -> None:
        if on_text is not None:
            with open(log, "rb") as file:
                file.seek(seen[0])
                data = file.read()
            seen[0] += len(data)
            on_text(data.decode("utf-8", "replace"))

    try:
        end = run_process(command, log=log, own_group=False, tick_s=LOOK_S, on_tick=look)
        look()
    except OSError as problem:
        raise UnavailableError(
            f"{command[0]} does not start", facts={"reason": problem.strerror or problem}
        ) from None
    finally:
        _hide_secrets(command, log)
    return end


def _hide_secrets(command: Sequence[str], log: Path) -> None:
    """Hide in a log what was secret in a command: programs repeat how they were called."""
    if mask_words(command) == list(command):
        return
    text = log.read_bytes().decode("utf-8", "surrogateescape")
    text = "".join(map(mask, text.splitlines(keepends=True)))
    log.write_bytes(text.encode("utf-8", "surrogateescape"))


def ended_how(end: Exit) -> str:
    """Say how a program ended."""
    return f"ended by {end.signal}" if end.signal else f"ended with status {end.status}"


def status_of(end: Exit) -> int | None:
    """Compute the status as one number, as a record keeps it: below zero, a signal."""
    if end.signal is None:
        return end.status
    number = getattr(signal, end.signal, None) or end.signal.rpartition(" ")[2]
    return -int(number)
