"""One look for every picture: colours that colour-blind people tell apart, fonts that survive.

Knows colours and sizes as numbers and text; no drawing library.
"""

from __future__ import annotations

# Okabe and Ito's palette, without its yellow, which is lost on white paper.
BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREY = "#6B7280"
INK = "#1F2933"
OTHER = "#B8C0CA"
PALE = "#E3E8EE"
PAPER = "#FFFFFF"

TOKENS = {
    "blue": (BLUE, "#4DA6DD"),
    "vermillion": (VERMILLION, "#F08A4B"),
    "green": (GREEN, "#2FC79A"),
    "purple": (PURPLE, "#E3A3C7"),
    "orange": (ORANGE, "#F2B84B"),
    "sky": (SKY, "#8CCBF0"),
    "grey": (GREY, "#9AA5B4"),
    "other": (OTHER, "#5B6675"),
    "ink": (INK, "#E8EDF3"),
    "pale": (PALE, "#2C3642"),
    "paper": (PAPER, "#12171D"),
}
"""Names of the colours with their shades on light and on dark ground."""

RUNS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, GREY)
DASHES = ("solid", "dashed", "dotted", "dashdot")
SHAPES = ("circle", "square", "diamond", "triangle", "cross", "star")
"""When runs outnumber colours, dash patterns and shapes of marks change with every round."""

ROLES = {
    "host": INK,
    "latency": PURPLE,
    "enqueue": ORANGE,
    "h2d": SKY,
    "gpu": GREEN,
    "d2h": BLUE,
    "end_to_end": VERMILLION,
    "other": OTHER,
    "layer": GREEN,
    "total": GREY,
    "slower": VERMILLION,
    "faster": GREEN,
    "mark": GREY,
    "median": INK,
    "outlier": VERMILLION,
    "warm-up": ORANGE,
    "front": GREY,
    "note": SKY,
    "warning": ORANGE,
    "error": VERMILLION,
    "fp32": BLUE,
    "tf32": SKY,
    "fp16": GREEN,
    "bf16": PURPLE,
    "int8": ORANGE,
    "fp8": VERMILLION,
}
"""The same colour for the same thing, in every figure and every format."""

WIDTH_IN = 13.5
DPI = 110
FONT_PT = 14.0
"""On a page as wide as a text this is as large as 7 pt on paper: still read with ease."""
SMALL_PT = 12.0
TITLE_PT = 17.0

FONTS = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)
"""In order of preference; those a machine lacks are passed over."""


def colour(role: str) -> str:
    """Write the colour of a role: a name of ``ROLES``, or ``run:3`` for the fourth run."""
    name, _, index = role.partition(":")
    if name == "run":
        return RUNS[int(index or 0) % len(RUNS)]
    return ROLES.get(name, GREY)


def token(role: str) -> str:
    """Write the name of a role's colour, for pages that are light or dark."""
    shade = colour(role)
    return next(name for name, (light, _) in TOKENS.items() if light == shade)


def dash(role: str) -> str:
    """Write the dash pattern that tells runs of one colour apart."""
    return DASHES[_round(role) % len(DASHES)]


def shape(role: str) -> str:
    """Name the shape of a mark that tells runs of one colour apart."""
    return SHAPES[_round(role) % len(SHAPES)]


def _round(role: str) -> int:
    """Count how often the colours were used up before a run had its own."""
    name, _, index = role.partition(":")
    return int(index or 0) // len(RUNS) if name == "run" else 0
