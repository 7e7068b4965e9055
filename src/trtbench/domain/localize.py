"""Finding the nodes that cost a model its accuracy: what is asked of a worker, what it found."""

from __future__ import annotations

from trtbench.domain.comparison import Verdict
from trtbench.domain.feed import Feed
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import RunSpec, Value

Numbers = dict[str, float | None]
"""By name, as conditions know them; of equal outputs ``rel_l2`` is 0 and ``sqnr_db`` ``None``."""


class LocalizeSpec(Value, frozen=True, kw_only=True):
    """Two ONNX files, the data they are judged on, and what a repair shall meet."""

    reference: str
    candidate: str
    run: RunSpec
    """The reference as it is fed: shapes, batch, where arrays come from."""
    feed: Feed
    """Items of a task with answers are judged by its metrics, others by the outputs."""
    repair: str | None = None
    """Where the repaired file goes, in the folder of the job; ``None`` looks for no repair."""
    where: str | None = None
    """What a repaired model has to meet; ``None`` is what usual models meet."""
    max_time_s: float = 300.0
    memory_bytes: int = 2**28
    """Of intermediate tensors and prepared items to hold at a time."""


class TypeRange(Value, frozen=True, kw_only=True):
    """What a low type made of one tensor."""

    tensor: str
    what: str
    """``input``, ``weights`` or ``output`` of the node."""
    node: str
    type: str
    """FP16, BF16, INT8, FP8 ..."""
    limit: float
    """The largest magnitude the type holds there: 65504, or scale times 127."""
    largest: float
    """The largest finite magnitude that came."""
    beyond: float
    """Share of values beyond the limit: infinite in FP16, clipped in INT8 and FP8."""
    zeroed: float = 0.0
    """Share of values other than zero that became zero."""


class NodeGroup(Value, frozen=True, kw_only=True):
    """Nodes that are restored together, and what that gains."""

    node: str
    """The node it is called by, as the reference names it."""
    op: str
    nodes: tuple[str, ...]
    """All of them, as the reference names them."""
    named: tuple[str, ...]
    """Those to name to a quantizer; the others follow them."""
    position: int
    type: str
    rel_l2: float | None = None
    """At the boundary behind it: norm of the difference over norm of the reference."""
    added: float | None = None
    """Its own part of that: sqrt(own² - before²)."""
    nonfinite: int = 0
    """Values at that boundary which are not finite where the reference's are."""
    first_nonfinite: bool = False
    """Its inputs are finite and its outputs are not."""
    ranges: tuple[TypeRange, ...] = ()
    restored: Numbers = {}
    """Numbers of the model with this group alone restored; empty where time was short."""
    gain: float | None = None
    """By the metric: what restoring it alone gains."""
    sqnr_gain_db: float | None = None


class Localized(Value, frozen=True, kw_only=True):
    """What a search for the cause found: ``outcome.json``."""

    metric: str
    """What groups are ranked by: ``top1``, or ``sqnr_db`` of the outputs."""
    groups: tuple[NodeGroup, ...]
    """Ranked, what gains most first."""
    reference: Numbers
    """Metrics of the task; without one, nothing."""
    candidate: Numbers
    all_restored: Numbers
    """With every group restored that could be matched."""
    items: int
    where: str | None = None
    """What the repair had to meet."""
    repaired: Numbers = {}
    kept: tuple[str, ...] = ()
    """Groups that the repaired model keeps in the reference's precision."""
    met: bool | None = None
    """Whether the repaired model meets the condition; ``None`` when none was asked for."""
    minimal: bool = False
    """No single one of the kept groups can be left out."""
    trials: int = 0
    """Models that were run over all items."""
    one_by_one: bool = True
    """Each group was restored by itself; else the ones that mattered were found by bisection."""
    seconds: float = 0.0
    in_time: bool = True
    marks_changed_outputs: bool = False
    """Whether looking at boundaries changed the final outputs."""
    stand_in: bool = False
    """Whether FP16 or BF16 was computed in FP32 and rounded, in place of the file itself."""
    file_sqnr_db: float | None = None
    """Of the file as ONNX Runtime runs it by itself, which may leave out roundings; ``None`` where
    no stand-in was needed, or the file does not run."""
    unmatched: tuple[str, ...] = ()
    """Nodes of the reference with no boundary of their own in the candidate."""
    notes: tuple[str, ...] = ()


class Speed(Value, frozen=True, kw_only=True):
    """The repaired model against another one."""

    against: str
    runtime: str
    verdict: Verdict


class Localization(ShortView, Value, frozen=True, kw_only=True):
    """What was found, the repaired model, and how to make it again."""

    reference: str
    candidate: str
    inputs: str
    """What both ran on, in words."""
    found: Localized
    repaired: str | None = None
    """The repaired file."""
    speeds: tuple[Speed, ...] = ()
    commands: dict[str, str] = {}
    """That make such a model from the reference, by what runs them."""
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
