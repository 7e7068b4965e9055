"""A real pseudo-terminal of a given width, and what a command printed on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

WIDTHS = (60, 80, 100, 120, 200)
SECONDS = 240
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NUMBER = re.compile(r"[+−-]?\d[\d .,]*\d? ?(?:%|[nµm]?s\b|[KMG]iB|B\b|dB|items/s|batches/s|x\b)")


def screen(
    arguments: Sequence[str], *, columns: int, cwd: Path, env: Mapping[str, str] | None = None
) -> list[str]:
    """Run the command line on a pseudo-terminal and give the lines of its stdout, uncoloured."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    child = subprocess.Popen(
        [sys.executable, "-m", "trtbench", *arguments],
        stdin=side, stdout=side, stderr=subprocess.DEVNULL, cwd=cwd,
        env={**kept, "TERM": "xterm-256color", **(env or {})},
    )  # fmt: skip
    os.close(side)
    said = b""
    with contextlib.suppress(OSError):  # Linux ends a terminal whose other side closed with EIO
        while part := os.read(main, 65536):
            said += part
    os.close(main)
    child.wait(timeout=SECONDS)
    return _COLOURS.sub("", said.decode()).replace("\r", "").splitlines()


def numbers(lines: Sequence[str]) -> set[str]:
    """Give every number that stands before a unit, with it."""
    return {each.strip() for line in lines for each in _NUMBER.findall(line)}


def assert_honest(lines: Sequence[str], whole: Sequence[str], *, columns: int) -> None:
    """Hold a narrow screen to the wide one: nothing too wide, no number cut, loss is said."""
    for line in lines:
        longest = max(map(len, line.split()), default=0)
        assert len(line) <= max(columns, longest + 24), line
        assert not re.search(r"\d ?…", line), line
    assert numbers(lines) <= numbers(whole), numbers(lines) - numbers(whole)
