"""Where the time of a build went, by phase and by layer, from what its verbose log tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trtbench.domain.spec import Value
from trtbench.report.cells import count_cell, duration_cell
from trtbench.report.charts import Axis, BarGroup, Bars
from trtbench.report.document import Block, Cell, Figure, Heading, Text, table_from_rows
from trtbench.report.labels import shortened
from trtbench.report.numbers import text_from_duration, text_from_share, unit_for_seconds
from trtbench.units import counted

MOST_LAYERS = 24
NAME_LENGTH = 48

HEADINGS = (
    Heading(key="engine", title="Engine"),
    Heading(key="layer", title="Layer"),
    Heading(key="runner", title="Runner"),
    Heading(key="tried", title="Tactics tried", align="right"),
    Heading(key="spent_s", title="Time spent", align="right"),
    Heading(key="chosen", title="Tactic chosen"),
    Heading(key="chosen_s", title="Its time", align="right"),
    Heading(key="fastest_s", title="Fastest", align="right"),
)


class BuildTime(Value, frozen=True, kw_only=True):
    """One build: seconds by phase, and its layers from the most costly on."""

    name: str
    phases_s: dict[str, float]
    layers: tuple[dict[str, object], ...]


def build_time_from_metadata(name: str, document: Mapping[str, object]) -> BuildTime | None:
    """Read ``build.metadata.json``; ``None`` where it tells nothing about time."""
    facts, trace = (_mapping(document.get(key)) for key in ("build_facts", "build_trace"))
    phases = dict(_phases(facts, _mapping(trace.get("phases_s"))))
    found = trace.get("layers")
    layers = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    layers = [each for each in layers if each.get("tried")]
    layers.sort(key=lambda each: -cost_s(each))
    if not phases and not layers:
        return None
    return BuildTime(name=name, phases_s=phases, layers=tuple(layers))


def build_time_blocks(builds: Sequence[BuildTime]) -> Iterator[Block]:
    """Tell what each build spent, draw its phases, and the layers of the first that tells any."""
    yield from (Text(text=_sentence(each)) for each in builds if each.phases_s)
    if any(each.phases_s for each in builds):
        yield _phase_figure([each for each in builds if each.phases_s])
    tuned = [each for each in builds if each.layers]
    for build in tuned[:1]:
        yield _layer_figure(build)
    rows = [row for build in tuned for row in _rows(build)]
    if rows:
        caption = (
            "The layers whose tactics took longest to try. Where the log does not say how long "
            "that was, one call of every tactic is counted."
        )
        yield table_from_rows("build_tactics", headings=HEADINGS, rows=rows, caption=caption)


def _sentence(build: BuildTime) -> str:
    whole = sum(build.phases_s.values())
    phase, longest = max(build.phases_s.items(), key=lambda each: each[1])
    said = f"{build.name}: built in {text_from_duration(whole)}"
    if len(build.phases_s) == 1:
        return f"{said}."
    part = f"{text_from_duration(longest)} ({text_from_share(longest / whole)})"
    tried = sum(map(tried_of, build.layers))
    were = "was" if tried == 1 else "were"
    tactics = f"; {counted(tried, 'tactic')} {were} tried" if tried else ""
    return f"{said}, most of it on {phase}: {part}{tactics}."


def cost_s(layer: Mapping[str, object]) -> float:
    """Compute the time spent on a layer or, unknown, that of one call of each tactic."""
    told = layer.get("spent_s") is not None
    return _number(layer, "spent_s") if told else _number(layer, "timed_ms") / 1e3


def tried_of(layer: Mapping[str, object]) -> int:
    """Count the tactics that were tried for a layer, those of operations inside of it too."""
    return int(_number(layer, "tried") + _number(layer, "tried_within"))


def _phases(facts: Mapping[str, object], told: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Part the build's time into phases that do not contain one another."""
    build, parse = _number(facts, "build_s"), _number(facts, "parse_s")
    generate = _number(facts, "generate_s")
    compiled = _number(told, "Subgraph compilation")
    graph = _number(told, "Graph construction") + _number(told, "Graph optimization")
    selection = max(_number(told, "Tactic selection"), compiled)
    whole = build or parse + generate
    if not whole:
        return
    parts = {
        "parsing": parse,
        "graph": graph,
        "trying tactics": selection - compiled,
        "compiling subgraphs": compiled,
        "calibration": _number(facts, "calibration_s"),
    }
    generated = max(generate - graph - selection, 0.0)
    parts["rest of the builder"] = generated
    parts["rest"] = max(whole - sum(parts.values()), 0.0)
    yield from ((name, seconds) for name, seconds in parts.items() if seconds > 0)


def _phase_figure(builds: Sequence[BuildTime]) -> Figure:
    longest = max(sum(each.phases_s.values()) for each in builds)
    unit, scale = unit_for_seconds(longest)
    names = dict.fromkeys(name for each in builds for name in each.phases_s)
    groups = tuple(
        BarGroup(
            name=name,
            role=f"run:{place}",
            values=tuple(
                each.phases_s[name] / scale if name in each.phases_s else None for each in builds
            ),
        )
        for place, name in enumerate(names)
    )
    chart = Bars(
        value=Axis(title="Time of the build", unit=unit, low=0),
        category_title="Engine",
        categories=tuple(shortened(each.name, length=NAME_LENGTH) for each in builds),
        groups=groups,
    )
    return Figure(id="build_phases", title="Where the build's time went, by phase", chart=chart)


def _layer_figure(build: BuildTime) -> Figure:
    shown = build.layers[:MOST_LAYERS]
    unit, scale = unit_for_seconds(cost_s(shown[0]) or 1e-3)
    chart = Bars(
        value=Axis(title="Time spent trying tactics", unit=unit, low=0),
        category_title="Layer",
        categories=tuple(shortened(str(each["name"]), length=NAME_LENGTH) for each in shown),
        groups=(
            BarGroup(
                name="time spent",
                role="run:0",
                values=tuple(cost_s(each) / scale for each in shown),
                labels=tuple(counted(tried_of(each), "tactic") for each in shown),
            ),
        ),
    )
    words = (
        f" The first {len(shown)} of {len(build.layers)}." if len(build.layers) > len(shown) else ""
    )
    return Figure(
        id="build_layers",
        title="Where the build's time went, by layer",
        chart=chart,
        caption=f"{build.name}.{words}",
    )


def _rows(build: BuildTime) -> Iterator[list[Cell | str | int | None]]:
    for each in build.layers[:MOST_LAYERS]:
        chosen = _mapping(each.get("chosen"))
        fastest = each.get("fastest")
        best = _mapping(fastest[0]) if isinstance(fastest, list) and fastest else {}
        spent = cost_s(each)
        yield [
            shortened(build.name, length=NAME_LENGTH),
            shortened(str(each["name"]), length=80),
            str(each.get("runner") or ""),
            count_cell(tried_of(each)),
            duration_cell(spent),
            shortened(str(chosen.get("name") or chosen.get("id") or ""), length=80),
            _milliseconds(chosen.get("time_ms")),
            _milliseconds(best.get("time_ms")),
        ]


def _milliseconds(value: object) -> Cell:
    seconds = float(value) / 1e3 if isinstance(value, (int, float)) else None
    return duration_cell(seconds)


def _number(facts: Mapping[str, object], key: str) -> float:
    value = facts.get(key)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
