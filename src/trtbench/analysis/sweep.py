"""Rows of a sweep, one per case with all its rounds; the best rows and the Pareto front."""

from collections.abc import Mapping, Sequence

from trtbench.analysis.summary import ColumnSummary, Summary
from trtbench.core.conditions import Condition, Content, holds, unknown_names
from trtbench.core.metrics import PERCENTILES, Better, Metric, metric
from trtbench.core.run import Finding, Scalar, Score
from trtbench.core.spec import Value

ACCURACY = "top1"
QUANTITIES = (
    "median", "mean", "min", "max", "std", "cov", "gpu", "gpu_mean", "gpu_max", "throughput",
    "items", "size", "layers", "parameters", "top1", "top5", "batch", "model", "precision",
    "runtime", "engine", "per_item", "speedup",
)  # fmt: skip
"""Quantities for conditions, besides percentiles, scores and the options of the sweep."""


def pareto_front(
    points: Sequence[Mapping[str, float | None]], *, better: Mapping[str, Better]
) -> list[int]:
    """Return the indices of the points that have all quantities and that no other one beats."""
    known: dict[int, list[float]] = {}
    for place, point in enumerate(points):
        values = [(point.get(name), way) for name, way in better.items()]
        costs = [value if way == "low" else -value for value, way in values if value is not None]
        if len(costs) == len(better):
            known[place] = costs

    def beats(one: list[float], other: list[float]) -> bool:
        return one != other and all(a <= b for a, b in zip(one, other, strict=True))

    return [
        place
        for place, mine in known.items()
        if not any(beats(other, mine) for other in known.values())
    ]


class SweepRow(Value, frozen=True, kw_only=True):
    """One case of a sweep; a case that failed has a reason and no numbers."""

    model: str
    runtime: str
    precision: str | None = None
    batch: int | None = None
    engine: str | None = None  # ``static`` or ``dynamic``, if an engine was built
    options: dict[str, Scalar] = {}
    name: str | None = None
    runs: tuple[str, ...] = ()
    reason: str | None = None
    remark: str | None = None  # what else failed: the evaluation, or a round
    summary: Summary | None = None  # over the launches of all rounds
    size_bytes: int | None = None
    layers: int | None = None
    parameters: int | None = None
    scores: dict[str, Score] = {}
    findings: tuple[Finding, ...] = ()
    on_front: bool = False  # on the Pareto front of its group, if the group has several rows
    speedup: float | None = None  # of its median, against the baseline of its group

    @property
    def head(self) -> ColumnSummary | None:
        return self.column(self.summary.headline) if self.summary else None

    @property
    def label(self) -> str:
        """The name of the row among those of its model and batch."""
        if self.name is not None:
            return self.name
        return " ".join(part for part in (self.runtime, self.precision, self.engine) if part) + (
            "".join(f" {key}={value}" for key, value in self.options.items())
        )

    def column(self, name: str) -> ColumnSummary | None:
        columns = self.summary.columns if self.summary else ()
        return next((column for column in columns if column.column == name), None)


def quantities(rows: Sequence[SweepRow]) -> list[str]:
    """Return the names that a condition on these rows may use."""
    further = [name for row in rows for name in (*row.options, *row.scores)]
    return list(dict.fromkeys((*QUANTITIES, *PERCENTILES, *further)))


def quantities_of(row: SweepRow) -> dict[str, Content]:
    """Return the quantities of a row by name; 70 % is 0.7."""
    own = ("model", "precision", "runtime", "engine", "batch", "layers", "parameters", "speedup")
    found: dict[str, Content] = {name: getattr(row, name) for name in own}
    found["size"] = row.size_bytes
    for name, value in row.options.items():
        found[name] = value if isinstance(value, str) or value is None else float(value)
    found |= {name: score.value for name, score in row.scores.items()}
    head, gpu = row.head, row.column("gpu")
    if head is not None and row.summary is not None:
        found |= {name: getattr(head, name) for name in ("median", "mean", "min", "max", "std")}
        found |= {each.name: each.value for each in head.quantiles}
        found |= {"cov": head.cov, "throughput": row.summary.queries_per_s}
        found["items"] = row.summary.items_per_s
        found["per_item"] = head.median / row.batch if row.batch else None
    if gpu is not None:
        found |= {"gpu": gpu.median, "gpu_mean": gpu.mean, "gpu_max": gpu.max}
    return found


class Chosen(Value, frozen=True, kw_only=True):
    """The rows that meet a condition, the best first."""

    rows: tuple[SweepRow, ...]
    where: str
    by: str
    unknown: dict[str, int] = {}  # unknown quantities, and the number of rows left out for it


def choose(rows: Sequence[SweepRow], condition: Condition, *, by: str) -> Chosen:
    """Return the rows that meet a condition, the best ``by`` a quantity first."""
    unknown: dict[str, int] = {}
    met = []
    baselines = {id(row): baseline for own, baseline in groups_of(rows) for row in own}
    for row in (each for each in rows if each.reason is None):
        baseline = baselines[id(row)]
        values = quantities_of(row)
        verdict = holds(condition, values, baseline=quantities_of(baseline) if baseline else None)
        if verdict:
            met.append(row)
        elif verdict is None:
            for name in unknown_names(condition, values):
                unknown[name] = unknown.get(name, 0) + 1
    better = 1.0 if _declared(by, rows).less_is_better else -1.0

    def order(row: SweepRow) -> tuple[bool, float]:
        value = quantities_of(row).get(by)
        return (False, better * value) if isinstance(value, int | float) else (True, 0.0)

    return Chosen(rows=tuple(sorted(met, key=order)), where=condition.text, by=by, unknown=unknown)


def compares_only_models(rows: Sequence[tuple[str, str]]) -> bool:
    """Whether a sweep only compares models: several, each with one label."""
    labels: dict[str, set[str]] = {}
    for model, label in rows:
        labels.setdefault(model, set()).add(label)
    return len(labels) > 1 and all(len(each) == 1 for each in labels.values())


def compares_models(rows: Sequence[SweepRow]) -> bool:
    """Whether the rows that were measured only differ in their models."""
    return compares_only_models([(row.model, row.label) for row in rows if row.summary is not None])


def groups_of(rows: Sequence[SweepRow]) -> list[tuple[list[SweepRow], SweepRow | None]]:
    """Return rows of equal model, batch and shapes, each group with its baseline.

    The model does not matter if only models are compared. The baseline is the first row of the
    group; ``None`` if it failed, unless nothing of its runtime was measured.
    """
    every, groups = compares_models(rows), dict[tuple[object, ...], list[SweepRow]]()
    batches = {row.batch for row in rows if row.batch}
    for row in rows:
        batch = row.batch or (next(iter(batches)) if len(batches) == 1 else None)
        dims = (f"{k}={v}" for k, v in row.options.items() if k.startswith("shape."))
        groups.setdefault((None if every else row.model, batch, *dims), []).append(row)
    usable = {(row.model, row.runtime) for row in rows if row.summary}
    found = []
    for own in groups.values():
        first = next((row for row in own if (row.model, row.runtime) in usable), None)
        found.append((own, first if first and first.summary else None))
    return found


def mark_best(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Return rows by group, with speed-ups and the Pareto front of latency, rate and accuracy."""
    found = []
    for own, baseline in groups_of(rows):
        points = [
            {n: v for n, v in quantities_of(row).items() if not isinstance(v, str)} for row in own
        ]
        better: dict[str, Better] = {"median": "low", "items": "high"}
        names = [name for row in own for name in row.scores]
        score = ACCURACY if ACCURACY in names else next(iter(names), None)
        way = _declared(score, rows).better if score else None
        measured = [point for point, row in zip(points, own, strict=True) if row.summary]
        if score and way and all(point.get(score) is not None for point in measured):
            better[score] = way
        front = pareto_front(points, better=better) if len(measured) > 1 else []
        base = baseline.head if baseline else None
        for place, row in enumerate(own):
            speedup = base.median / row.head.median if base and row.head else None
            found.append(row.having(on_front=place in front, speedup=speedup))
    return found


def _declared(name: str, rows: Sequence[SweepRow]) -> Metric:
    """Return the declaration of a metric: of the scores' task, else the general one."""
    scores = (row.scores[name] for row in rows if name in row.scores)
    return next((each.declared for each in scores), metric(name))
