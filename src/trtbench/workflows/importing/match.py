"""Which parts make one run: by name, by what a log's command names, and by content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trtbench.trtexec.log import LogRun
from trtbench.workflows.importing.agreement import agreement, layers_fit, same_layers
from trtbench.workflows.importing.look import FilePart, TimesShelf

SHARED = ("plan", "onnx", "calibration", "timing_cache", "device", "graph", "build_log")
"""Parts that several runs may have in common, such as the engine they loaded."""

MEASURED = (
    "log",
    "times",
    "profile",
    "summary",
    "report",
    "torch",
    "torch_csv",
    "layer_csv",
    "summary_csv",
)
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


@dataclass(eq=False, kw_only=True)
class Draft:
    """Parts that are taken to be of one run; at most one in each place."""

    folder: Path
    key: str
    parts: dict[str, FilePart] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def log(self) -> LogRun | None:
        """What trtexec said, in a log or in metadata made of one."""
        part = self.parts.get("log")
        return part.value if part else None

    @property
    def measured(self) -> bool:
        series = any(slot.endswith("_series") for slot in self.parts)
        return series or any(slot in self.parts for slot in MEASURED)

    @property
    def of_torch(self) -> bool:
        """Whether PyTorch was measured, not an engine."""
        return "torch" in self.parts or "torch_csv" in self.parts

    @property
    def failed(self) -> bool:
        return "failed_log" in self.parts and not self.measured

    @property
    def built(self) -> bool:
        """Whether the log of a build is all that tells of anything that was done."""
        log = self.parts.get("build_log")
        told = log is not None and (log.value.facts.build_s or log.value.facts.generate_s)
        return bool(told) and not self.measured and not self.failed

    def take(self, part: FilePart) -> bool:
        """Take a part in if its place is free and nothing speaks against it."""
        if part.slot in self.parts or not self._fits(part):
            return False
        self.parts[part.slot] = part
        return True

    def fits(self, other: Draft) -> bool:
        """Say whether every part of another draft could be taken in."""
        return all(p.slot not in self.parts and self._fits(p) for p in other.parts.values())

    def _fits(self, part: FilePart) -> bool:
        if part.slot == "graph" and "profile" in self.parts:
            return same_layers(part.value, self.parts["profile"].value)
        if part.slot == "profile":
            graph = self.parts.get("graph")
            if graph is not None and not same_layers(part.value, graph.value):
                return False
            return self.log is None or layers_fit(part.value, self.log) is not False
        return True


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
    """Make runs of the parts that bear one name."""
    bag = _with_metadata_as_log(bag)
    heads = next((h for s in ("log", "times", "profile") if (h := _of(bag, s))), [])
    drafts = [Draft(folder=folder, key=key, parts={part.slot: part}) for part in heads]
    rest = [part for part in bag if part not in heads]
    for part in _of(rest, "failed_log"):
        drafts.append(Draft(folder=folder, key=key, parts={part.slot: part}))
        rest.remove(part)
    logs = [draft for draft in drafts if "log" in draft.parts]
    if logs:
        rest = _place_times(rest, logs, shelf)
    targets = [draft for draft in drafts if not draft.failed] or drafts
    for part in rest:
        if not _place(part, targets):
            drafts.append(Draft(folder=folder, key=key, parts={part.slot: part}))
    return _gathered(drafts)


def _with_metadata_as_log(bag: list[FilePart]) -> list[FilePart]:
    """Let metadata made of a log speak for it where the log itself is not there."""
    if _of(bag, "log"):
        return bag
    return [
        FilePart(file=p.file, slot="log", value=p.value) if p.slot == "profile_metadata" else p
        for p in bag
    ]


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
            target.notes.append("the times reproduce the numbers that were printed")
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


def _of(parts: Iterable[FilePart], slot: str) -> list[FilePart]:
    return [part for part in parts if part.slot == slot]


def _has_layers(draft: Draft, graph: FilePart) -> bool:
    profile = draft.parts.get("profile")
    return profile is not None and same_layers(profile.value, graph.value)


def _gathered(drafts: list[Draft]) -> list[Draft]:
    """Put leftovers that hold no measurement together, so that a folder's odds are one thing."""
    odd = [draft for draft in drafts if not draft.measured and not draft.failed]
    for draft in odd[1:]:
        for slot, part in list(draft.parts.items()):
            if odd[0].take(part):
                del draft.parts[slot]
    return [draft for draft in drafts if draft.parts]


def _join_named(drafts: list[Draft], shelf: TimesShelf) -> None:
    """Find a run the files that its command names."""
    owners = {slot: [d for d in drafts if slot in d.parts] for slot in _NAMED_BY.values()}
    for draft in drafts:
        log = draft.log
        if log is None:
            continue
        for slot, named in _named_files(log):
            for owner, part in _lying_at(named, slot, draft, owners[slot]):
                if slot == "times" and agreement(part, log, shelf) == "disagrees":
                    continue
                _move(part, owner, draft)


def _named_files(log: LogRun) -> Iterator[tuple[str, str]]:
    for word in log.arguments:
        flag, _, value = word.partition("=")
        if flag in _NAMED_BY and value:
            yield _NAMED_BY[flag], value


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
    if not target.take(part):
        return
    if part.slot in SHARED:
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
                target.notes.append("the times reproduce the numbers that were printed")
                _move(part, owner, target)
                break


def _join_layers(drafts: list[Draft]) -> None:
    """Join profiles and layer information of the same layers, and a log that printed them."""
    for owner in drafts:
        profile = owner.parts.get("profile")
        if profile is not None and owner.log is None and "times" not in owner.parts:
            fitting = [d for d in drafts if d.log and layers_fit(profile.value, d.log)]
            if len(fitting) == 1:
                _move(profile, owner, fitting[0])
    for owner in drafts:
        graph = owner.parts.get("graph")
        if graph is not None and not owner.measured:
            for target in drafts:
                if target is not owner and _has_layers(target, graph):
                    target.take(graph)


def _join_plain(drafts: list[Draft]) -> None:
    """Add files with plain names (``profile.json``) to the only run of their folder."""
    runs = [draft for draft in drafts if draft.measured or draft.failed]
    if len(runs) == 2 and "" in (runs[0].key, runs[1].key):
        runs = _one_of_two(*runs)
    if len(runs) != 1 or runs[0].failed:
        return
    for draft in drafts:
        plain = draft.key == "" or runs[0].key == ""
        if draft is runs[0] or not plain or draft.measured or draft.failed:
            continue
        if runs[0].fits(draft):  # one part of another engine, and the others of its name are too
            _merge(draft, runs[0])


def _one_of_two(one: Draft, other: Draft) -> list[Draft]:
    """Join a named and a plain group that have nothing in common and do not contradict."""
    target, owner = (one, other) if one.log is not None else (other, one)
    clash = set(one.parts) & set(other.parts)
    of_another = target.log is not None and "times" in owner.parts
    if clash or target.failed or owner.failed or owner.log is not None or of_another:
        return [one, other]
    _merge(owner, target)
    return [each for each in (target, owner) if each.measured]
