"""A real pseudo-terminal of changing width, and what commands printed on it."""

import contextlib
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

WIDTHS = (60, 80, 100, 120, 200)
WHOLE = 400
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NUMBER = re.compile(
    r"(?<![\w.,])[+−-]?\d{1,3}(?: \d{3}|\d)*(?:\.\d+)? ?"
    r"(?:%|[nµm]?s\b|[KMG]iB|B\b|dB|items/s|batches/s|x\b)"
)

_CHILD = """
import fcntl, json, struct, sys, termios
from pathlib import Path
import msgspec
from trtbench.cli import run
from trtbench.report.document import Document
from trtbench.verbs._screen import draw
for words in json.loads(sys.argv[1]):
    for columns in json.loads(sys.argv[2]):
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        if words[0] == "DRAW":
            content = msgspec.json.decode(Path(words[1]).read_bytes())
            draw(msgspec.convert(content["document"], Document))
        else:
            run(words)
        sys.stdout.write("\\f")
        sys.stdout.flush()
"""
"""One process for all: starting Python takes longer than drawing."""


def screens(
    commands: Sequence[Sequence[str]], *, cwd: Path, widths: Sequence[int] = (*WIDTHS, WHOLE)
) -> list[dict[int, list[str]]]:
    """Run commands on a terminal of every width; gives the lines of stdout without colours.

    ``DRAW FILE`` draws a document, of verbs that would take long to run for every width.
    """
    import json

    main, side = pty.openpty()
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, json.dumps(commands), json.dumps(widths)],
        stdin=side, stdout=side, stderr=subprocess.DEVNULL, cwd=cwd,
        env={**kept, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(side)
    said = b""
    with contextlib.suppress(OSError):  # Linux ends a terminal whose other side closed with EIO
        while part := os.read(main, 65536):
            said += part
    os.close(main)
    child.wait()
    drawn = _COLOURS.sub("", said.decode()).replace("\r", "").split("\f")
    assert len(drawn) == len(commands) * len(widths) + 1
    pages = iter(drawn)
    return [{columns: next(pages).splitlines() for columns in widths} for _ in commands]


def numbers(lines: Sequence[str]) -> set[str]:
    """Find every number that stands before a unit, with it."""
    text = re.sub(r"[\d.]+ [KMG]iB\s+free", "free", "\n".join(lines))  # of a disk others write to
    return set(_NUMBER.findall(text))


def assert_honest(lines: Sequence[str], whole: Sequence[str], *, columns: int) -> None:
    """Hold a narrow screen to the wide one: nothing too wide, no number cut or without unit."""
    for line in lines:
        if line.startswith(
            ("  trtbench ", "  python -m ")
        ):  # a command is left whole, to be copied
            continue
        longest = max(map(len, line.split()), default=0)
        assert len(line) <= max(columns, longest + 24), line
        assert not re.search(r"\d ?…", line), line
    assert numbers(lines) <= numbers(whole), numbers(lines) - numbers(whole)
