"""Lines and histograms for plotly: panels one below the other."""

from __future__ import annotations

import math
from itertools import pairwise

from trtbench.report import style
from trtbench.report.charts import Axis, Bins, Histogram, Line, Lines, Panel
from trtbench.report.renderers._plot_parts import (
    DASHES,
    Spec,
    axis_spec,
    domains,
    ink,
    mark_shape,
    mark_text,
    panel_title,
    placed,
    rounded,
    span_shape,
    words,
)

PAGE_PX = 400
PANEL_PX = 150
GAP_PX = 44
OWN_GAP_PX = 70
"""Between panels that each have an x axis with numbers."""
FRAME_PX = 110
LEGEND_PX = 20
"""A row of the legend."""
LEGEND_LETTERS = 120
"""That fit side by side on a page, each name with HANDLE letters for its mark."""
HANDLE = 8
FREE_ROWS = 2
"""Rows of a legend that the frame has room for."""
TITLE_LETTERS = 56
"""Of a panel's title, which shares its line with words on what lies outside."""
TITLE_PX = 24
"""Above the first panel, between its title and the legend."""

BESIDE = 5
"""Blanks between a place and its name, where another line's mark lies."""
SHAPES = {"triangle": "triangle-up"}
"""Where plotly has another name for a shape."""

MARKERS: dict[str, Spec] = {
    "points": {"size": 5, "opacity": 0.55},
    "ring": {"size": 8, "symbol": "circle-open", "line": {"width": 1.6}},
    "beyond": {"size": 9, "symbol": "triangle-up"},
    "both": {"size": 8},
}


def lines(chart: Lines) -> Spec:
    """Describe a line chart; panels share what they have in common."""
    count = len(chart.panels)
    gap = GAP_PX if chart.shared_x else OWN_GAP_PX
    height = PAGE_PX if count == 1 else FRAME_PX + count * PANEL_PX + (count - 1) * gap
    layout: Spec = {"shapes": [], "annotations": []}
    data: list[Spec] = []
    plot_px = max(1.0, height - FRAME_PX)
    for number, (panel, domain) in enumerate(
        zip(chart.panels, domains(count, gap_px=gap, height_px=plot_px), strict=True), start=1
    ):
        place = _Place(number, count, chart.shared_x)
        layout |= place.axes(chart, panel, domain)
        data += _traces(chart, panel, place)
        _decorate(layout, chart, panel, place)
    layout["hovermode"] = "closest"
    if any(panel.y for panel in chart.panels):
        layout["legend"] = {"y": round(1 + TITLE_PX / plot_px, 4)}
    return {"data": data, "layout": layout, "height": height + _legend_px(data)}


def _legend_px(data: list[Spec]) -> int:
    """Tell what a long legend takes, so that the curves below it keep their height."""
    names = [len(trace["name"]) + HANDLE for trace in data if trace["showlegend"]]
    if not names:
        return 0
    rows = -(-len(names) // max(1, LEGEND_LETTERS // max(names)))
    return LEGEND_PX * max(0, rows - FREE_ROWS)


class _Place:
    """Where a panel stands among the panels of its figure."""

    def __init__(self, number: int, count: int, shared: bool) -> None:
        suffix = "" if number == 1 else str(number)
        self.x = "x" if shared else f"x{suffix}"
        self.y = f"y{suffix}"
        self.number, self.count, self.shared = number, count, shared

    def axes(self, chart: Lines, panel: Panel, domain: tuple[float, float]) -> Spec:
        quantity = panel.y or chart.y
        low = panel.low if panel.low is not None else quantity.low
        high = panel.high if panel.high is not None else quantity.high
        own = Axis(
            title=quantity.title, unit=quantity.unit, scale=quantity.scale, low=low, high=high
        )
        ys = [value for line in panel.lines for value in line.y]
        y = axis_spec(own, values=ys, padded=True) | {"domain": list(domain), "anchor": self.x}
        if self.count > 1:
            y |= {"title": {"text": words(quantity.unit or "")}, "nticks": 5}
        x_name = "xaxis" + self.x[1:]
        last = self.number == self.count
        xs = [x for line in panel.lines for x in line.x]
        x = axis_spec(chart.x, values=xs) | {"anchor": self.y}
        if not last:
            x["title"] = {"text": ""}
        return {f"yaxis{self.y[1:]}": y, x_name: x}


def _traces(chart: Lines, panel: Panel, place: _Place) -> list[Spec]:
    several = place.count > 1
    found = []
    for line in panel.lines:
        # Panels of one quantity are named above; those of many share one legend.
        listed = bool(line.name) and (place.number == 1 if panel.y else not several)
        trace = _trace(line, chart, panel) | {"xaxis": place.x, "yaxis": place.y}
        trace |= {"showlegend": listed, "legendgroup": words(line.name or "")}
        found.append(trace)
    return found


def _trace(line: Line, chart: Lines, panel: Panel) -> Spec:
    colour, quantity = ink(line.role), panel.y or chart.y
    trace: Spec = {
        "type": "scatter",
        "name": words(line.name or ""),
        "x": placed(line.x, chart.x),
        "y": rounded(line.y),
        "hovertemplate": _hover(line, chart.x, quantity),
    }
    if chart.x.scale == "tail":
        trace["customdata"] = [f"{100 * q:.6g}" for q in line.x]
    if line.style in MARKERS:
        marker = MARKERS[line.style] | {"color": colour}
        trace |= {"mode": "lines+markers" if line.style == "both" else "markers", "marker": marker}
    else:
        trace["mode"] = "lines"
    if trace["mode"] != "markers":
        trace["line"] = _stroke(line, colour)
    if line.sizes:
        trace["marker"] = {
            "color": colour,
            "opacity": 0.8,
            "symbol": SHAPES.get(style.shape(line.role), style.shape(line.role)),
            "line": {"width": 1, "color": "@paper"},
            "size": [round(10 + 26 * math.sqrt(s), 1) for s in line.sizes],
        }
    if line.texts:
        marks = "" if line.style == "dotted" else "markers+"
        room = "" if marks else "\u00a0" * BESIDE  # the marks are those of other lines
        trace |= {"text": [room + words(each) for each in line.texts],
                  "textposition": "bottom right", "mode": f"lines+{marks}text",
                  "textfont": {"size": 11, "color": "@grey"}, "cliponaxis": False}  # fmt: skip
    if line.low and line.high:
        trace["error_y"] = _ends(line, colour)
    return trace


def _stroke(line: Line, colour: str) -> Spec:
    if line.style == "dotted":
        return {"color": colour, "width": 2, "dash": "dot"}
    shape = "hv" if line.style == "steps" else "linear"
    return {"color": colour, "width": 2, "dash": DASHES[style.dash(line.role)], "shape": shape}


def _ends(line: Line, colour: str) -> Spec:
    above = [_distance(high, y) for high, y in zip(line.high, line.y, strict=True)]
    below = [_distance(y, low) for low, y in zip(line.low, line.y, strict=True)]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below,
            "color": colour, "thickness": 1.4, "width": 4}  # fmt: skip


def _distance(far: float | None, near: float | None) -> float:
    return 0.0 if far is None or near is None else float(f"{abs(far - near):.6g}")


def _hover(line: Line, x: Axis, y: Axis) -> str:
    unit = f" {y.unit}" if y.unit else ""
    at = "%{customdata} %" if x.scale == "tail" else "%{x}" + (f" {x.unit}" if x.unit else "")
    name = "<b>%{fullData.name}</b><br>" if line.name else ""
    note = "above the range, " if line.style == "beyond" else ""
    return f"{name}{note}{words(y.title)}: %{{y}}{unit}<br>{words(x.title)}: {at}<extra></extra>"


def _decorate(layout: Spec, chart: Lines, panel: Panel, place: _Place) -> None:
    layout["shapes"] += [span_shape(each, x=place.x, y=place.y) for each in panel.spans]
    layout["shapes"] += [mark_shape(each, x=place.x, y=place.y) for each in panel.marks]
    for row, mark in enumerate(each for each in panel.marks if each.text):
        layout["annotations"].append(mark_text(mark, x=place.x, y=place.y, row=row, axis=chart.x))
    if place.count > 1:
        role = panel.lines[0].role if panel.lines and not panel.y else "median"
        text = panel.y.label if panel.y else panel.title or ""
        title = panel_title(f"<b>{words(text, length=60)}</b>", y=place.y, colour=ink(role))
        layout["annotations"].append(title)


def histogram(chart: Histogram) -> Spec:
    """Describe histograms above a common axis, as filled steps."""
    count = len(chart.groups)
    height = PAGE_PX if count == 1 else FRAME_PX + count * PANEL_PX + (count - 1) * GAP_PX
    layout: Spec = {"shapes": [], "annotations": [], "hovermode": "closest", "showlegend": False}
    layout["xaxis"] = axis_spec(chart.x) | {"anchor": f"y{count if count > 1 else ''}"}
    parts = domains(count, gap_px=GAP_PX, height_px=max(1.0, height - FRAME_PX))
    data = []
    for number, (group, domain) in enumerate(zip(chart.groups, parts, strict=True), start=1):
        y = "y" if number == 1 else f"y{number}"
        top = max(1, *group.counts) * (1.3 if count > 1 else 1.15)
        title = {"text": words(chart.y.label) if count == 1 else ""}
        layout[f"yaxis{y[1:]}"] = {
            "domain": list(domain), "range": [0, top], "title": title, "nticks": 4, "anchor": "x",
        }  # fmt: skip
        data.append(_steps(group, chart, y=y))
        layout["shapes"] += [mark_shape(mark, x="x", y=y) for mark in group.marks]
        layout["annotations"] += [
            mark_text(mark, x="x", y=y, row=row, axis=chart.x)
            for row, mark in enumerate(group.marks)
        ]
        layout["annotations"] += _titles(group, y=y, several=count > 1)
    return {"data": data, "layout": layout, "height": height}


def _steps(group: Bins, chart: Histogram, *, y: str) -> Spec:
    unit = f" {chart.x.unit}" if chart.x.unit else ""
    edges = rounded(chart.edges)
    ranges = [f"{low:.4g} to {high:.4g}{unit}" for low, high in pairwise(chart.edges)]
    return {
        "type": "scatter", "mode": "lines", "name": words(group.name), "xaxis": "x", "yaxis": y,
        "x": edges, "y": [*group.counts, group.counts[-1] if group.counts else 0],
        "line": {"shape": "hv", "width": 1, "color": ink(group.role)}, "fill": "tozeroy",
        "fillcolor": ink(group.role, 0.7), "text": [*ranges, ""],
        "hovertemplate": "%{text}<br>%{y} samples<extra></extra>",
    }  # fmt: skip


def _titles(group: Bins, *, y: str, several: bool) -> list[Spec]:
    found = []
    if several:
        text = f"<b>{words(group.name, length=TITLE_LETTERS)}</b>"
        found.append(panel_title(text, y=y, colour=ink(group.role)))
    if group.beyond:
        found.append(
            panel_title(words(f"{group.beyond} ▸"), y=y, colour=ink("outlier"), side="right")
        )
    return found
