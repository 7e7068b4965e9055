"""How engines were built: the record beside an engine, and what the log of its build tells.

Runs carry the first as ``extra["build"]`` and the second as ``extra["build_log"]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from trtbench.domain.result import Run, Scalar
from trtbench.report.build_time import BuildTime, build_time_blocks, build_time_from_metadata
from trtbench.report.cells import bytes_cell
from trtbench.report.document import Cell, Details, Heading, Section, Text, table_from_rows
from trtbench.report.labels import labels_from_runs, shortened
from trtbench.report.numbers import text_from_duration
from trtbench.units import text_from_bytes

ORDER = 85

MOST_ENGINES = 8
MOST_FACTS = 60
MOST_LETTERS = 120
MOST_INPUTS = 3
LENGTH = 80


def make(runs: Sequence[Run]) -> Section | None:
    """Tell of each build in a sentence, draw its time, and fold away the facts of its record."""
    records = _records(runs)
    sentences = (
        sentence_from_build(name, told) for name, told in list(records.items())[:MOST_ENGINES]
    )
    told = tuple(Text(text=each) for each in sentences if each)
    blocks = (*told, *build_time_blocks(_times(runs)), *_facts(records))
    return Section(id="build", title="Build", blocks=blocks) if blocks else None


def _facts(records: Mapping[str, Mapping[object, object]]) -> Iterator[Details]:
    """List everything the records hold, a row per fact and a column per engine."""
    builds = {name: facts for name, told in records.items() if (facts := dict(_flat(told)))}
    if not builds:
        return
    shown = dict(list(builds.items())[:MOST_ENGINES])
    keys = list(dict.fromkeys(key for facts in shown.values() for key in facts))[:MOST_FACTS]
    headings = (
        Heading(key="fact", title="Fact"),
        *(
            Heading(key=f"engine_{number}", title=shortened(name, length=32))
            for number, name in enumerate(shown, start=1)
        ),
    )
    rows: list[tuple[Cell | str, ...]] = [
        (_title(key), *(_cell(key, facts.get(key)) for facts in shown.values())) for key in keys
    ]
    caption = None
    if len(builds) > len(shown):
        caption = f"The first {len(shown)} of {len(builds)} engines."
    table = table_from_rows("build", headings=headings, rows=rows, caption=caption)
    yield Details(summary=f"All {len(rows)} facts of the record", blocks=(table,))


def _times(runs: Sequence[Run]) -> list[BuildTime]:
    found: dict[str, BuildTime] = {}
    for label, run in zip(labels_from_runs(runs), runs, strict=True):
        told = run.extra.get("build_log")
        time = build_time_from_metadata(label, told) if isinstance(told, Mapping) else None
        if time is not None:
            found.setdefault(label, time)
    return list(found.values())[:MOST_ENGINES]


def _records(runs: Sequence[Run]) -> dict[str, Mapping[object, object]]:
    """Name each engine once, by the first run of it."""
    found: dict[str, Mapping[object, object]] = {}
    seen = set()
    for label, run in zip(labels_from_runs(runs), runs, strict=True):
        build = run.extra.get("build")
        engine = run.record.spec.model.sha256 or run.record.spec.model.path
        if isinstance(build, Mapping) and engine not in seen:
            seen.add(engine)
            found[label] = build
    return found


def _flat(value: Mapping[object, object], prefix: str = "") -> Iterator[tuple[str, Scalar]]:
    for key, each in value.items():
        name = f"{prefix}{key}"
        if isinstance(each, Mapping):
            yield from _flat(each, f"{name}.")
        elif isinstance(each, (list, tuple)):
            yield name, " ".join(str(part) for part in each)
        elif isinstance(each, (str, int, float, bool)):
            yield name, each


def _title(key: str) -> str:
    for ending in ("_s", "_bytes"):
        key = key.removesuffix(ending)
    return key.replace("_", " ").replace(".", " · ")


def _cell(key: str, value: Scalar) -> Cell:
    if isinstance(value, bool):
        return Cell(value=value, text="yes" if value else "no")
    if isinstance(value, (int, float)) and key.endswith("_s"):
        return Cell(value=value, text=text_from_duration(float(value)))
    if isinstance(value, (int, float)) and key.endswith("_bytes"):
        return bytes_cell(value)
    if isinstance(value, str):
        return Cell(value=value, text=shortened(value, length=MOST_LETTERS))
    return Cell(value=value)


def sentence_from_build(name: str, told: Mapping[object, object]) -> str | None:
    """Tell of one engine what its record knows; ``None`` where that is nothing people ask for."""
    spec = _mapping(told.get("spec"))
    parts = [*_made(told, spec), *_sizes(told, spec), *_allowed(spec)]
    return f"{name}: {'; '.join(parts)}." if parts else None


def _made(told: Mapping[object, object], spec: Mapping[object, object]) -> Iterator[str]:
    words = []
    if source := _text(_mapping(spec.get("model")).get("path")):
        words.append(f"from {shortened(PurePath(source).name, length=LENGTH)}")
    if precision := _text(spec.get("precision")):
        words.append(f"in {precision}")
    if version := _text(told.get("tensorrt")) or _text(told.get("plan")):
        words.append(f"by TensorRT {version}")
    if gpus := _names(told.get("gpus")):
        words.append(f"on {gpus[0]}")
    seconds = _number(told.get("build_s")) or _number(told.get("wall_s"))
    if seconds:
        words.append(f"in {text_from_duration(seconds)}")
    if words:
        yield f"built {' '.join(words)}"


def _sizes(told: Mapping[object, object], spec: Mapping[object, object]) -> Iterator[str]:
    if size := _number(told.get("size_bytes")):
        yield f"its file holds {text_from_bytes(size)}"
    if peak := _number(told.get("peak_memory_bytes")):
        yield f"building took {text_from_bytes(peak)} of memory"
    shapes = _mapping(spec.get("shapes"))
    ranges = [each for name, value in shapes.items() if (each := _range(str(name), value))]
    if ranges:
        more = f" and {len(ranges) - MOST_INPUTS} more" if len(ranges) > MOST_INPUTS else ""
        yield f"it takes {', '.join(ranges[:MOST_INPUTS])}{more}"


def _allowed(spec: Mapping[object, object]) -> Iterator[str]:
    """Name what was asked for beyond the usual."""
    if (workspace := _number(spec.get("workspace_bytes"))) is not None:
        yield f"at most {text_from_bytes(workspace)} of workspace"
    if (level := _number(spec.get("optimization_level"))) is not None:
        yield f"optimization level {level:g}"
    if calibration := _text(spec.get("calibration")):
        yield f"calibrated on {shortened(PurePath(calibration).name, length=LENGTH)}"
    words = {
        "version_compatible": "for other versions too",
        "hardware_compatible": "for other GPUs too",
        "strip_weights": "without its weights",
        "refit": "with weights that can be replaced",
    }
    yield from (said for key, said in words.items() if spec.get(key) is True)


def _range(name: str, value: object) -> str | None:
    low, best, high = (_shape(_mapping(value).get(key)) for key in ("min", "opt", "max"))
    if best is None:
        return None
    if low == high or low is None or high is None:
        return f"{name} {best}"
    return f"{name} {low} to {high}, best at {best}"


def _shape(value: object) -> str | None:
    return "x".join(str(dim) for dim in value) if isinstance(value, (list, tuple)) else None


def _names(value: object) -> list[str]:
    gpus = value if isinstance(value, (list, tuple)) else ()
    return [name for each in gpus if (name := _text(_mapping(each).get("name")))]


def _mapping(value: object) -> Mapping[object, object]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
