"""The printed table of layer times, with the layer's name first or last."""

from __future__ import annotations

import math
import re

from trtbench.domain.samples import LayerProfile, LayerTime
from trtbench.trtexec._log_lines import number

HEADING = re.compile(r"=== Profile \((\d{1,12}) iterations ?\) ===")


class ProfileCollector:
    """Gathers the rows of one table; which column is which is read off its heading."""

    def __init__(self, *, iterations: int | None) -> None:
        self.iterations = iterations
        self.rows: list[LayerTime] = []
        self.total: LayerTime | None = None
        self.columns: int | None = None
        self.name_last = False

    def take(self, text: str) -> bool:
        """Take a line in; say whether it belonged to the table."""
        words = text.split()
        if self.columns is None:
            return self._heading(words)
        row = self._row(text)
        if row is None:
            return False
        if self.total is not None:  # a layer that is called Total, not the last row
            self.rows.append(self.total)
            self.total = None
        if row.name == "Total":
            self.total = row
        else:
            self.rows.append(row)
        return True

    def _heading(self, words: list[str]) -> bool:
        if "Layer" not in (words[:1] + words[-1:]):
            return False
        self.name_last = words[-1] == "Layer"
        self.columns = 4 if any(word.startswith("Median") for word in words) else 3
        return True

    def _row(self, text: str) -> LayerTime | None:
        columns = self.columns or 0
        if self.name_last:
            *cells, name = text.split(None, columns) if text.strip() else [""]
        else:
            name, *cells = text.rsplit(None, columns) if text.strip() else [""]
        values = [number(cell) for cell in cells]
        if len(values) != columns or any(value is None for value in values):
            return None
        total, average, *middle, percent = (value or 0.0 for value in values)
        return LayerTime(
            name=name.strip(),
            total_s=total * 1e-3,
            average_s=average * 1e-3,
            median_s=middle[0] * 1e-3 if middle else None,
            share=None if math.isnan(percent) else percent / 100,
        )

    def profile(self) -> LayerProfile | None:
        """Find the table, or ``None`` when it has no rows."""
        if not self.rows:
            return None
        return LayerProfile(count=self.iterations, layers=tuple(self.rows))
