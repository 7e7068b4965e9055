"""One network built several times, two networks, or two versions: every build and the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trtbench.analysis.builds import Aspect, Lottery, Spread
from trtbench.analysis.verdict import WORTH_WHILE
from trtbench.domain.comparison import Verdict
from trtbench.report.cells import bytes_cell, duration_cell
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Heading,
    KeyValues,
    Section,
    Table,
    Text,
    Tone,
    document_from_blocks,
    table_from_rows,
)
from trtbench.report.documents.comparison import verdict_table
from trtbench.report.documents.evaluation import text_from_score
from trtbench.report.numbers import text_from_change
from trtbench.units import text_from_seconds

if TYPE_CHECKING:
    from trtbench.workflows.builds.networks import NetworksCompared
    from trtbench.workflows.builds.upgrade import Upgrade, UpgradeSide

HEADINGS = (
    Heading(key="build", title="Build"),
    Heading(key="median_s", title="Median", align="right"),
    Heading(key="change", title="Against 1st", align="right", rank=1),
    Heading(key="build_s", title="Built in", align="right", rank=2),
    Heading(key="size_bytes", title="Size", align="right", rank=3),
    Heading(key="layers", title="Layers", align="right", rank=5),
    Heading(key="sha256", title="SHA-256", rank=4),
    Heading(key="run", title="Run", rank=6),
)
_WORDS: dict[bool | None, tuple[str, Tone]] = {
    True: ("same", "good"),
    False: ("different", "bad"),
    None: ("unknown", "unclear"),
}


def document_from_lottery(found: Lottery) -> Document:
    """Describe every build, in what they differ, and what a claim needs."""
    blocks: list[Block] = [
        draws_table(found),
        *_cautions(found.notes),
        aspects_block(found.aspects),
        *spread_blocks(found.spread),
    ]
    title = f"{len(found.draws)} builds of {_name(found.model)} by {found.builder}"
    return document_from_blocks("lottery", blocks, title=title)


def document_from_networks(found: Sequence[NetworksCompared]) -> Document:
    """Describe networks by their builds, the verdict first."""
    sections = []
    for number, each in enumerate(found):
        names = (_name(each.candidate.model), _name(each.baseline.model))
        blocks: list[Block] = [
            verdict_table(each.comparison.verdicts, id=f"verdict_{number}"),
            *_reasons(each.comparison.verdicts),
            Text(text=f"rests on {each.mode}, {len(each.baseline.draws)} of each side"),
            *_sides(each.baseline, each.candidate, number),
        ]
        title = f"{names[0]} against {names[1]}"
        sections.append(Section(id=f"networks_{number}", title=title, blocks=tuple(blocks)))
    return Document(title="", created="", sections=tuple(sections))


def document_from_upgrade(found: Upgrade) -> Document:
    """Describe two versions: one verdict, then outputs, accuracy, layers and every build."""
    pairs = [
        ("old", Cell(text=_version(found.old))),
        ("new", Cell(text=_version(found.new))),
        ("outputs", _said(found.outputs)),
        *((name, Cell(text=words)) for name, words in _accuracy(found)),
        ("layers", Cell(text=found.layers)),
    ]
    blocks: list[Block] = [
        verdict_table([found.verdict]),
        *_reasons([found.verdict]),
        KeyValues(id="versions", pairs=tuple(pairs)),
        *_cautions(found.notes),
        *_sides(found.old.builds, found.new.builds, 0),
    ]
    title = f"{_name(found.model)}: {found.new.name} against {found.old.name}"
    return document_from_blocks("upgrade", blocks, title=title)


def draws_table(found: Lottery, *, id: str = "builds") -> Table:
    """List every build with its time and what tells it from the first."""
    first = found.draws[0].typical_s
    rows = []
    for draw in found.draws:
        typical = draw.typical_s
        change = typical / first - 1 if typical and first else None
        rows.append(
            (
                draw.label,
                duration_cell(typical),
                Cell(value=change, text=text_from_change(change) if change is not None else None),
                Cell(value=draw.build_s, text=_seconds(draw.build_s)),
                bytes_cell(draw.size_bytes),
                draw.layers,
                Cell(value=draw.sha256, text=draw.sha256[:12]),
                draw.run,
            )
        )
    metric = f"median {found.metric} time of {_launches(found.spread)}" if found.metric else None
    return table_from_rows(id, headings=HEADINGS, rows=rows, caption=metric)


def aspects_block(aspects: Sequence[Aspect]) -> KeyValues:
    """State for every aspect whether builds are the same in it."""
    return KeyValues(id="aspects", pairs=tuple((each.name, _said(each)) for each in aspects))


def spread_blocks(spread: Spread | None) -> Iterator[Block]:
    """Say how far builds and launches spread, and how many builds claims need."""
    if spread is None:
        return
    needed = ", ".join(f"{claim}: {count}" for claim, count in spread.needed.items())
    pairs = (
        ("between builds", Cell(value=spread.between, text=f"± {_percent(spread.between)}")),
        (
            "within one",
            Cell(value=spread.within, text=f"± {_percent(spread.within)} from launch to launch"),
        ),
        ("claims need", Cell(text=f"{needed} builds a side (99 %, found in 80 % of cases)")),
    )
    yield KeyValues(id="spread", pairs=pairs)
    if spread.between >= 0.01:
        share = _percent(spread.range)
        yield Text(
            text=f"One build each says nothing about differences below about {share}: "
            "trtbench compare A.onnx B.onnx --builds 3, or one timing cache for both.",
            tone="unclear",
        )


def _sides(baseline: Lottery, candidate: Lottery, number: int) -> Iterator[Block]:
    for name, side in (("baseline", baseline), ("candidate", candidate)):
        yield Text(text=f"{name}: {_name(side.model)}, built by {side.builder}")
        yield draws_table(side, id=f"{name}_{number}")
        if side.spread is not None:
            apart = f"± {_percent(side.spread.between)} between builds"
            inside = f"± {_percent(side.spread.within)} within one"
            yield Text(text=f"{apart}, {inside}")


def _said(aspect: Aspect) -> Cell:
    word, tone = _WORDS[aspect.same]
    return Cell(value=aspect.same, text=f"{word}: {aspect.text}", tone=tone)


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[Text]:
    for verdict in verdicts:
        if verdict.kind not in ("unclear", "incomparable"):
            continue
        needed = verdict.launches_needed
        more = f"; about {needed} builds would tell" if needed and needed <= WORTH_WHILE else ""
        yield Text(text=f"{verdict.metric}: {verdict.reason}{more}", tone="unclear")


def _accuracy(found: Upgrade) -> Iterator[tuple[str, str]]:
    new = {score.metric: score for score in found.new.scores}
    for old in found.old.scores:
        if old.metric in new:
            yield (
                old.metric,
                f"{text_from_score(old)} before, {text_from_score(new[old.metric])} after",
            )


def _version(side: UpgradeSide) -> str:
    unknown = "" if side.version else " of an unknown version"
    return f"{side.name}: {side.builds.builder}{unknown}, {side.python}"


def _cautions(notes: Sequence[str]) -> list[Text]:
    return [Text(text=f"note: {note}", tone="unclear") for note in notes]


def _launches(spread: Spread | None) -> str:
    count = spread.launches if spread else 1
    return "1 launch" if count == 1 else f"{count} launches in rounds"


def _percent(part: float) -> str:
    return f"{100 * part:.2g} %"


def _seconds(value: float | None) -> str | None:
    return None if value is None else text_from_seconds(value)


def _name(model: str) -> str:
    return model.replace("\\", "/").rsplit("/", 1)[-1]
