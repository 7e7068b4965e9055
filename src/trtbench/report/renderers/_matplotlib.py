"""Charts drawn with matplotlib, without pyplot and its global state: as PNG, and as SVG for pages.

A chart is laid out once for both. An SVG keeps its text as text, names its colours by variables of
the page (light and dark) and shows the value under the pointer. A PNG has title and caption, too.
A letter that no installed font has is drawn as a box in a PNG.
"""

from __future__ import annotations

import html
import io
import math
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import matplotlib as mpl
import msgspec
import numpy as np
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Page
from matplotlib.font_manager import FontProperties, findfont, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from trtbench.core.safety import clean_line
from trtbench.core.units import text_from_number, with_minus
from trtbench.report import charts
from trtbench.report.charts import TAILS, Axis, Bars, Boxes, Chart, Histogram, Line, Lines, Mark
from trtbench.report.document import Figure
from trtbench.report.run_facts import shortened, shortened_apart

Numbers = NDArray[np.float64]

ONE_PANEL_IN, PANEL_IN, BAR_IN, BOX_IN, FRAME_IN, LEGEND_IN = 4.5, 2.3, 0.34, 0.6, 1.2, 0.29
ROOMY_BOXES = 20
"""More boxes than this are drawn as close as bars."""
TITLE_COLUMNS, CAPTION_COLUMNS = 90, 132
LEGEND_COLUMNS = 135
"""Characters of legend text that fit side by side."""
HANDLE = 9
"""Characters as wide as the mark before a name and the gap behind it."""
TITLE_LENGTH = NAME_LENGTH = 60
BAR_NAME_LENGTH = 40
LABELLED_BARS = 40
"""Beside more bars than this, numbers would be a wall of text."""
MOST_POINTS = 600
"""Points of one cloud; lowest and highest of every stretch are kept."""
MOST_RINGS = 400
"""Outliers of all boxes: each is an element of an SVG."""
HINTED_POINTS = 40
"""Points of a curve that show their value under the pointer."""
DAY_S = 86_400.0
"""matplotlib counts time in days since 1970."""
SHAPES = dict(zip(charts.SHAPES, "osD^P*", strict=True))
_VARIABLES = {light.lower(): f"var(--c-{name})" for name, (light, _) in charts.TOKENS.items()}
_BEHIND_TEXT = {"facecolor": charts.PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
_SETTINGS: Any = {
    "font.size": charts.FONT_PT, "axes.labelsize": charts.FONT_PT, "axes.titlesize": charts.FONT_PT,
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), charts.SMALL_PT + 1),
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), charts.INK),
    "axes.edgecolor": charts.GREY, "grid.color": charts.PALE,
    "figure.facecolor": charts.PAPER, "axes.facecolor": charts.PAPER,
    "axes.linewidth": 1.0, "grid.linewidth": 1.0, "lines.linewidth": 2.4,
    "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
    "axes.grid": True, "axes.axisbelow": True, "axes.unicode_minus": True,
    "text.usetex": False, "text.parse_math": False, "svg.fonttype": "none",
    "figure.constrained_layout.h_pad": 0.08, "figure.constrained_layout.w_pad": 0.08,
}  # fmt: skip
_DRAWN: WeakKeyDictionary[Figure, _Painter] = WeakKeyDictionary()
"""Charts that were laid out, for other formats of the same document."""


def png_from_figure(figure: Figure) -> bytes:
    """Draw a figure with its title and caption as PNG."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    painter = _painter(figure)
    with mpl.rc_context(painter.settings), _quiet_fonts():
        title = textwrap.fill(figure.title, TITLE_COLUMNS)
        parts = [painter.strip(title, charts.TITLE_PT, fontweight="bold"), painter.pixels()]
        if figure.caption:
            words = textwrap.fill(figure.caption, CAPTION_COLUMNS)
            parts.append(painter.strip(words, charts.SMALL_PT, color=charts.GREY))
    image = Image.fromarray(np.concatenate(parts)[:, :, :3])
    maker = PngInfo()
    maker.add_text("Software", "trtbench")
    buffer = io.BytesIO()
    # Level 4 takes a third of the time for a tenth more bytes.
    image.save(buffer, format="PNG", compress_level=4, pnginfo=maker)
    return buffer.getvalue()


def svg_from_figure(figure: Figure) -> str:
    """Draw a figure as SVG to stand in a page, which shows its title and caption itself."""
    painter = _painter(figure)
    with mpl.rc_context(painter.settings | {"svg.hashsalt": figure.id}), _quiet_fonts():
        text, hints = painter.svg()
    # Leave out what a page does not need, and let the page choose fonts and colours.
    body = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"<style[^>]*>[^<]*</style>", "", body)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r"font: (?:(bold|\d+) )?([\d.]+)px [^;\"]*", _font, body)
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body)
    body = re.sub(r"(\.\d)\d{3,}", r"\1", body)
    body = re.sub(r"#[0-9a-f]{6}", lambda found: _VARIABLES.get(found[0], found[0]), body)
    body = re.sub(r"\n\s*", "\n", body).replace(" \nL ", "L").replace(" \n", " ")
    size = re.search(r'viewBox="([^"]*)"', text)
    label = html.escape(clean_line(f"{figure.title}. {figure.caption or ''}"))
    return (
        f'<svg class="plot" role="img" aria-label="{label}" viewBox="{size[1] if size else ""}" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f"{body.strip()}<g class='hints'>{hints}</g></svg>"
    )


def _font(found: re.Match[str]) -> str:
    weight = f"font-weight: {found[1]}; " if found[1] else ""
    return f"{weight}font-size: {found[2]}px"


@contextmanager
def _quiet_fonts() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def _painter(figure: Figure) -> _Painter:
    """Lay a figure out, once for both formats."""
    if figure not in _DRAWN:
        first = families()[:1]
        known = FT2Font(findfont(FontProperties(family=first[0]))).get_charmap()
        letters = set(msgspec.json.encode(figure).decode() + "−▸…")
        # Asking every font for every letter takes time.
        fonts = first if all(ord(letter) in known for letter in letters) else families()
        with _quiet_fonts():
            _DRAWN[figure] = _Painter(figure.chart, fonts)
    return _DRAWN[figure]


class _Painter:
    """One chart on a page of matplotlib, and where its values lie."""

    def __init__(self, chart: Chart, fonts: list[str]) -> None:
        self.settings: Any = _SETTINGS | {"font.family": fonts}
        self._hints: list[tuple[Axes, Numbers, list[str]]] = []
        """Axes, a box in data coordinates for each value (left, bottom, right, top), and words."""
        with mpl.rc_context(self.settings):
            self.page = Page(figsize=(charts.WIDTH_IN, self._height(chart)), layout="constrained")
            if isinstance(chart, Lines):
                self._lines(chart)
            elif isinstance(chart, Histogram):
                self._histogram(chart)
            elif isinstance(chart, Bars):
                self._bars(chart)
            else:
                self._boxes(chart)

    def strip(self, words: str, size: float, **look: Any) -> NDArray[np.uint8]:
        """Draw lines of text as wide as the chart."""
        height = (words.count("\n") + 1) * size * 1.3 / 72 + 0.16
        page = Page(figsize=(charts.WIDTH_IN, height))
        page.text(0.012, 0.5, self.text(words), va="center", fontsize=size, **look)
        return self.pixels(page)

    def pixels(self, page: Page | None = None) -> NDArray[np.uint8]:
        """Draw the chart, or another page."""
        page = page or self.page
        page.set_dpi(charts.DPI)
        canvas = FigureCanvasAgg(page)
        canvas.draw()  # type: ignore[no-untyped-call]
        page.set_layout_engine("none")
        return np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]

    def svg(self) -> tuple[str, str]:
        """Draw the chart, and a transparent rectangle with a title for every value."""
        canvas = FigureCanvasSVG(self.page)
        self.page.set_dpi(72)
        buffer = io.BytesIO()
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        canvas.print_svg(buffer, metadata=nothing)  # type: ignore[no-untyped-call]
        self.page.set_layout_engine("none")
        hints = []
        height = self.page.get_figheight() * 72
        for axes, boxes, words in self._hints:
            view = axes.get_window_extent()
            corners = axes.transData.transform(boxes.reshape(-1, 2)).reshape(-1, 4)
            for (x0, y0, x1, y1), text in zip(corners, words, strict=True):
                x0, x1 = sorted((x0, x1))
                y0, y1 = sorted((y0, y1))
                if not all(map(math.isfinite, (x0, y0, x1, y1))) or x1 < view.x0 or x0 > view.x1:
                    continue
                grow_x, grow_y = max(0.0, 8 - (x1 - x0)) / 2, max(0.0, 8 - (y1 - y0)) / 2
                hints.append(
                    f'<rect x="{x0 - grow_x:.1f}" y="{height - y1 - grow_y:.1f}" '
                    f'width="{x1 - x0 + 2 * grow_x:.1f}" height="{y1 - y0 + 2 * grow_y:.1f}">'
                    f"<title>{html.escape(clean_line(text), quote=False)}</title></rect>"
                )
        return buffer.getvalue().decode(), "".join(hints)

    def text(self, words: str) -> str:
        return "\n".join(clean_line(line) for line in words.split("\n"))

    def hint(self, axes: Axes, found: Iterable[tuple[Sequence[float], str]]) -> None:
        """Show words under the pointer where it is in a box."""
        if pairs := list(found):
            boxes, words = zip(*pairs, strict=True)
            self._hints.append((axes, np.array(boxes, dtype=float), list(words)))

    def _height(self, chart: Chart) -> float:
        if isinstance(chart, Bars):
            legend = 2 * LEGEND_IN if len(chart.groups) > 1 else 0.0
            side_by_side = 1 if chart.stacked else max(1.0, 0.8 * len(chart.groups))
            return FRAME_IN + legend + BAR_IN * side_by_side * max(3, len(chart.categories))
        if isinstance(chart, Boxes):
            each = BOX_IN if len(chart.boxes) <= ROOMY_BOXES else BAR_IN
            return FRAME_IN + each * max(2, len(chart.boxes))
        panels = len(chart.groups) if isinstance(chart, Histogram) else len(chart.panels)
        height = ONE_PANEL_IN if panels == 1 else FRAME_IN + PANEL_IN * panels
        if isinstance(chart, Histogram):
            return height
        named = sum(bool(line.name) for line in chart.panels[0].lines)
        return height + LEGEND_IN * max(0, named - 2)

    # ---- axes

    def dress(self, axes: Axes, axis: Axis, which: str, values: Iterable[float] = ()) -> None:
        """Set the scale, the ticks and the range of one axis."""
        side = getattr(axes, f"{which}axis")
        if axis.scale == "tail":
            side.set_major_locator(FixedLocator([-math.log10(1 - q) for q in TAILS]))
            side.set_minor_locator(NullLocator())
            form = FuncFormatter(lambda place, _: f"{100 * (1 - 10**-place):.5g} %")
            side.set_major_formatter(form)
        elif axis.scale == "time":
            locator = dates.AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
            side.set_major_locator(locator)
            side.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        elif axis.scale == "log2":
            getattr(axes, f"set_{which}scale")("log", base=2)
            side.set_major_locator(FixedLocator(sorted(set(values))))
            side.set_minor_locator(NullLocator())
            side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        elif axis.scale == "log":
            getattr(axes, f"set_{which}scale")("log")
            ratio = axis.high / axis.low if axis.low and axis.high else math.inf
            steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if ratio < 6 else (1.0, 2.0, 3.0, 5.0)
            side.set_major_locator(LogLocator(subs=steps if ratio < 15 else (1.0, 2.0, 5.0)))
            side.set_minor_locator(NullLocator())
            side.set_major_formatter(FuncFormatter(_plain))
        else:
            side.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 2.5, 5, 10]))
            side.set_major_formatter(FuncFormatter(_plain))
        if axis.low is not None or axis.high is not None:
            # Setting limits, even to nothing, would stop panels that share an axis from widening.
            getattr(axes, f"set_{which}lim")(axis.low, axis.high)

    def legend(self, axes: Axes, names: list[str], *, taken: int = 0, above: bool = False) -> None:
        """Put a legend above the axes (and above their title), in as many columns as fit."""
        if not names:
            return
        columns = LEGEND_COLUMNS - taken
        longest = max(len(name) for name in names) + HANDLE
        in_a_row = sum(len(name) + HANDLE for name in names) <= columns
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.2 if above else 1.0),
            borderaxespad=0.2,
            ncols=len(names) if in_a_row else max(1, columns // longest),
            markerscale=1.2,
            handlelength=1.8,
            columnspacing=1.4,
        )

    def marks(self, axes: Axes, marks: Iterable[Mark]) -> None:
        """Draw marks with their words in rows of their own, so that words never meet."""
        look: Any = {"linewidth": 1.6, "linestyle": (0, (4, 2)), "zorder": 3}
        row = 0
        for mark in marks:
            colour = charts.colour(mark.role)
            if mark.axis == "y":
                axes.axhline(mark.at, color=colour, **look)
                sides = ("axes fraction", "data")
                self.note(axes, mark.text, (0.0, mark.at), (6, 3), sides, color=colour)
                continue
            low, high = axes.get_xlim()
            if low <= mark.at <= high:
                axes.axvline(mark.at, color=colour, **look)
            if mark.text:
                words = f"{mark.text} ▸" if mark.at > high else mark.text
                at = (min(max(mark.at, low), high), 0.97 - 0.15 * row)
                left = axes.transLimits.transform(axes.transScale.transform((at[0], 1)))[0] < 0.78
                place: Any = {"ha": "left" if left else "right", "va": "top", "color": colour}
                offset, sides = (6 if left else -6, 0), ("data", "axes fraction")
                self.note(axes, words, at, offset, sides, bbox=_BEHIND_TEXT, **place)
                row += 1

    def note(
        self,
        axes: Axes,
        words: str,
        at: tuple[float, float],
        offset: tuple[float, float],
        coordinates: Any = "data",
        **look: Any,
    ) -> None:
        """Write small words beside a point."""
        look = {"fontsize": charts.SMALL_PT, "zorder": 5, **look}
        axes.annotate(self.text(words), at, offset, coordinates, textcoords="offset points", **look)

    def panel_title(self, axes: Axes, text: str, colour: str) -> None:
        # A fixed height (y) spares matplotlib a search for one, a third of its time.
        size = charts.SMALL_PT + 1
        axes.set_title(
            self.text(text), loc="left", fontsize=size, fontweight="bold", color=colour, pad=5, y=1
        )

    def panels(self, count: int, *, sharey: bool) -> list[Axes]:
        grid = self.page.subplots(count, 1, sharex=True, sharey=sharey, squeeze=False)
        return list(grid[:, 0])

    # ---- lines and histograms

    def _histogram(self, chart: Histogram) -> None:
        panels = self.panels(len(chart.groups), sharey=False)
        several = len(chart.groups) > 1
        unit = f" {chart.x.unit}" if chart.x.unit else ""
        ranges = [f"{low:.4g} to {high:.4g}{unit}" for low, high in pairwise(chart.edges)]
        for axes, group in zip(panels, chart.groups, strict=True):
            colour = charts.colour(group.role)
            axes.stairs(group.counts, chart.edges, fill=True, color=colour, alpha=0.85, zorder=2)
            self.dress(axes, chart.x, "x")
            self.dress(axes, chart.y, "y")
            axes.set_ylim(0, max(1, *group.counts) * (1.45 if several else 1.25))
            axes.grid(axis="x", visible=False)
            axes.set_ylabel(self.text(chart.y.label))
            self.marks(axes, group.marks)
            length = TITLE_LENGTH * 2 // 3 if group.beyond else TITLE_LENGTH
            self.panel_title(axes, shortened(group.name, length=length), colour)
            if group.beyond:
                words, outlier = self.text(f"{group.beyond} ▸"), charts.colour("outlier")
                size = charts.SMALL_PT
                axes.set_title(words, loc="right", fontsize=size, color=outlier, pad=5, y=1.0)
            bins = zip(pairwise(chart.edges), group.counts, ranges, strict=True)
            self.hint(
                axes,
                (
                    ((low, 0, high, count), f"{words}: {count} samples")
                    for (low, high), count, words in bins
                    if count
                ),
            )
        panels[-1].set_xlabel(self.text(chart.x.label))

    def _lines(self, chart: Lines) -> None:
        own = any(panel.low is not None for panel in chart.panels)
        several = len(chart.panels) > 1
        panels = self.panels(len(chart.panels), sharey=not own)
        for axes, panel in zip(panels, chart.panels, strict=True):
            quantity = panel.y or chart.y
            for line in panel.lines:
                self._line(axes, line, chart.x, quantity)
            self.dress(axes, chart.x, "x", [x for line in panel.lines for x in line.x])
            ys = [y for line in panel.lines for y in line.y if y is not None]
            self.dress(axes, chart.y, "y", ys)
            low = chart.y.low if panel.low is None else panel.low
            high = chart.y.high if panel.high is None else panel.high
            if low is not None and high is not None and chart.y.scale == "linear":
                # Points on the edge of the range are cut in half without a little room.
                room = 0.04 * (high - low)
                axes.set_ylim(low - room, high + room)
            self.marks(axes, panel.marks)
            if not several:
                axes.set_ylabel(self.text(chart.y.label))
            elif panel.y:
                self.panel_title(axes, panel.y.label, charts.INK)
            elif panel.title:
                colour = charts.colour(panel.lines[0].role) if panel.lines else charts.INK
                self.panel_title(axes, shortened(panel.title, length=TITLE_LENGTH), colour)
        names = [shortened(n.name, length=NAME_LENGTH) for n in chart.panels[0].lines if n.name]
        if not several or any(panel.y for panel in chart.panels):
            self.legend(panels[0], names, above=several)
        else:
            # A label beside each panel would be longer than the panel is high.
            self.page.supylabel(self.text(chart.y.label), fontsize=charts.FONT_PT)
        panels[-1].set_xlabel(self.text(chart.x.label))

    def _line(self, axes: Axes, line: Line, x_axis: Axis, y_axis: Axis) -> None:
        x, y = _places(line.x, x_axis), _places(line.y, y_axis)
        colour, dashes = charts.colour(line.role), charts.dash(line.role)
        name = self.text(shortened(line.name, length=NAME_LENGTH)) if line.name else "_nolegend_"
        common: dict[str, Any] = {"color": colour, "label": name}
        ends = [
            (at, low, high)
            for at, low, high in zip(x, line.low, line.high, strict=False)
            if low is not None and high is not None
        ]
        if ends:
            at, low, high = zip(*ends, strict=True)
            axes.vlines(at, low, high, color=colour, linewidth=1.6, zorder=2)
        for place, words in enumerate(line.texts):
            self.note(axes, words, (x[place], y[place]), (9, -15), color=charts.GREY)
        if line.style == "points":
            # In an SVG each mark would be an element; very short dashes are one path for all.
            size = 5.0 if len(x) < 400 else 3.2
            kept = np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).astype(int)
            short = 1e-5 * (float(x.max() - x.min()) or 1.0) if len(x) else 0.0
            gaps = np.full(len(kept), np.nan)
            edges = np.column_stack([x[kept], x[kept] + short, gaps]).ravel()
            heights = np.column_stack([y[kept], y[kept], gaps]).ravel()
            common |= {"alpha": 0.5, "solid_capstyle": "round"}
            axes.plot(edges, heights, lw=size, zorder=2, **common)
        else:
            looks: dict[str, dict[str, Any]] = {
                "ring": {"linestyle": "", "marker": "o", "ms": 7, "mfc": "none", "mew": 1.6},
                "beyond": {"linestyle": "", "marker": "^", "ms": 8, "mew": 0, "clip_on": False},
                "dotted": {"linestyle": (0, (1, 1.6)), "alpha": 0.8},
                "both": {"linestyle": dashes, "marker": "o", "ms": 9},
                "mark": {"linestyle": "", "marker": SHAPES[charts.shape(line.role)], "ms": 12},
            }
            look = looks.get(line.style, {"linestyle": dashes})
            axes.plot(x, y, zorder=3, **look, **common)
        if line.style == "points" and len(x) > HINTED_POINTS:
            return  # a cloud: what stands out of it has a line of its own
        known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if len(known) > HINTED_POINTS:
            known = known[np.linspace(0, len(known) - 1, HINTED_POINTS).astype(int)]
        before = f"{line.name}: " if line.name else ""
        before += "above the range, " if line.style == "beyond" else ""

        def words_at(k: int) -> str:
            interval = ""
            if line.low and line.low[k] is not None and line.high[k] is not None:
                interval = f" ({_value(line.low[k], y_axis)} to {_value(line.high[k], y_axis)})"
            at = f"{x_axis.title} {_value(line.x[k], x_axis)}"
            return f"{before}{_value(line.y[k], y_axis)}{interval} · {at}"

        self.hint(axes, (((x[k], y[k], x[k], y[k]), words_at(int(k))) for k in known))

    # ---- bars and boxes

    def _bars(self, chart: Bars) -> None:
        axes = self.page.subplots()
        count, groups = len(chart.categories), chart.groups
        places = np.arange(count, dtype=np.float64)
        self._name_rows(axes, chart.categories)
        ends = np.zeros(count)
        height = 0.74 if chart.stacked else 0.8 / len(groups)
        longest = np.zeros(count)
        for number, group in enumerate(groups):
            values = np.array([value or 0.0 for value in group.values])
            at = places if chart.stacked else places - 0.4 + height * (number + 0.5)
            begin = ends.copy() if chart.stacked else np.zeros(count)
            drawn = height if chart.stacked else height * 0.94
            label = self.text(group.name)
            axes.barh(
                at, values, left=begin, height=drawn, color=charts.colour(group.role), label=label
            )
            name = f" · {group.name}" if len(groups) > 1 else ""
            self.hint(
                axes,
                (
                    (
                        (begin[k], at[k] - drawn / 2, begin[k] + values[k], at[k] + drawn / 2),
                        f"{chart.categories[k]}{name}: {_value(group.values[k], chart.value)}",
                    )
                    for k in range(count)
                    if group.values[k] is not None
                ),
            )
            if chart.stacked:
                ends += values
            else:
                longest = np.maximum(longest, values)
                if count * len(groups) <= LABELLED_BARS:
                    labels = [text_from_number(v) if v else "" for v in group.values]
                    self._label_bars(axes, at, values, labels)
        if chart.stacked:
            longest = ends
            labels = list(groups[0].labels) or [text_from_number(float(end)) for end in ends]
            self._label_bars(axes, places, ends, labels)
        axes.set_ylabel(self.text(chart.category_title))
        self.dress(axes, chart.value, "x")
        known = longest[np.isfinite(longest)]
        room = 1.3 if groups[0].labels else 1.12
        axes.set_xlim(0, (float(known.max()) if len(known) else 0.0) * room or 1.0)
        axes.set_xlabel(self.text(chart.value.label))
        if len(groups) > 1:
            taken = min(BAR_NAME_LENGTH, max(len(name) for name in chart.categories))
            self.legend(axes, [group.name for group in groups], taken=taken)

    def _label_bars(self, axes: Axes, at: Numbers, ends: Numbers, labels: Sequence[str]) -> None:
        for place, end, words in zip(at, ends, labels, strict=True):
            self.note(axes, words, (end, place), (6, 0), va="center")

    def _boxes(self, chart: Boxes) -> None:
        boxes = chart.boxes
        axes = self.page.subplots()
        places = np.arange(len(boxes))
        colours = [charts.colour(box.role) for box in boxes]
        low, q1, median, q3, high = np.array(
            [(box.low, box.q1, box.median, box.q3, box.high) for box in boxes]
        ).T
        # One call for each part of all boxes, not one for each box.
        for begin, end in ((low, q1), (q3, high)):
            axes.hlines(places, begin, end, colors=colours, linewidth=2)
        for end in (low, high):
            axes.vlines(end, places - 0.16, places + 0.16, colors=colours, linewidth=2)
        axes.barh(places, q3 - q1, left=q1, height=0.56, color=colours, alpha=0.55)
        axes.vlines(median, places - 0.28, places + 0.28, color=charts.INK, linewidth=3)
        step = 1 + sum(len(box.outliers) for box in boxes) // MOST_RINGS
        outliers = [box.outliers[::step] for box in boxes]
        x = [value for each in outliers for value in each]
        y = np.repeat(places, [len(each) for each in outliers])
        edges = [colour for each, colour in zip(outliers, colours, strict=True) for _ in each]
        axes.scatter(x, y, s=26, facecolors="none", edgecolors=edges, linewidths=1.1)
        self._name_rows(axes, [box.name for box in boxes], below=[box.beyond for box in boxes])
        axes.set_ylabel("Run")
        self.dress(axes, chart.value, "x")
        left, right = axes.get_xlim()
        if chart.value.scale == "log":
            axes.set_xlim(left / 1.08, right * 1.08)
        else:
            axes.set_xlim(left - 0.03 * (right - left), right + 0.03 * (right - left))
        axes.set_xlabel(self.text(chart.value.label))
        for k, box in enumerate(boxes):
            five = (box.median, box.q1, box.q3, box.low, box.high)
            m, q, r, a, b = (_value(each, chart.value) for each in five)
            words = f"{box.name}: median {m}, quartiles {q} and {r}, whiskers {a} and {b}"
            self.hint(axes, [((box.low, k - 0.28, box.high, k + 0.28), words)])

    def _name_rows(
        self, axes: Axes, names: Sequence[str], *, below: Sequence[str | None] = ()
    ) -> None:
        """Name rows, and say in a second line what lies outside the drawn range."""
        shown = shortened_apart(names, length=BAR_NAME_LENGTH)
        if any(below):
            shown = [
                f"{name}\n{words} ▸" if words else name
                for name, words in zip(shown, below, strict=True)
            ]
        words = [self.text(each) for each in shown]
        axes.set_yticks(np.arange(len(names)), words, fontsize=charts.SMALL_PT)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)


def _places(values: Iterable[float | None], axis: Axis) -> Numbers:
    """Place values on an axis; a quantile lies at the number of nines it has."""
    numbers = np.array([math.nan if value is None else value for value in values], dtype=float)
    if axis.scale == "tail":
        return np.asarray(-np.log10(np.clip(1 - numbers, 1e-9, 1)))
    return numbers / DAY_S if axis.scale == "time" else numbers


def _value(value: float | None, axis: Axis) -> str:
    if value is None:
        return "–"
    if axis.scale == "tail":
        return f"{100 * value:.6g} %"
    if axis.scale == "time":
        return str(np.datetime64(int(value), "s")).replace("T", " ")
    return f"{_plain(float(f'{value:.5g}'), None)}{f' {axis.unit}' if axis.unit else ''}"


def _plain(value: float, _: object) -> str:
    text = f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.3g}"
    return with_minus(text.replace(",", " "))


@lru_cache(maxsize=1)
def families() -> list[str]:
    """List the preferred fonts that are installed; DejaVu Sans comes with matplotlib."""
    here = set(fontManager.get_font_names())
    return [name for name in charts.FONTS if name in here] or ["DejaVu Sans"]
