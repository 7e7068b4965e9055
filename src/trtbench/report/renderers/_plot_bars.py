"""Horizontal bars and boxes for plotly."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.report.charts import Bars, Boxes
from trtbench.report.labels import shortened_apart
from trtbench.report.numbers import text_from_number
from trtbench.report.renderers._plot_parts import Spec, axis_spec, ink, rounded, words

BAR_PX = 26
BOX_PX = 52
ROOMY_BOXES = 20
FRAME_PX = 120
LABEL_LENGTH = 40


def bars(chart: Bars) -> Spec:
    """Describe bars from top to bottom; categories are places, because labels may repeat."""
    places = list(range(len(chart.categories)))
    side_by_side = len(chart.groups) if not chart.stacked else 1
    data = [
        {
            "type": "bar", "orientation": "h", "name": words(group.name),
            "y": places, "x": rounded(group.values), **_starts(chart),
            "marker": {"color": ink(group.role)}, "text": _labels(chart, number),
            "textposition": "outside" if _labelled(chart) else "none",
            "cliponaxis": False, "constraintext": "none",
            "textfont": {"size": 12}, "insidetextanchor": "start",
            "customdata": [words(each, length=200) for each in chart.categories],
            "hovertemplate": _hover(chart, len(chart.groups) > 1),
            "showlegend": len(chart.groups) > 1,
        }
        for number, group in enumerate(chart.groups)
    ]  # fmt: skip
    layout: Spec = {
        "barmode": "overlay" if chart.starts else "stack" if chart.stacked else "group",
        "bargap": 0.25,
        "bargroupgap": 0.06,
        "xaxis": axis_spec(chart.value) | {"rangemode": "tozero"},
        "yaxis": _names(chart.categories),
        "legend": {"traceorder": "normal"},
    }
    if _labelled(chart):
        longest = max((_end(chart, group.values) for group in chart.groups), default=0.0)
        layout["xaxis"]["range"] = [0, (longest or 1.0) * 1.35]
    height = FRAME_PX + BAR_PX * max(3, len(places)) * max(1.0, 0.75 * side_by_side)
    return {"data": data, "layout": layout, "height": round(height)}


def _starts(chart: Bars) -> Spec:
    return {"base": rounded(chart.starts)} if chart.starts else {}


def _end(chart: Bars, values: Sequence[float | None]) -> float:
    """Tell where the longest bar of a group ends."""
    starts = chart.starts or (0.0,) * len(values)
    pairs = zip(starts, values, strict=True)
    return max((start + (value or 0.0) for start, value in pairs), default=0.0)


def boxes(chart: Boxes) -> Spec:
    """Describe boxes from their five numbers, and the single values outside the whiskers."""
    data: list[Spec] = []
    for place, box in enumerate(chart.boxes):
        data.append(
            {
                "type": "box", "orientation": "h", "name": words(box.name), "y": [place],
                **{name: rounded([value]) for name, value in (
                    ("lowerfence", box.low), ("q1", box.q1), ("median", box.median),
                    ("q3", box.q3), ("upperfence", box.high))},
                "line": {"color": ink(box.role), "width": 2}, "fillcolor": ink(box.role, 0.4),
                "hoverinfo": "x+name", "showlegend": False, "width": 0.5,
            }
        )  # fmt: skip
        if box.outliers:
            unit = f" {chart.value.unit}" if chart.value.unit else ""
            data.append(
                {
                    "type": "scatter", "mode": "markers", "name": words(box.name),
                    "x": rounded(box.outliers), "y": [place] * len(box.outliers),
                    "marker": {"color": ink(box.role), "symbol": "circle-open", "size": 6},
                    "hovertemplate": f"%{{x}}{unit}<extra></extra>", "showlegend": False,
                }
            )  # fmt: skip
    layout: Spec = {
        "xaxis": axis_spec(chart.value, values=[box.median for box in chart.boxes], padded=True),
        "yaxis": _names([box.name for box in chart.boxes]),
        "annotations": [
            {"xref": "paper", "x": 1, "xanchor": "right", "y": place - 0.38, "yanchor": "middle",
             "text": words(f"{box.beyond} ▸"), "showarrow": False,
             "font": {"size": 11, "color": ink("outlier")}}
            for place, box in enumerate(chart.boxes)
            if box.beyond
        ],
    }  # fmt: skip
    each = BOX_PX if len(chart.boxes) <= ROOMY_BOXES else BAR_PX
    height = FRAME_PX + each * max(2, len(chart.boxes))
    return {"data": data, "layout": layout, "height": height}


def _names(names: Sequence[str]) -> Spec:
    short = shortened_apart(names, length=LABEL_LENGTH)
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [words(each, length=len(each)) for each in short],
        "range": [len(names) - 0.4, -0.6],
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
    }


def _labelled(chart: Bars) -> bool:
    return bool(chart.starts) or not chart.stacked or len(chart.groups) == 1


def _labels(chart: Bars, number: int) -> list[str]:
    group = chart.groups[number]
    if chart.starts:  # one group has the words of all bars
        shown = zip(chart.groups[0].labels, group.values, strict=True)
        return ["" if value is None else words(each) for each, value in shown]
    if group.labels:
        return [words(each) for each in group.labels]
    return ["" if value is None else text_from_number(value) for value in group.values]


def _hover(chart: Bars, several: bool) -> str:
    unit = f" {chart.value.unit}" if chart.value.unit else ""
    name = "<br>%{fullData.name}" if several else ""
    return f"<b>%{{customdata}}</b>{name}<br>%{{x}}{unit}<extra></extra>"
