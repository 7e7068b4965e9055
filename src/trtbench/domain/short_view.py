"""How a result with many parts shows itself in Python: its fields, on one screen."""

from __future__ import annotations

import reprlib
from dataclasses import fields, is_dataclass

WIDTH = 78
LINES = 20
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = WIDTH
_SHORT.maxlevel = 2


class ShortView:
    """Shows a value by its fields, a line for each, cut to the width of a terminal."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Write the fields, a line for each; a value that is short is one line."""
        shown = self._fields()
        line = f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in shown)})"
        if len(line) <= WIDTH:
            return line
        rows = [_cut(f"  {name}={text}") for name, text in shown[:LINES]]
        more = [f"  and {len(shown) - LINES} more"] if len(shown) > LINES else []
        return "\n".join([f"{type(self).__name__}(", *rows, *more, ")"])

    def _repr_html_(self) -> str:
        """Write the fields as a small table."""
        import html  # a notebook wants it, a worker does not

        rows = (
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(_cut(text))}</td></tr>"
            for name, text in self._fields()
        )
        return f"<p><b>{type(self).__name__}</b></p><table>{''.join(rows)}</table>"

    def _fields(self) -> list[tuple[str, str]]:
        names = (
            [each.name for each in fields(self)] if is_dataclass(self) else self.__struct_fields__  # type: ignore[attr-defined]
        )
        values = ((name, getattr(self, name)) for name in names)
        return [(name, _SHORT.repr(value)) for name, value in values if not _is_empty(value)]


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, tuple | list | dict) and not value)


def _cut(text: str) -> str:
    line = " ".join(text.splitlines())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 4]} ..."
