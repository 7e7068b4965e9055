"""Gathers the warnings and errors of one run, bounded however long the log is."""

from __future__ import annotations

from trtbench.trtexec._log_messages import known_message
from trtbench.trtexec._log_prefixes import LogLine
from trtbench.trtexec._log_values import LogMessage

MOST_KEPT = 1000
"""Lines kept of each kind that nobody understood, and different messages; counts go on."""
LONGEST_KEPT = 4000
"""Characters kept of a single line or message."""
TAIL = 20


class MessageCollector:
    """Warnings and errors in order of appearance, repeated ones counted."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], LogMessage] = {}
        self.open: tuple[str, str] | None = None
        """The message that lines without a prefix, or indented ones, belong to."""

    def take(self, line: LogLine) -> None:
        """Take a warning or an error in; an indented one continues the one before."""
        text = line.text.strip()[:LONGEST_KEPT]
        before = self._opened()
        if line.text.startswith("  ") and before is not None:
            if len(before.text) < LONGEST_KEPT and text not in before.text:
                self._change(before, text=f"{before.text} {text}")
            return
        self.open = (line.level, text)
        same = self._opened()
        if same is not None:
            self._change(same, count=same.count + 1)
        elif len(self.found) < MOST_KEPT:
            self.found[self.open] = _message(line, text)

    def take_detail(self, text: str) -> bool:
        """Take in a line without a prefix that follows an error; say whether it was one."""
        message = self._opened()
        if message is None or message.level == "W" or message.count > 1:
            return False
        if len(message.detail) >= TAIL:
            return False
        self._change(message, detail=(*message.detail, text[:LONGEST_KEPT]))
        return True

    def messages(self) -> tuple[LogMessage, ...]:
        """List all of them."""
        return tuple(self.found.values())

    def _opened(self) -> LogMessage | None:
        return self.found.get(self.open) if self.open is not None else None

    def _change(self, message: LogMessage, **changes: object) -> None:
        if self.open is not None:
            self.found[self.open] = message.having(**changes)


def _message(line: LogLine, text: str) -> LogMessage:
    known = known_message(text)
    return LogMessage(
        level="W" if line.level == "W" else "F" if line.level == "F" else "E",
        text=text,
        code=known.code if known else None,
        meaning=known.meaning if known else None,
        library=line.library,
    )
