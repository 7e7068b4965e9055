"""Draws charts with matplotlib, as PNG and as SVG for HTML pages.

The layout is computed once for both. An SVG contains text as text and uses CSS variables for
colours (light and dark). A PNG also contains title and caption.
Characters that no installed font has appear as boxes in a PNG.
"""

import html
import io
import math
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
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
from trtbench.core.units import shortened, text_from_number, with_minus
from trtbench.report import charts
from trtbench.report.charts import TAIL_TICKS, Axis, Bars, Boxes, Histogram, Line, Lines, Mark
from trtbench.report.document import Figure

Numbers = NDArray[np.float64]

ONE_PANEL_IN, PANEL_IN, BAR_IN, BOX_IN, FRAME_IN, LEGEND_IN = 4.5, 2.3, 0.34, 0.6, 1.2, 0.29
TITLE_COLUMNS, CAPTION_COLUMNS = 90, 132
LEGEND_SYMBOL = 9  # width of a legend symbol and its gap, in characters
TITLE_LENGTH = NAME_LENGTH = 60
BAR_NAME_LENGTH = 40
_VARIABLES = {light.lower(): f"var(--c-{name})" for name, (light, _) in charts.TOKENS.items()}
_TEXT_BACKGROUND = {"facecolor": charts.PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
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
_LAYOUTS: WeakKeyDictionary[Figure, tuple[Page, Any]] = WeakKeyDictionary()
"""Figures with computed layout, and their settings, to reuse for other formats."""


def png_from_figure(figure: Figure) -> bytes:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    def pixels(page: Page) -> NDArray[np.uint8]:
        page.set_dpi(charts.DPI)
        canvas = FigureCanvasAgg(page)
        canvas.draw()  # type: ignore[no-untyped-call]
        page.set_layout_engine("none")
        return np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]

    def strip(text: str, columns: int, size: float, **look: Any) -> NDArray[np.uint8]:
        lines = textwrap.wrap(clean_line(text), columns)
        page = Page(figsize=(charts.WIDTH_IN, len(lines) * size * 1.3 / 72 + 0.16))
        page.text(0.012, 0.5, "\n".join(lines), va="center", fontsize=size, **look)
        return pixels(page)

    page, settings = _lay_out(figure)
    with mpl.rc_context(settings), _quiet_fonts():
        title = strip(figure.title, TITLE_COLUMNS, charts.TITLE_PT, fontweight="bold")
        parts = [title, pixels(page)]
        if figure.caption:
            parts.append(strip(figure.caption, CAPTION_COLUMNS, charts.SMALL_PT, color=charts.GREY))
    image = Image.fromarray(np.concatenate(parts)[:, :, :3])
    maker = PngInfo()
    maker.add_text("Software", "trtbench")
    buffer = io.BytesIO()
    # Level 4 takes a third of the time for a tenth more bytes.
    image.save(buffer, format="PNG", compress_level=4, pnginfo=maker)
    return buffer.getvalue()


def svg_from_figure(figure: Figure) -> str:
    """Return a figure as SVG for an HTML page, without title and caption."""
    page, settings = _lay_out(figure)
    buffer = io.BytesIO()
    with mpl.rc_context(settings | {"svg.hashsalt": figure.id}), _quiet_fonts():
        page.set_dpi(72)
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        FigureCanvasSVG(page).print_svg(buffer, metadata=nothing)  # type: ignore[no-untyped-call]
        page.set_layout_engine("none")
    text = buffer.getvalue().decode()
    # Remove what a page does not need, and let its style sheet set fonts and colours.
    body = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"<style[^>]*>[^<]*</style>", "", body)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r"font: (bold|\d+) ([\d.]+px) [^;\"]*", r"font-weight: \1; font-size: \2", body)
    body = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", body)
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body)
    body = re.sub(r"(\.\d)\d{3,}", r"\1", body)
    body = re.sub(r"#[0-9a-f]{6}", lambda found: _VARIABLES.get(found[0], found[0]), body)
    body = re.sub(r"\n\s*", "\n", body).replace(" \nL ", "L").replace(" \n", " ")
    size = re.search(r'viewBox="([^"]*)"', text)
    label = html.escape(clean_line(f"{figure.title}. {figure.caption or ''}"))
    return (
        f'<svg class="plot" role="img" aria-label="{label}" viewBox="{size[1] if size else ""}" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f"{body.strip()}</svg>"
    )


@contextmanager
def _quiet_fonts() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def _lay_out(figure: Figure) -> tuple[Page, Any]:
    if figure not in _LAYOUTS:
        first, *others = _installed_fonts()
        known = FT2Font(findfont(FontProperties(family=first))).get_charmap()
        letters = set(msgspec.json.encode(figure).decode() + "−▸…")
        # Fallback fonts are slow, so they are used only if needed.
        fonts = [first] if all(ord(each) in known for each in letters) else [first, *others]
        settings = _SETTINGS | {"font.family": fonts}
        draw: Any = {Lines: _lines, Histogram: _histogram, Bars: _bars, Boxes: _boxes}
        with mpl.rc_context(settings), _quiet_fonts():
            page = Page(layout="constrained")
            page.set_size_inches(charts.WIDTH_IN, draw[type(figure.chart)](page, figure.chart))
        _LAYOUTS[figure] = page, settings
    return _LAYOUTS[figure]


@lru_cache(maxsize=1)
def _installed_fonts() -> list[str]:
    """Return the preferred fonts that are installed; DejaVu Sans comes with matplotlib."""
    here = set(fontManager.get_font_names())
    return [name for name in charts.FONTS if name in here] or ["DejaVu Sans"]


# ---- parts of all charts


def _set_axis(axes: Axes, axis: Axis, which: str, values: Iterable[float] = ()) -> None:
    side = getattr(axes, f"{which}axis")
    locator: Any = MaxNLocator(nbins=7, steps=[1, 2, 2.5, 5, 10])
    form: Any = FuncFormatter(_format_tick)
    if axis.scale == "tail":
        locator = FixedLocator([-math.log10(1 - q) for q in TAIL_TICKS])
        form = FuncFormatter(lambda place, _: f"{100 * (1 - 10**-place):.5g} %")
    elif axis.scale == "time":
        locator = dates.AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
        form = dates.ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    elif axis.scale == "log2":
        getattr(axes, f"set_{which}scale")("log", base=2)
        locator = FixedLocator(sorted(set(values)))
        form = FuncFormatter(lambda value, _: f"{value:g}")
    elif axis.scale == "log":
        getattr(axes, f"set_{which}scale")("log")
        span = axis.high / axis.low if axis.low and axis.high else 1e3
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if span < 15 else (1.0, 2.0, 5.0)
        locator = LogLocator(subs=subs if span < 1e4 else (1.0,))
    side.set_major_locator(locator)
    side.set_minor_locator(NullLocator())
    side.set_major_formatter(form)
    if axis.low is not None or axis.high is not None:
        # Setting limits, even to None, would disable autoscaling of shared axes.
        getattr(axes, f"set_{which}lim")(axis.low, axis.high)


def _legend(axes: Axes, names: list[str], *, taken: int = 0, above: bool = False) -> None:
    """Draw a legend above the axes, and above their title if ``above``."""
    if not names:
        return
    columns = 135 - taken  # characters of legend text that fit in one line
    longest = max(len(name) for name in names) + LEGEND_SYMBOL
    in_a_row = sum(len(name) + LEGEND_SYMBOL for name in names) <= columns
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.2 if above else 1.0),
        borderaxespad=0.2,
        ncols=len(names) if in_a_row else max(1, columns // longest),
        markerscale=1.2,
        handlelength=1.8,
        columnspacing=1.4,
    )


def _marks(axes: Axes, marks: Iterable[Mark]) -> None:
    """Draw marks, with labels at different heights so that they do not overlap."""
    look: Any = {"linewidth": 1.6, "linestyle": (0, (4, 2)), "zorder": 3}
    row = 0
    for mark in marks:
        colour = charts.colour(mark.role)
        if mark.axis == "y":
            axes.axhline(mark.at, color=colour, **look)
            sides = ("axes fraction", "data")
            _note(axes, mark.text, (0.0, mark.at), (6, 3), sides, color=colour)
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
            _note(axes, words, at, offset, sides, bbox=_TEXT_BACKGROUND, **place)
            row += 1


def _note(
    axes: Axes,
    words: str,
    at: tuple[float, float],
    offset: tuple[float, float],
    coordinates: Any = "data",
    **look: Any,
) -> None:
    look = {"fontsize": charts.SMALL_PT, "zorder": 5, **look}
    axes.annotate(clean_line(words), at, offset, coordinates, textcoords="offset points", **look)


def _title(axes: Axes, text: str, colour: str, **look: Any) -> None:
    # A fixed y saves matplotlib a third of its drawing time.
    look = {"loc": "left", "fontsize": charts.SMALL_PT + 1, "fontweight": "bold", **look}
    axes.set_title(clean_line(text), color=colour, pad=5, y=1.0, **look)


def _label_rows(axes: Axes, names: Sequence[str], *, below: Sequence[str | None] = ()) -> None:
    """Label rows with short unique names, and ``below`` as a second line."""
    length, short = BAR_NAME_LENGTH, names
    while True:  # shortened names must stay unique
        short = [shortened(name, length=length) for name in names]
        if len(set(short)) == len(set(names)) or length > max(map(len, names)):
            break
        length += 8
    shown = [clean_line(each) for each in short]
    for k, words in enumerate(below):
        shown[k] += f"\n{clean_line(words)} ▸" if words else ""
    axes.set_yticks(np.arange(len(names)), shown, fontsize=charts.SMALL_PT)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)


def _format_tick(value: float, _: object) -> str:
    text = f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.3g}"
    return with_minus(text.replace(",", " "))


# ---- charts: each function draws on a page and returns its height in inches


def _histogram(page: Page, chart: Histogram) -> float:
    count = len(chart.groups)
    panels = page.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    for axes, group in zip(panels, chart.groups, strict=True):
        colour = charts.colour(group.role)
        axes.stairs(group.counts, chart.edges, fill=True, color=colour, alpha=0.85, zorder=2)
        _set_axis(axes, chart.x, "x")
        _set_axis(axes, chart.y, "y")
        axes.set_ylim(0, max(1, *group.counts) * (1.45 if count > 1 else 1.25))
        axes.grid(axis="x", visible=False)
        axes.set_ylabel(clean_line(chart.y.label))
        _marks(axes, group.marks)
        length = TITLE_LENGTH * 2 // 3 if group.beyond else TITLE_LENGTH
        _title(axes, shortened(group.name, length=length), colour)
        if group.beyond:
            look = {"loc": "right", "fontsize": charts.SMALL_PT, "fontweight": "normal"}
            _title(axes, f"{group.beyond} ▸", charts.colour("outlier"), **look)
    panels[-1].set_xlabel(clean_line(chart.x.label))
    return ONE_PANEL_IN if count == 1 else FRAME_IN + PANEL_IN * count


def _lines(page: Page, chart: Lines) -> float:
    count = len(chart.panels)
    own = any(panel.low is not None for panel in chart.panels)
    panels = page.subplots(count, 1, sharex=True, sharey=not own, squeeze=False)[:, 0]
    for axes, panel in zip(panels, chart.panels, strict=True):
        for line in panel.lines:
            _line(axes, line, chart.x, panel.y or chart.y)
        _set_axis(axes, chart.x, "x", [x for line in panel.lines for x in line.x])
        _set_axis(axes, chart.y, "y", [y for line in panel.lines for y in line.y if y is not None])
        low = chart.y.low if panel.low is None else panel.low
        high = chart.y.high if panel.high is None else panel.high
        if low is not None and high is not None and chart.y.scale == "linear":
            # A margin, so that points at the limits are not cut in half.
            room = 0.04 * (high - low)
            axes.set_ylim(low - room, high + room)
        _marks(axes, panel.marks)
        if count == 1:
            axes.set_ylabel(clean_line(chart.y.label))
        elif panel.y:
            _title(axes, panel.y.label, charts.INK)
        elif panel.title:
            colour = charts.colour(panel.lines[0].role) if panel.lines else charts.INK
            _title(axes, shortened(panel.title, length=TITLE_LENGTH), colour)
    names = [shortened(n.name, length=NAME_LENGTH) for n in chart.panels[0].lines if n.name]
    if count == 1 or any(panel.y for panel in chart.panels):
        _legend(panels[0], names, above=count > 1)
    else:
        # One label for all panels, because a panel is too small for it.
        page.supylabel(clean_line(chart.y.label), fontsize=charts.FONT_PT)
    panels[-1].set_xlabel(clean_line(chart.x.label))
    height = ONE_PANEL_IN if count == 1 else FRAME_IN + PANEL_IN * count
    return height + LEGEND_IN * max(0, len(names) - 2)


def _line(axes: Axes, line: Line, x_axis: Axis, y_axis: Axis) -> None:
    x, y = _axis_positions(line.x, x_axis), _axis_positions(line.y, y_axis)
    colour, (dashes, shape) = charts.colour(line.role), charts.line_style_and_marker(line.role)
    name = clean_line(shortened(line.name, length=NAME_LENGTH)) if line.name else "_nolegend_"
    common: dict[str, Any] = {"color": colour, "label": name}
    if line.low:
        low, high = (_axis_positions(ends, y_axis) for ends in (line.low, line.high))
        known = np.isfinite(low) & np.isfinite(high)
        axes.vlines(x[known], low[known], high[known], color=colour, linewidth=1.6, zorder=2)
    for place, words in enumerate(line.texts):
        _note(axes, words, (x[place], y[place]), (9, -15), color=charts.GREY)
    if line.style == "points":
        # Very short dashes are a single SVG path, while markers would be an element each.
        size = 5.0 if len(x) < 400 else 3.2
        # Points drawn per line of style `points`.
        kept = np.linspace(0, len(x) - 1, min(len(x), 600)).astype(int)
        short = 1e-5 * (float(x.max() - x.min()) or 1.0) if len(x) else 0.0
        gaps = np.full(len(kept), np.nan)
        edges = np.column_stack([x[kept], x[kept] + short, gaps]).ravel()
        heights = np.column_stack([y[kept], y[kept], gaps]).ravel()
        common |= {"alpha": 0.5, "solid_capstyle": "round"}
        axes.plot(edges, heights, lw=size, zorder=2, **common)
        return
    looks: dict[str, dict[str, Any]] = {
        "beyond": {"linestyle": "", "marker": "^", "ms": 8, "mew": 0, "clip_on": False},
        "dotted": {"linestyle": (0, (1, 1.6)), "alpha": 0.8},
        "both": {"linestyle": dashes, "marker": "o", "ms": 9},
        "mark": {"linestyle": "", "marker": shape, "ms": 12},
    }
    axes.plot(x, y, zorder=3, **looks.get(line.style, {"linestyle": dashes}), **common)


def _axis_positions(values: Iterable[float | None], axis: Axis) -> Numbers:
    """Return positions of values on an axis; for ``tail``, -log10(1 - quantile)."""
    numbers = np.array([math.nan if value is None else value for value in values], dtype=float)
    if axis.scale == "tail":
        return np.asarray(-np.log10(np.clip(1 - numbers, 1e-9, 1)))
    # matplotlib counts time in days since 1970.
    return numbers / 86_400.0 if axis.scale == "time" else numbers


def _bars(page: Page, chart: Bars) -> float:
    axes = page.subplots()
    count, groups, stacked = len(chart.categories), chart.groups, chart.stacked
    places = np.arange(count, dtype=np.float64)
    _label_rows(axes, chart.categories)
    ends = np.zeros(count)  # right ends of the bars of each row
    height = 0.74 if stacked else 0.8 / len(groups)
    for number, group in enumerate(groups):
        values = np.array([value or 0.0 for value in group.values])
        at = places if stacked else places - 0.4 + height * (number + 0.5)
        look: Any = {"color": charts.colour(group.role), "label": clean_line(group.name)}
        left = ends.copy() if stacked else 0.0
        axes.barh(at, values, left=left, height=height if stacked else height * 0.94, **look)
        ends = ends + values if stacked else np.maximum(ends, values)
        # With more bars, values are not written next to them.
        if not stacked and count * len(groups) <= 40:
            labels = group.labels or [text_from_number(float(x)) if x else "" for x in values]
            for place, value, words in zip(at, values, labels, strict=True):
                _note(axes, words, (value, place), (6, 0), va="center")
    if stacked:
        labels = groups[0].labels or [text_from_number(float(end)) for end in ends]
        for place, end, words in zip(places, ends, labels, strict=True):
            _note(axes, words, (end, place), (6, 0), va="center")
    axes.set_ylabel(clean_line(chart.category_title))
    _set_axis(axes, chart.value, "x")
    known = ends[np.isfinite(ends)]
    room = 3.0 if chart.value.scale == "log" else 1.3 if groups[0].labels else 1.12
    axes.set_xlim(chart.value.low or 0, (float(known.max()) if len(known) else 0.0) * room or 1.0)
    axes.set_xlabel(clean_line(chart.value.label))
    legend_in = 0.0
    if len(groups) > 1:
        taken = min(BAR_NAME_LENGTH, max(len(name) for name in chart.categories))
        _legend(axes, [group.name for group in groups], taken=taken)
        legend_in = 2 * LEGEND_IN
    side_by_side = 1 if stacked else max(1.0, 0.8 * len(groups))
    return FRAME_IN + legend_in + BAR_IN * side_by_side * max(3, count)


def _boxes(page: Page, chart: Boxes) -> float:
    boxes = chart.boxes
    axes = page.subplots()
    places = np.arange(len(boxes))
    colours = [charts.colour(box.role) for box in boxes]
    ends = [(box.low, box.q1, box.median, box.q3, box.high) for box in boxes]
    low, q1, median, q3, high = np.array(ends).T
    # One call per part of all boxes is faster than one per box.
    for begin, end in ((low, q1), (q3, high)):
        axes.hlines(places, begin, end, colors=colours, linewidth=2)
    for end in (low, high):
        axes.vlines(end, places - 0.16, places + 0.16, colors=colours, linewidth=2)
    axes.barh(places, q3 - q1, left=q1, height=0.56, color=colours, alpha=0.55)
    axes.vlines(median, places - 0.28, places + 0.28, color=charts.INK, linewidth=3)
    # Outliers drawn in all boxes together; each is an SVG element.
    step = 1 + sum(len(box.outliers) for box in boxes) // 400
    outliers = [box.outliers[::step] for box in boxes]
    x = [value for each in outliers for value in each]
    y = np.repeat(places, [len(each) for each in outliers])
    edges = [colour for each, colour in zip(outliers, colours, strict=True) for _ in each]
    axes.scatter(x, y, s=26, facecolors="none", edgecolors=edges, linewidths=1.1)
    _label_rows(axes, [box.name for box in boxes], below=[box.beyond for box in boxes])
    axes.set_ylabel("Run")
    _set_axis(axes, chart.value, "x")
    left, right = axes.get_xlim()
    room, is_log = 0.03 * (right - left), chart.value.scale == "log"
    axes.set_xlim(*((left / 1.08, right * 1.08) if is_log else (left - room, right + room)))
    axes.set_xlabel(clean_line(chart.value.label))
    # With more boxes, they are drawn closer together.
    return FRAME_IN + (BOX_IN if len(boxes) <= 20 else BAR_IN) * max(2, len(boxes))
