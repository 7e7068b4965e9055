"""Figures as plotly describes them: plain data, drawn in the reader's browser.

Colours are names behind an ``@`` (``@blue``, ``@blue/0.4``); the page replaces them by the shades
of its scheme. Text from outside is escaped, because plotly reads a little HTML in names.
"""

from __future__ import annotations

from typing import Any

from trtbench.report.charts import Bars, Boxes, Histogram, Lines
from trtbench.report.document import Figure
from trtbench.report.renderers import _plot_bars, _plot_curves

Spec = dict[str, Any]

NAME_LENGTH = 48


def spec_from_figure(figure: Figure) -> Spec:
    """Describe traces, layout and height of one figure."""
    chart = figure.chart
    if isinstance(chart, Lines):
        return _plot_curves.lines(chart)
    if isinstance(chart, Histogram):
        return _plot_curves.histogram(chart)
    if isinstance(chart, Bars):
        return _plot_bars.bars(chart)
    assert isinstance(chart, Boxes)
    return _plot_bars.boxes(chart)
