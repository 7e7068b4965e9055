"""What a verbose log tells about a build: tactics tried and chosen, fusions, time by phase."""

from __future__ import annotations

import heapq
import re

from trtbench.domain.spec import Value
from trtbench.trtexec._log_numbers import number

MOST_LAYERS = 20_000
MOST_TACTICS = 300_000
"""Tactics kept by name in one build; those beyond are counted. A network has some thousands."""
MOST_FUSIONS = 20_000
FASTEST = 3
"""Tactics listed of each layer beside the one that was chosen."""

_NUMBER = r"([\d.eE+-]{1,30})"
_KIND = r"\(([\w-]{1,80})(?:\[\w{1,30}\])?\)"
_RUNNER = re.compile(rf"-{{5,}} Timing (?:Runner: )?(.{{1,2000}}?) ?{_KIND}\s*$")
_SET_NAME = re.compile(r"Set Tactic Name: (\S{1,400}) Tactic: (\S{1,40})")
_TACTIC = re.compile(
    rf"Tactic(?: Name: (\S{{1,400}}) Tactic)?:? ?(0x[0-9a-fA-F]{{1,16}}|-?\d{{1,20}}),? "
    rf"[Tt]ime:? {_NUMBER}"
)
_SKIPPED = re.compile(r"Tactic:? ?(?:0x[0-9a-fA-F]{1,16}|-?\d{1,20}),? skipped|Skipping tactic")
_SPENT = re.compile(rf"(.{{1,2000}}?) {_KIND} profiling completed in {_NUMBER} s")
_CHOSE = re.compile(r">{5,} Chose Runner Type: (\S{1,80}) Tactic: (\S{1,40})")
_FUSION = re.compile(r"(\w{3,80}): Fusing (.{1,1000}) with (.{1,1000})")
_COUNT = re.compile(r"(Original|After [\w /-]{1,80}): (\d{1,9}) layers")
_PHASES = {
    "Graph construction": re.compile(rf"Graph construction completed in {_NUMBER} s"),
    "Graph optimization": re.compile(rf"Graph optimization time: {_NUMBER} s"),
    "Tactic selection": re.compile(rf"Formats and tactics selection completed in {_NUMBER} s"),
    "Subgraph compilation": re.compile(rf"Subgraph compilation completed in {_NUMBER} s"),
    "Stream splitting": re.compile(rf"\[MS\] Multi stream splitting completed in {_NUMBER} s"),
}
_PHASE_STARTS = ("Graph ", "Formats and tactics", "Subgraph compilation", "[MS] Multi")
_FINAL = re.compile(r"Layer\((\w{1,80})\): (.{1,4000}?), Tactic: (0x[0-9a-fA-F]{1,16}|-?\d{1,20}),")


class Tactic(Value, frozen=True, kw_only=True):
    """One implementation of a layer that the builder timed, in milliseconds."""

    id: str
    name: str | None = None
    time_ms: float | None = None


class LayerTuning(Value, frozen=True, kw_only=True):
    """How the implementation of one layer was found."""

    name: str
    runner: str | None = None
    chosen: Tactic | None = None
    """The one in the engine or, where its layers were not listed, the last one chosen."""
    tried: int = 0
    fastest: tuple[Tactic, ...] = ()
    spent_s: float | None = None
    """Time that trying took, where the log says so (from TensorRT 8.6 on)."""
    timed_ms: float = 0.0
    """The times of all tactics that were tried, added up: one call of each."""


class BuildTrace(Value, frozen=True, kw_only=True):
    """What a verbose log tells of a build."""

    layers: tuple[LayerTuning, ...] = ()
    phases_s: dict[str, float] = {}
    """Seconds by phase, summed over the passes of the builder; some contain others."""
    fusions: tuple[tuple[str, str, str], ...] = ()
    """What was done, and to which two layers."""
    layer_counts: tuple[tuple[str, int], ...] = ()
    """Layers left after each step of the first pass."""
    tactics_tried: int = 0
    tactics_skipped: int = 0
    """For want of workspace."""


class TraceCollector:
    """Reads the verbose lines of TensorRT itself; memory is bounded, however long the log."""

    def __init__(self) -> None:
        self.layers: dict[str, _Layer] = {}
        self.current: _Layer | None = None
        self.final: dict[str, tuple[str, str]] = {}
        self.phases: dict[str, float] = {}
        self.fusions: dict[tuple[str, str, str], None] = {}
        self.counts: list[tuple[str, int]] = []
        self.names: dict[str, str] = {}
        """Names of tactics, which TensorRT 8.0 to 8.5 print on lines of their own."""
        self.tried = self.skipped = self.kept = 0

    def take(self, text: str) -> None:
        """Take one verbose line in."""
        begin = text[:5]
        if begin in ("Tacti", "Skipp"):
            self._tactic(text)
        elif begin == "-----":
            self._runner(text)
        elif begin == ">>>>>":
            match = _CHOSE.match(text)
            if match and self.current is not None:
                self.current.runner, self.current.chosen = match[1], match[2]
        elif " Set Tactic Name: " in text:
            match = _SET_NAME.search(text)
            if match and len(self.names) < MOST_TACTICS:
                self.names[match[2]] = match[1]
        elif "profiling completed" in text:
            self._spent(text)
        elif ": Fusing " in text:
            self._fusion(text)
        elif begin in ("After", "Origi"):
            match = _COUNT.match(text)
            if match and len(self.counts) < 100:
                self.counts.append((match[1], int(match[2])))
        elif text.startswith(_PHASE_STARTS):
            self.phase(text)

    def phase(self, text: str) -> None:
        """Add the time of a phase; a build of several passes has it several times."""
        for name, pattern in _PHASES.items():
            match = pattern.match(text)
            seconds = number(match[1]) if match else None
            if seconds is not None:
                self.phases[name] = self.phases.get(name, 0.0) + seconds

    def take_final(self, text: str) -> None:
        """Take a line that lists a layer of the finished engine."""
        match = _FINAL.match(text)
        if match and len(self.final) < MOST_LAYERS:
            self.final[match[2]] = (match[1], match[3])

    def _layer(self, name: str, runner: str) -> _Layer | None:
        found = self.layers.get(name)
        if found is None and len(self.layers) < MOST_LAYERS:
            found = self.layers[name] = _Layer(name, runner)
        return found

    def _runner(self, text: str) -> None:
        match = _RUNNER.match(text)
        if match:
            self.current = self._layer(match[1], match[2])

    def _tactic(self, text: str) -> None:
        match = _TACTIC.match(text)
        if match is None:
            self.skipped += _SKIPPED.match(text) is not None
            return
        self.tried += 1
        time_ms = number(match[3])
        if self.current is not None and time_ms is not None:
            keep = self.kept < MOST_TACTICS
            name = match[1] or self.names.get(match[2])
            self.kept += self.current.add(match[2], name, time_ms, keep=keep)

    def _spent(self, text: str) -> None:
        match = _SPENT.match(text)
        layer = self._layer(match[1], match[2]) if match else None
        seconds = number(match[3]) if match else None
        if layer is not None and seconds is not None:
            layer.spent_s = (layer.spent_s or 0.0) + seconds

    def _fusion(self, text: str) -> None:
        match = _FUSION.match(text)
        if match and len(self.fusions) < MOST_FUSIONS:
            self.fusions.setdefault((match[1], match[2], match[3]))

    def trace(self) -> BuildTrace | None:
        """Find all that was gathered, ``None`` when the log was not verbose."""
        if not (self.layers or self.final or self.fusions or self.phases):
            return None
        names = list(dict.fromkeys((*self.final, *self.layers)))
        return BuildTrace(
            layers=tuple(self._tuning(name) for name in names),
            phases_s=dict(self.phases),
            fusions=tuple(self.fusions),
            layer_counts=tuple(self.counts),
            tactics_tried=self.tried,
            tactics_skipped=self.skipped,
        )

    def _tuning(self, name: str) -> LayerTuning:
        runner, chosen = self.final.get(name, (None, None))
        found = self.layers.get(name)
        if found is None:
            tactic = Tactic(id=chosen) if chosen else None
            return LayerTuning(name=name, runner=runner, chosen=tactic)
        return found.tuning(runner=runner, chosen=chosen)


class _Layer:
    """One layer while its tactics are tried."""

    def __init__(self, name: str, runner: str) -> None:
        self.name = name
        self.runner = runner
        self.chosen: str | None = None
        self.tried = 0
        self.timed_ms = 0.0
        self.spent_s: float | None = None
        self.tactics: dict[str, tuple[str | None, float]] = {}

    def add(self, id: str, name: str | None, time_ms: float, *, keep: bool) -> bool:
        """Count a tactic; say whether it was kept by name."""
        self.tried += 1
        self.timed_ms += time_ms
        known = self.tactics.get(id)
        if known is not None:
            if time_ms < known[1]:
                self.tactics[id] = (name or known[0], time_ms)
            return False
        if keep:
            self.tactics[id] = (name, time_ms)
        return keep

    def tuning(self, *, runner: str | None, chosen: str | None) -> LayerTuning:
        best = heapq.nsmallest(FASTEST, self.tactics.items(), key=lambda item: item[1][1])
        return LayerTuning(
            name=self.name,
            runner=runner or self.runner,
            chosen=self._named(chosen or self.chosen),
            tried=self.tried,
            fastest=tuple(Tactic(id=i, name=name, time_ms=ms) for i, (name, ms) in best),
            spent_s=self.spent_s,
            timed_ms=self.timed_ms,
        )

    def _named(self, id: str | None) -> Tactic | None:
        if id is None:
            return None
        name, time_ms = self.tactics.get(id, (None, None))
        return Tactic(id=id, name=name, time_ms=time_ms)
