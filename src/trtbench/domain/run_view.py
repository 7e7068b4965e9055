"""How a run shows itself in Python: as a line, a text, a small page, a frame and a picture.

Knows the fields of a run; pandas and matplotlib are imported by those who ask for them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from trtbench.boundary import clean_line
from trtbench.errors import UsageError
from trtbench.extras import optional_library
from trtbench.units import counted, text_from_seconds

if TYPE_CHECKING:
    from pathlib import Path

    from pandas import DataFrame

    from trtbench.domain.samples import Column, IterationTimes

BINS = 60
FAR = 99.5
"""A picture ends at this percentile: one late sample must not squeeze the rest into a bar."""
WIDTH, HEIGHT = 480, 90


class RunView:
    """Shows a run: ``print(run)``, ``run`` in a notebook, ``run.to_pandas()``, ``run.plot()``."""

    if TYPE_CHECKING:
        times: IterationTimes
        path: Path | None

        @property
        def id(self) -> str: ...
        @property
        def title(self) -> str: ...
        @property
        def remarks(self) -> list[tuple[str, str]]: ...

    def __repr__(self) -> str:
        """Write one line: which run, of what, its median, and how many warnings it has."""
        head = self.times.durations().get(self.times.headline)
        parts = [self.title]
        if head is not None and len(head):
            median = text_from_seconds(float(np.nanmedian(head)))
            parts.append(f"{self.times.headline} median {median} of {len(head)}")
        parts += [counted(count, name) for name, count in self._counts().items()]
        return clean_line(f"<Run {self.id}: {', '.join(parts)}>")

    def __str__(self) -> str:
        """Tell what was measured, the median of every column, and what the tool thinks of it."""
        lines = [self.title]
        for name, column in self.times.durations().items():
            if len(column):
                low, mid, high = (text_from_seconds(float(v)) for v in _ends(column))
                lines.append(f"  {name:<10} median {mid}, {low} to {high}, n={len(column)}")
        lines += [f"  {remark}" for _, remark in self.remarks]
        lines.append(f"  run {self.id}" + (f" in {self.path}" if self.path else ""))
        return "\n".join(map(clean_line, lines))

    def _repr_html_(self) -> str:
        """Write a small table, a picture of the times, and what stands against the numbers."""
        rows = [
            html_row("td", name, *(text_from_seconds(float(v)) for v in _ends(column)), len(column))
            for name, column in self.times.durations().items()
            if len(column)
        ]
        table = "".join(
            [
                "<table>",
                html_row("th", "Time", "Min", "Median", "Max", "Samples"),
                *rows,
                "</table>",
            ]
        )
        said = "".join(
            f"<li>{escaped(remark)}</li>" for severity, remark in self.remarks if severity != "note"
        )
        head = self.times.durations().get(self.times.headline)
        return "".join(
            (
                f"<p><b>{escaped(self.title)}</b><br>run {escaped(self.id)}</p>",
                table if rows else "",
                _svg(head) if head is not None and len(head) else "",
                f"<ul>{said}</ul>" if said else "",
            )
        )

    def to_pandas(self) -> DataFrame:
        """Make a DataFrame of the times: a row per iteration, columns in seconds."""
        pandas = optional_library("pandas")
        columns: dict[str, object] = {
            f"{name}_s": np.asarray(column) for name, column in self.times.durations().items()
        }
        if self.times.start is not None:
            columns["start_s"] = np.asarray(self.times.start)
        if self.times.launch is not None:
            columns["launch"] = np.asarray(self.times.launch)
        frame: DataFrame = pandas.DataFrame(columns)
        frame.index.name = "iteration"
        return frame

    def plot(self, column: str | None = None) -> object:
        """Draw how one column is distributed and how it went over time; returns the figure."""
        name = column or self.times.headline
        values = self.times.durations().get(name)
        if values is None or not len(values):
            known = ", ".join(self.times.durations()) or "none: the run keeps no samples"
            raise UsageError(
                f"the run has no times called {name}",
                facts={"columns": known},
                fix=f"plot({self.times.headline!r})" if self.times.durations() else None,
            )
        pyplot = optional_library("matplotlib.pyplot")
        far, unit, scale = _range(values)
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
        left.hist(np.minimum(values, far) / scale, bins=BINS)
        left.axvline(float(np.nanmedian(values)) / scale, linestyle="--", color="black")
        left.set(xlabel=f"{name} ({unit})", ylabel="samples")
        right.plot(np.asarray(values) / scale, ".", markersize=2)
        right.set(xlabel="iteration", ylabel=f"{name} ({unit})", ylim=(0, far / scale * 1.05))
        figure.suptitle(self.title, fontsize="medium")
        return figure

    def _counts(self) -> dict[str, int]:
        found = Counter(severity for severity, _ in self.remarks)
        return {name: found[name] for name in ("error", "warning") if found[name]}


def _ends(column: Column) -> tuple[float, float, float]:
    low, middle, high = np.nanquantile(column, (0.0, 0.5, 1.0))
    return float(low), float(middle), float(high)


def _range(column: Column) -> tuple[float, str, float]:
    """Find where a picture ends, and the unit that suits it."""
    far = float(np.nanpercentile(column, FAR))
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
    unit, scale = next((each for each in units if far >= each[1]), units[-1])
    return far, unit, scale


def escaped(text: str) -> str:
    """Make text stand for itself in a page, on one line."""
    import html  # a notebook wants it, a worker does not

    return html.escape(clean_line(text))


def html_row(tag: str, *cells: object) -> str:
    """Write one row of a table of HTML."""
    return f"<tr>{''.join(f'<{tag}>{escaped(str(cell))}</{tag}>' for cell in cells)}</tr>"


def _svg(column: Column) -> str:
    far, unit, scale = _range(column)
    finite = np.asarray(column)[np.isfinite(column)]
    counts, edges = np.histogram(np.minimum(finite, far), bins=BINS)
    step, most = WIDTH / BINS, max(int(counts.max()), 1)
    bars = "".join(
        f'<rect x="{n * step:.1f}" y="{HEIGHT * (1 - count / most):.1f}" width="{step - 1:.1f}" '
        f'height="{HEIGHT * count / most:.1f}"/>'
        for n, count in enumerate(counts)
        if count
    )
    low, high = (f"{edge / scale:.4g} {unit}" for edge in (edges[0], edges[-1]))
    words = (
        f'<text x="0" y="{HEIGHT + 15}">{low}</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + 15}" text-anchor="end">{high}</text>'
    )
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT + 20}" viewBox="0 0 {WIDTH} {HEIGHT + 20}" '
        f'role="img" aria-label="How times are distributed" font-size="12" fill="currentColor">'
        f'<g opacity="0.7">{bars}</g>{words}</svg>'
    )
