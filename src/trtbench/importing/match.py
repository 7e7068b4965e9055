"""Which parts make one run: by name, by what a log's command names, by numbers and layers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trtbench.importing.files import FilePart, TimesShelf
from trtbench.trtexec.log_values import LogRun
from trtbench.trtexec.times import DEFAULT_WARMUP_MS

Agreement = Literal["reproduces", "disagrees", "silent"]

TOLERANCE = 1e-3
"""Relative; trtexec prints six digits of what it computed in single precision."""
_WARMUP = re.compile(r"\+ *([\d.]+) *ms warm")
_REPRODUCED = "the times reproduce the numbers that were printed"

SHARED = ("plan", "onnx", "calibration", "timing_cache", "device", "graph", "build_log")
"""Parts that several runs may have in common, such as the engine they loaded."""
MEASURED = ("log", "times", "profile", "summary", "report", "torch", "layer_csv")
"""Parts that hold measured numbers, so that a run can be made of one alone."""
_NAMED_BY = {
    "--exportTimes": "times",
    "--exportProfile": "profile",
    "--exportLayerInfo": "graph",
    "--exportOutput": "output",
    "--loadEngine": "plan",
    "--saveEngine": "plan",
    "--onnx": "onnx",
    "--calib": "calibration",
    "--timingCacheFile": "timing_cache",
}


def warmup_ms_of(run: LogRun) -> float | None:
    """The warm-up a run asked for, from its options or its command."""
    match = _WARMUP.search(run.option("Duration") or "")
    if match:
        return float(match[1])
    for word in run.arguments:
        flag, _, value = word.partition("=")
        if flag == "--warmUp" and value.replace(".", "", 1).isdecimal():
            return float(value)
    return None


def agreement(times: FilePart, run: LogRun, shelf: TimesShelf) -> Agreement:
    """Whether a times array reproduces the numbers that a log printed."""
    if run.summary is None:
        # trtexec exports times only after it has printed a summary, so these are another run's.
        return "disagrees"
    printed = run.summary.metrics
    if run.summary.derived or not printed:
        return "silent"
    warmup = warmup_ms_of(run)
    computed = shelf.metrics(times, warmup_ms=DEFAULT_WARMUP_MS if warmup is None else warmup)
    pairs = [
        (value, other)
        for label, statistics in computed.items()
        for name, value in statistics.items()
        if (other := printed.get(label, {}).get(name)) is not None
    ]
    same = all(math.isclose(*pair, rel_tol=TOLERANCE, abs_tol=1e-5) for pair in pairs)
    return "silent" if not pairs else "reproduces" if same else "disagrees"


def same_layers(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether a profile and layer information name the same layers."""
    return sorted(one) == sorted(other)


def layers_fit(names: Sequence[str], run: LogRun) -> bool | None:
    """Whether a profile is the one a log printed; ``None`` when it printed none.

    The printed table leaves out layers that took no time.
    """
    if run.profile is None:
        return None
    printed = {" ".join(layer.name.split()) for layer in run.profile.layers}
    return printed <= {" ".join(name.split()) for name in names}


@dataclass(eq=False, kw_only=True)
class Draft:
    """Parts that are taken to be of one run; at most one in each place."""

    folder: Path
    key: str
    parts: dict[str, FilePart] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def value(self, slot: str) -> Any:
        """What the file in a place states; ``None`` where there is none."""
        part = self.parts.get(slot)
        return part.value if part else None

    @property
    def log(self) -> LogRun | None:
        """What trtexec printed, in a log or in metadata made of one."""
        log: LogRun | None = self.value("log")
        return log

    @property
    def measured(self) -> bool:
        return any(slot in MEASURED or slot.endswith("_series") for slot in self.parts)

    @property
    def of_torch(self) -> bool:
        """Whether PyTorch was measured, not an engine."""
        return "torch" in self.parts

    @property
    def failed(self) -> bool:
        return "failed_log" in self.parts and not self.measured

    @property
    def built(self) -> bool:
        """Whether nothing but a build was done, by its log."""
        log: LogRun | None = self.value("build_log")
        built = log is not None and (log.facts.build_s or log.facts.generate_s)
        return bool(built) and not self.measured and not self.failed

    def take(self, part: FilePart) -> bool:
        """Take a part if its place is free and nothing contradicts it."""
        if not self.fits(part):
            return False
        self.parts[part.slot] = part
        return True

    def fits(self, part: FilePart) -> bool:
        """Whether a part could be taken."""
        if part.slot in self.parts:
            return False
        other = self.parts.get({"graph": "profile", "profile": "graph"}.get(part.slot, ""))
        if other is not None and not same_layers(part.value, other.value):
            return False
        if part.slot != "profile" or self.log is None:
            return True
        return layers_fit(part.value, self.log) is not False


def drafts_from_parts(parts: Iterable[FilePart], shelf: TimesShelf) -> list[Draft]:
    """Group parts into runs."""
    bags: dict[tuple[Path, str], list[FilePart]] = {}
    for part in parts:
        bags.setdefault((part.file.folder, part.file.key), []).append(part)
    drafts = [
        draft for (folder, key), bag in bags.items() for draft in _from_bag(folder, key, bag, shelf)
    ]
    _join_named(drafts, shelf)
    by_folder: dict[Path, list[Draft]] = {}
    for draft in drafts:
        by_folder.setdefault(draft.folder, []).append(draft)
    for members in by_folder.values():
        _join_numbers(members, shelf)
        _join_layers(members)
        _join_plain(members)
    return [draft for draft in drafts if draft.parts]


def _from_bag(folder: Path, key: str, bag: list[FilePart], shelf: TimesShelf) -> list[Draft]:
    if not _of(bag, "log"):  # metadata made of a log stands for it where the log is not there
        bag = [
            FilePart(file=p.file, slot="log", value=p.value) if p.slot == "profile_metadata" else p
            for p in bag
        ]
    heads = next((h for s in ("log", "times", "profile") if (h := _of(bag, s))), [])
    rest = [part for part in bag if part not in heads and part.slot != "failed_log"]
    drafts = [
        Draft(folder=folder, key=key, parts={part.slot: part})
        for part in (*heads, *_of(bag, "failed_log"))
    ]
    logs = [draft for draft in drafts if "log" in draft.parts]
    if logs:
        rest = _place_times(rest, logs, shelf)
    targets = [draft for draft in drafts if not draft.failed] or drafts
    for part in rest:
        if not _place(part, targets):
            drafts.append(Draft(folder=folder, key=key, parts={part.slot: part}))
    # Leftovers that hold no measurement are put together, so that a folder's odds are one thing.
    odd = [draft for draft in drafts if not draft.measured and not draft.failed]
    for draft in odd[1:]:
        _merge(draft, odd[0])
    return [draft for draft in drafts if draft.parts]


def _of(parts: Iterable[FilePart], slot: str) -> list[FilePart]:
    return [part for part in parts if part.slot == slot]


def _place_times(rest: list[FilePart], logs: list[Draft], shelf: TimesShelf) -> list[FilePart]:
    """Assign each times array to the run whose printed numbers it reproduces, else by order."""
    left = []
    times = _of(rest, "times")
    for number, part in enumerate(times):
        free = [draft for draft in logs if "times" not in draft.parts]
        said = {draft: agreement(part, draft.parts["log"].value, shelf) for draft in free}
        target = next((draft for draft in free if said[draft] == "reproduces"), None)
        if target is None and len(times) == len(logs) and said.get(logs[number]) == "silent":
            target = logs[number]
        if target is None:
            left.append(part)
            continue
        target.take(part)
        if said[target] == "reproduces":
            target.notes.append(_REPRODUCED)
    return [part for part in rest if part.slot != "times"] + left


def _place(part: FilePart, drafts: list[Draft]) -> bool:
    """Place a part beside the only run of its name, or in order when the counts agree."""
    if part.slot == "times" and any("log" in draft.parts for draft in drafts):
        return False  # its numbers are those of no log here
    if len(drafts) == 1:
        return drafts[0].take(part)
    if part.of == len(drafts) > 1:
        return drafts[part.index].take(part)
    if part.slot != "graph":
        return False
    taken = [draft.take(part) for draft in drafts if _has_layers(draft, part)]
    return any(taken)


def _has_layers(draft: Draft, graph: FilePart) -> bool:
    profile = draft.parts.get("profile")
    return profile is not None and same_layers(profile.value, graph.value)


def _join_named(drafts: list[Draft], shelf: TimesShelf) -> None:
    owners = {slot: [d for d in drafts if slot in d.parts] for slot in _NAMED_BY.values()}
    for draft in drafts:
        log = draft.log
        for word in log.arguments if log is not None else ():
            flag, _, named = word.partition("=")
            slot = _NAMED_BY.get(flag, "")
            if log is None or not slot or not named:
                continue
            for owner, part in _lying_at(named, slot, draft, owners[slot]):
                if slot != "times" or agreement(part, log, shelf) != "disagrees":
                    _move(part, owner, draft)


def _lying_at(
    named: str, slot: str, draft: Draft, drafts: list[Draft]
) -> Iterator[tuple[Draft, FilePart]]:
    """Find a part at the place a command names, or under that name beside the log."""
    name = named.replace("\\", "/").rsplit("/", 1)[-1]
    for owner in drafts:
        part = owner.parts.get(slot)
        if part is None or owner is draft or part.of > 1 or (owner.log and slot not in SHARED):
            continue
        beside = part.file.folder == draft.folder and part.file.path.name == name
        if beside or part.file.path.absolute() == (draft.folder / named).absolute():
            yield owner, part


def _move(part: FilePart, owner: Draft, target: Draft) -> None:
    """Move a part, and with it what lay beside it; what runs may share is left for others too."""
    if not target.take(part) or part.slot in SHARED:
        return
    del owner.parts[part.slot]
    if owner.log is None and not owner.failed:
        _merge(owner, target)


def _merge(owner: Draft, target: Draft) -> None:
    for slot, part in list(owner.parts.items()):
        if target.take(part):
            del owner.parts[slot]


def _join_numbers(drafts: list[Draft], shelf: TimesShelf) -> None:
    """Join times without a log and a log without times when the one reproduces the other."""
    for owner in drafts:
        part = owner.parts.get("times")
        if part is None or owner.log is not None:
            continue
        for target in drafts:
            if target.log is None or "times" in target.parts:
                continue
            if agreement(part, target.log, shelf) == "reproduces":
                target.notes.append(_REPRODUCED)
                _move(part, owner, target)
                break


def _join_layers(drafts: list[Draft]) -> None:
    """Join profiles and layer information of the same layers."""
    for owner in drafts:
        graph = owner.parts.get("graph")
        if graph is not None and not owner.measured:
            for target in drafts:
                if target is not owner and _has_layers(target, graph):
                    target.take(graph)


def _join_plain(drafts: list[Draft]) -> None:
    """Add files with plain names (``profile.json``) to the only run of their folder."""
    runs = [draft for draft in drafts if draft.measured or draft.failed]
    if len(runs) != 1 or runs[0].failed:
        return
    for draft in drafts:
        is_plain = draft.key == "" or runs[0].key == ""
        if draft is runs[0] or not is_plain or draft.measured or draft.failed:
            continue
        if all(map(runs[0].fits, draft.parts.values())):  # else all of its name are another's
            _merge(draft, runs[0])
