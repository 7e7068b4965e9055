"""What a verbose log tells about a build: tactics tried and chosen, fusions, time by phase."""

from __future__ import annotations

import itertools
import re

from trtbench.domain.spec import Value
from trtbench.trtexec._log_lines import number

MOST_LAYERS = 20_000
MOST_TACTICS = 200_000
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
_FUSION = re.compile(r"(\w{3,80}): [Ff]using (.{1,1000}) (?:with|into) (.{1,1000})")
_INNER = re.compile(r" \(\w{1,40}\)\s+(?:Autotuning op (.{1,400}?): \[|(\d{1,9}), (.{1,2000}))")
"""What the compiler of a subgraph says of one operation in it: its name, or a row of its table."""
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


_Key = tuple[str, str, "str | None"]
"""Runner, id and operation of a tactic of one layer."""


class Tactic(Value, frozen=True, kw_only=True):
    """One implementation of a layer that the builder timed, in milliseconds."""

    id: str
    name: str | None = None
    time_ms: float | None = None
    runner: str | None = None
    operation: str | None = None
    """Within a subgraph that is compiled as a whole: the operation that was tuned."""


class LayerTuning(Value, frozen=True, kw_only=True):
    """How the implementation of one layer was found."""

    name: str
    runner: str | None = None
    chosen: Tactic | None = None
    """The one in the engine or, where its layers were not listed, the last one chosen."""
    tried: int = 0
    tried_within: int = 0
    """Tactics of the operations inside, where the layer is a subgraph."""
    tactics: tuple[Tactic, ...] = ()
    """Each of them with the best of its times, the fastest first."""
    spent_s: float | None = None
    """Time that trying took, where the log says so (from TensorRT 8.6 on)."""
    timed_ms: float = 0.0
    """The times of all tactics that were tried, added up: one call of each."""

    @property
    def fastest(self) -> tuple[Tactic, ...]:
        """List the few fastest, of the layer as a whole."""
        whole = (each for each in self.tactics if each.operation is None)
        return tuple(itertools.islice(whole, FASTEST))


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
    tactics_within: int = 0
    """Those of operations inside of subgraphs, as their compiler lists them."""
    tactics_skipped: int = 0
    """For want of workspace."""
    tactics_unnamed: int = 0
    """Counted and not kept, because there are so many."""


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
        self.kernels: dict[str, str] = {}
        self.tried = self.within = self.skipped = self.kept = self.unnamed = 0
        self.runner = ""
        self.operation: str | None = None

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
        elif begin[:2] == " (":
            self._inner(text)
        elif " Set Tactic Name: " in text:
            match = _SET_NAME.search(text)
            if match and len(self.names) < MOST_TACTICS:
                self.names[match[2]] = match[1]
        elif "profiling completed" in text:
            self._spent(text)
        elif "using " in text:
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
            self.current, self.runner = self._layer(match[1], match[2]), match[2]
            self.operation = None

    def _tactic(self, text: str) -> None:
        match = _TACTIC.match(text)
        if match is None:
            self.skipped += _SKIPPED.match(text) is not None
            return
        self.tried += 1
        time_ms = number(match[3])
        if self.current is not None and time_ms is not None:
            self.current.tried += 1
            self.current.timed_ms += time_ms
            self._keep((self.runner, match[2], None), match[1] or self.names.get(match[2]), time_ms)

    def _inner(self, text: str) -> None:
        """Read a line of a subgraph's compiler: tactic, time, two ratios, kernel, hash."""
        match = _INNER.match(text)
        if match is None or self.current is None:
            return
        if match[1]:
            self.operation = match[1]
            return
        row = [each.strip() for each in match[3].split(",")]
        time_ms = number(row[0])
        if self.operation is None or time_ms is None or len(row) < 4:
            return
        self.within += 1
        self.current.within += 1
        id = row[4] if len(row) > 4 and row[4] else match[2]
        self._keep((self.runner, id, self.operation), row[3], time_ms)

    def _keep(self, key: _Key, name: str | None, time_ms: float) -> None:
        assert self.current is not None
        known = self.current.tactics.get(key)
        if known is None and self.kept >= MOST_TACTICS:
            self.unnamed += 1
        elif known is None or time_ms < known[1]:
            # Names come again and again; one of each is enough.
            one = self.kernels.setdefault(name, name) if name is not None else None
            self.current.tactics[key] = (one or (known[0] if known else None), time_ms)
            self.kept += known is None

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
            tactics_within=self.within,
            tactics_unnamed=self.unnamed,
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
        self.tried = self.within = 0
        self.timed_ms = 0.0
        self.spent_s: float | None = None
        self.tactics: dict[_Key, tuple[str | None, float]] = {}

    def tuning(self, *, runner: str | None, chosen: str | None) -> LayerTuning:
        tactics = sorted(
            (
                Tactic(id=id, name=name, time_ms=ms, runner=kind, operation=operation)
                for (kind, id, operation), (name, ms) in self.tactics.items()
            ),
            key=lambda each: each.time_ms or 0.0,
        )
        runner, id = runner or self.runner, chosen or self.chosen
        return LayerTuning(
            name=self.name,
            runner=runner,
            chosen=None if id is None else _chosen(id, runner, tactics),
            tried=self.tried,
            tried_within=self.within,
            tactics=tuple(tactics),
            spent_s=self.spent_s,
            timed_ms=self.timed_ms,
        )


def _chosen(id: str, runner: str, tactics: list[Tactic]) -> Tactic:
    """Find a tactic among those that were tried; runners may share an id."""
    same = [each for each in tactics if each.id == id and each.operation is None]
    return next((each for each in same if each.runner == runner), next(iter(same), Tactic(id=id)))
